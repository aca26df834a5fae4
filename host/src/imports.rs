//! What a policy reaches, as the host supplies it: a trait, so that a rehearsal or a test supplies another.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::bindings::{Certainty, Open, Tenure};
use crate::clock::{Clock, Steady};
use crate::floor::Floor;
use crate::gate::Gate;
use crate::lie::Lie;
use crate::limits;
use crate::rails::{Rails, Whose};
use crate::store::{Bucket, BucketInfo, Entry, Fault, Reading, Write};

pub use crate::store::queue::Ask;

/// What a bucket is for, towards a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The leases.
    Lease,
    /// The delivery plans in their build phase.
    Plans,
    /// The checks that run.
    Running,
}

/// How much a policy's message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as WASI has them; documented in wit/log.wit")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
    Critical,
}

/// The imports of one policy call. What a host does not grant is denied, which is what every default body
/// does. Documented in `wit/`.
#[async_trait]
#[expect(missing_docs, reason = "each function is documented where the contract is: in wit/")]
pub trait Imports: Send {
    fn clock(&self) -> Clock;

    fn log(&mut self, level: Level, target: &str, message: &str) {
        say(level, target, message);
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        Err(denied(&format!("to read {key:?} of the bucket {bucket:?}")))
    }

    async fn create(&mut self, bucket: Role, key: &str, _value: &[u8]) -> Result<Write, Fault> {
        Err(denied(&format!("to create {key:?} in the bucket {bucket:?}")))
    }

    async fn update(
        &mut self,
        bucket: Role,
        key: &str,
        _value: &[u8],
        expected: u64,
    ) -> Result<Write, Fault> {
        Err(denied(&format!("to update {key:?} of the bucket {bucket:?} at revision {expected}")))
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        Err(denied(&format!("to delete {key:?} of the bucket {bucket:?} at revision {expected}")))
    }

    async fn keys(&mut self, bucket: Role, _after: Option<&str>, _most: u32) -> Result<Vec<String>, Fault> {
        Err(denied(&format!("to list the bucket {bucket:?}")))
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        Err(denied(&format!("to look at the bucket {bucket:?}")))
    }

    async fn last_sequence(&mut self) -> Result<u64, Fault> {
        Err(denied("to read the bucket's revisions"))
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        Err(denied(&format!("to purge the bucket below revision {sequence}")))
    }

    async fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        Err(denied(&format!("to read the queue {queue:?}")))
    }

    async fn take(&mut self, queue: &str, _within: Duration) -> Result<Option<(u64, Ask)>, Fault> {
        Err(denied(&format!("to take from the queue {queue:?}")))
    }

    async fn hand_back(&mut self, ticket: u64, _delay: Duration) -> Result<(), Fault> {
        Err(denied(&format!("to hand back the ask {ticket}")))
    }

    async fn floor(&mut self) -> Result<u64, Fault> {
        Err(denied("to read the highest epoch issued"))
    }

    fn moved(&mut self, _was: u64, _floor: u64) {}

    /// Whether what the policy claims at the end of the call can be so. The last word, asked of a version on
    /// probation.
    ///
    /// # Errors
    /// The lie.
    async fn judge(&mut self, _claim: Claim) -> Result<(), Lie> {
        Ok(())
    }
}

/// What a policy claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The lease was taken, and this is its tenure.
    Taken(Tenure),
    /// This tenure goes on.
    Kept(Tenure),
    /// The gate of this tenure is open.
    Open(Open, Tenure),
    /// The gate of one who has no tenure is open.
    Opened(Open),
}

/// How the refusal of what a call does not grant ends.
const NOT_GRANTED: &str = "which this call does not grant";

pub(crate) fn denied(what: &str) -> Fault {
    Fault::Denied(format!("the policy asked {what}, {NOT_GRANTED}"))
}

/// Whether a policy was refused what no sound one asks for.
pub(crate) fn is_overstep(fault: &Fault) -> bool {
    matches!(fault, Fault::Denied(text) if text.ends_with(NOT_GRANTED))
}

/// A policy's words, cut, in the host's log.
fn say(level: Level, part: &str, message: &str) {
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let (part, message) = (cut(part, limits::LOG_TARGET_CHARS), cut(message, limits::LOG_MESSAGE_CHARS));
    match level {
        Level::Trace => tracing::trace!(target: "incumbent::policy", part, "{message}"),
        Level::Debug => tracing::debug!(target: "incumbent::policy", part, "{message}"),
        Level::Info => tracing::info!(target: "incumbent::policy", part, "{message}"),
        Level::Warn => tracing::warn!(target: "incumbent::policy", part, "{message}"),
        Level::Error | Level::Critical => tracing::error!(target: "incumbent::policy", part, "{message}"),
    }
}

/// Nothing but a clock: for a call that decides from its arguments.
pub(crate) struct ClockOnly(pub(crate) Clock);

#[async_trait]
impl Imports for ClockOnly {
    fn clock(&self) -> Clock {
        self.0.clone()
    }

    async fn judge(&mut self, claim: Claim) -> Result<(), Lie> {
        match claim {
            Claim::Open(open, tenure) if open.epoch != tenure.epoch => {
                Err(Lie::OtherEpoch { said: open.epoch, known: tenure.epoch })
            }
            Claim::Open(open, tenure) if open.until_ns > tenure.until_ns => {
                Err(Lie::TooLong { by: Steady(open.until_ns).since(Steady(tenure.until_ns)) })
            }
            Claim::Open(_, tenure) if matches!(tenure.certainty, Certainty::Doubted(_)) => Err(Lie::Unheld),
            Claim::Opened(_) => Err(Lie::Unheld),
            Claim::Open(..) | Claim::Taken(_) | Claim::Kept(_) => Ok(()),
        }
    }
}

/// Reading the lease bucket: for people who look.
pub(crate) struct Looking {
    pub(crate) clock: Clock,
    pub(crate) bucket: Arc<dyn Bucket>,
}

#[async_trait]
impl Imports for Looking {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        lease_role(bucket)?;
        get_from(&self.bucket, key).await
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        lease_role(bucket)?;
        keys_from(&self.bucket, after, most).await
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        lease_role(bucket)?;
        self.bucket.info().await
    }
}

/// One key of a bucket, written under the guard rails: only at revisions known to be one's own.
#[derive(Clone)]
pub(crate) struct OwnKey {
    pub(crate) clock: Clock,
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) key: String,
    pub(crate) rails: Arc<Mutex<Rails>>,
}

impl OwnKey {
    pub(crate) fn rails(&self) -> MutexGuard<'_, Rails> {
        self.rails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the key.
    pub(crate) fn is(&self, key: &str) -> Result<(), Fault> {
        if key == self.key {
            return Ok(());
        }
        Err(denied(&format!("for the key {key:?}, which is not its own {:?}", self.key)))
    }

    pub(crate) async fn get(&self) -> Result<Reading, Fault> {
        let reading = get_from(&self.bucket, &self.key).await?;
        match &reading {
            // A write of one's own that came late, meant for another bucket: over whose record, nobody knows.
            Reading::Found(entry) if self.rails().saw(entry) == Whose::Stray => {
                Ok(Reading::Erased(entry.revision))
            }
            _ => Ok(reading),
        }
    }

    /// Where nothing stands but `marker`, if that is given.
    pub(crate) async fn create(&self, value: &[u8], marker: Option<u64>) -> Result<Write, Fault> {
        let ticket = self.rails().sending(value, self.clock.now());
        let answer = match marker {
            Some(marker) => self.bucket.create_over(&self.key, value, marker).await,
            None => self.bucket.create(&self.key, value).await,
        };
        self.settle(ticket, &answer);
        answer
    }

    pub(crate) async fn update(&self, value: &[u8], expected: u64) -> Result<Write, Fault> {
        let expected = self.own_revision(expected)?;
        let ticket = self.rails().sending(value, self.clock.now());
        let answer = self.bucket.update(&self.key, value, expected).await;
        self.settle(ticket, &answer);
        answer
    }

    /// `sending` is called once it is sure to be sent. Where the bucket was known to which the record was written, the
    /// deletion leaves its marker in that one only.
    pub(crate) async fn delete(&self, expected: u64, sending: impl FnOnce() + Send) -> Result<Write, Fault> {
        let expected = self.own_revision(expected)?;
        let meant_for = self.rails().meant_for(expected);
        // Once a deletion is sent the record may be gone, whatever is answered.
        self.rails().deleting();
        sending();
        self.bucket.delete(&self.key, expected, meant_for).await
    }

    /// Write what stands there once more. Unlike a read, which may be stale, that proves that it is still one's own.
    async fn rewrite(&self) -> Result<(), Fault> {
        let gone = || Fault::Unavailable("its own record is not there any more".into());
        let (revision, value) = self.rails().standing().ok_or_else(gone)?;
        match self.update(&value, revision).await? {
            Write::Written(won) => {
                self.rails().rewrote(revision, won);
                Ok(())
            }
            Write::Stale(_) => Err(gone()),
        }
    }

    /// The revision to expect where the policy expects this one.
    fn own_revision(&self, expected: u64) -> Result<u64, Fault> {
        let rails = self.rails();
        if rails.owns(expected) {
            return Ok(rails.stands_at(expected));
        }
        drop(rails);
        let key = &self.key;
        // Not beyond what is granted: a sound policy may find a record of its own that is not known for one here.
        Err(Fault::Denied(format!(
            "the policy asked to write {key:?} at revision {expected}, which is not known to be its own"
        )))
    }

    /// Keeps the books of one write.
    fn settle(&self, ticket: u64, answer: &Result<Write, Fault>) {
        let mut rails = self.rails();
        match answer {
            Ok(Write::Written(revision)) => rails.acknowledged(ticket, *revision),
            Ok(Write::Stale(_)) => rails.refused(ticket),
            // It may have been applied, or may be yet.
            Err(Fault::Unknown(_)) => {}
            Err(_) => rails.not_applied(ticket),
        }
    }
}

/// Standing for a lease and holding it: its own key, under the guard rails.
pub(crate) struct Standing {
    pub(crate) own: OwnKey,
    pub(crate) gate: Arc<Gate>,
    pub(crate) floor: Arc<dyn Floor>,
    pub(crate) moved: Arc<dyn Fn(u64, u64) + Send + Sync>,
    /// What stands at the key instead of a value, as the policy was told it in this call: it creates over that only.
    pub(crate) marker: u64,
    /// The highest epoch issued as the policy was told it in this call.
    pub(crate) told_floor: Option<u64>,
    /// Whether this call gives the lease back, the only one that may still write once it is finished.
    pub(crate) releasing: bool,
}

impl Standing {
    fn own_key(&self, bucket: Role, key: &str) -> Result<(), Fault> {
        lease_role(bucket)?;
        self.own.is(key)?;
        if self.own.rails().is_finished() && !self.releasing {
            // Not beyond what is granted: a sound policy may be in the middle of a try when that is given up.
            return Err(Fault::Denied(format!(
                "the policy asked to write {key:?} after the lease was given back or lost"
            )));
        }
        Ok(())
    }
}

#[async_trait]
impl Imports for Standing {
    fn clock(&self) -> Clock {
        self.own.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        lease_role(bucket)?;
        if key != self.own.key {
            return get_from(&self.own.bucket, key).await;
        }
        let reading = self.own.get().await?;
        self.marker = reading.marker();
        Ok(reading)
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        self.own.create(value, Some(self.marker)).await
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        let answer = self.own.update(value, expected).await;
        if matches!(answer, Ok(Write::Stale(_))) {
            // Refused: shut at once, whatever the policy makes of it.
            self.gate.shut();
        }
        answer
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        let gate = self.gate.clone();
        self.own.delete(expected, move || gate.shut()).await
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        lease_role(bucket)?;
        keys_from(&self.own.bucket, after, most).await
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        lease_role(bucket)?;
        let info = self.own.bucket.info().await?;
        self.own.rails().saw_bucket(info.created);
        Ok(info)
    }

    async fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.own.bucket.last_revision().await
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        let (owns, has_written) = {
            let rails = self.own.rails();
            (rails.owns_key(self.own.clock.now()), rails.latest().is_some())
        };
        match (owns, has_written) {
            (true, _) => {}
            // Not beyond what is granted: its time may have run out, or the try been given up, since a sound policy looked.
            (false, true) => {
                let why = "the policy asked to purge the bucket when its key was its own no more";
                return Err(Fault::Denied(why.into()));
            }
            (false, false) => return Err(denied("to purge the bucket without owning its key")),
        }
        if sequence > limits::EPOCH_HIGHEST {
            return Err(denied(&format!("to purge the bucket below {sequence}, above every epoch")));
        }
        // A purge may arrive late, when somebody else holds the key: from now on no epoch below it is issued.
        let below = sequence.saturating_sub(1);
        self.floor.raise(below).await.map_err(|why| Fault::Unavailable(why.to_string()))?;
        // Two may be moving at once. Whoever takes the lease from now on sees the floor that was raised, and takes nothing
        // below it; who took it before has purged this record, or somebody else has, and that shows now.
        self.own.rewrite().await?;
        self.own.rails().purging();
        let purged = self.own.bucket.purge_below(sequence).await;
        if !matches!(purged, Err(Fault::Unknown(_))) {
            self.own.rails().purged();
        }
        if purged.is_ok() {
            self.marker = 0;
        }
        purged
    }

    async fn floor(&mut self) -> Result<u64, Fault> {
        let highest = self.floor.highest().await.map_err(|why| Fault::Unavailable(why.to_string()))?;
        self.told_floor = Some(highest);
        Ok(highest)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        (self.moved)(was, floor);
    }

    async fn judge(&mut self, claim: Claim) -> Result<(), Lie> {
        let (tenure, above) = match claim {
            Claim::Taken(tenure) => {
                // What another instance raised it to meanwhile is no lie of the policy's. One that cannot be read is
                // found so again, and said, before the lease is believed.
                let floor = match self.told_floor {
                    Some(told) => told,
                    None => self.floor.highest().await.unwrap_or(0),
                };
                (tenure, Some(floor))
            }
            Claim::Kept(tenure) => (tenure, None),
            Claim::Open(..) | Claim::Opened(_) => return Ok(()),
        };
        let until = Steady(tenure.until_ns);
        self.own.rails().judge(tenure.epoch, tenure.revision, until, above)
    }
}

/// The lease bucket is the only one granted to a call about leases.
pub(crate) fn lease_role(bucket: Role) -> Result<(), Fault> {
    match bucket {
        Role::Lease => Ok(()),
        Role::Plans | Role::Running => Err(denied(&format!("for the bucket {bucket:?}"))),
    }
}

pub(crate) async fn get_from(bucket: &Arc<dyn Bucket>, key: &str) -> Result<Reading, Fault> {
    let reading = bucket.get(key).await?;
    if let Reading::Found(Entry { value, .. }) = &reading {
        crate::store::check_value(key, value)?;
    }
    Ok(reading)
}

pub(crate) async fn keys_from(
    bucket: &Arc<dyn Bucket>,
    after: Option<&str>,
    most: u32,
) -> Result<Vec<String>, Fault> {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(limits::KEYS_A_CALL);
    bucket.keys(after, most).await
}

#[cfg(test)]
mod tests;
