//! What operators do to leases that are not their own: ask a holder to give way, and clear away what is no holder.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};

use crate::bindings::Request;
use crate::clock::Clock;
use crate::imports::{Imports, Role, denied, get_from, lease_role};
use crate::lease::{LeaseError, current};
use crate::policy::Policy;
use crate::rails::is_marked;
use crate::store::{Bucket, BucketInfo, Entry, Fault, Reading, Write, check_key};

/// In whose name somebody is asked to give way, bytes.
const BY_BYTES: usize = 200;

/// How often one looks whether a record that is waited for is still there.
const LOOK: Duration = Duration::from_millis(500);

/// Ask whoever holds a lease to give way, in the name of `by`: at its next renewal it shuts its gate, ends what
/// acts, and gives the lease back. One that is gone, or too old to know the mark, is not renewed past it either.
///
/// # Errors
/// The record cannot be read or written, is no holder, or `by` does not fit.
pub async fn step_down(
    policy: &Policy,
    bucket: &Arc<dyn Bucket>,
    clock: &Clock,
    lease: &str,
    by: &str,
) -> Result<Request, LeaseError> {
    check_key(lease).map_err(LeaseError::Store)?;
    if by.is_empty() || by.len() > BY_BYTES || by.contains(char::is_control) {
        return Err(LeaseError::Misfit(format!(
            "the name in which a holder is asked to give way must have 1 to {BY_BYTES} plain bytes"
        )));
    }
    let asking = Asking { clock: clock.clone(), bucket: bucket.clone(), key: lease.into(), seen: None };
    Ok(policy.step_down(asking, lease, by).await??)
}

/// How clearing a lease's record away ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It was deleted.
    Deleted,
    /// It aged out while it was waited for.
    AgedOut,
    /// There was none.
    Nothing,
}

/// Clear away a record that is no holder, so that the lease can be taken.
///
/// It may have been written over a holder's own, whose gate is then still open: so it is deleted only after it
/// has stood unchanged for the bucket's ttl, by when every such gate is shut. That long this takes; a bucket
/// without a ttl holds no leases, and is not waited for.
///
/// # Errors
/// [`LeaseError::Taken`]: it is a holder, and not touched. It was written anew meanwhile, or cannot be read or
/// deleted.
pub async fn clear(
    policy: &Policy,
    bucket: &Arc<dyn Bucket>,
    clock: &Clock,
    lease: &str,
) -> Result<Cleared, LeaseError> {
    check_key(lease).map_err(LeaseError::Store)?;
    let BucketInfo { created, ttl, .. } = bucket.info().await.map_err(LeaseError::Store)?;
    let Some(entry) = standing(bucket, lease).await? else { return Ok(Cleared::Nothing) };
    // It may have been written just before the answer.
    let begun = Instant::now();
    match current(policy, bucket, clock, lease).await {
        Err(LeaseError::NotAHolder(_)) => {}
        Err(why) => return Err(why),
        Ok(Some(holder)) => return Err(LeaseError::Taken(Box::new(holder))),
        Ok(None) => return Ok(Cleared::Nothing),
    }
    let anew =
        || LeaseError::Unsure(Fault::Unavailable(format!("{lease:?} was written anew; look, and try again")));
    loop {
        match standing(bucket, lease).await? {
            None => return Ok(Cleared::AgedOut),
            Some(now) if now != entry => return Err(anew()),
            Some(_) if begun.elapsed() >= ttl => break,
            Some(_) => sleep_until((Instant::now() + LOOK).min(begun + ttl)).await,
        }
    }
    // Raised again and written by the same bytes: as good as anew.
    if bucket.info().await.map_err(LeaseError::Store)?.created != created {
        return Err(anew());
    }
    match bucket.delete(lease, entry.revision, Some(created)).await.map_err(LeaseError::Store)? {
        Write::Written(_) => Ok(Cleared::Deleted),
        Write::Stale(_) => match standing(bucket, lease).await? {
            None => Ok(Cleared::AgedOut),
            Some(_) => Err(anew()),
        },
    }
}

async fn standing(bucket: &Arc<dyn Bucket>, lease: &str) -> Result<Option<Entry>, LeaseError> {
    match bucket.get(lease).await.map_err(LeaseError::Store)? {
        Reading::Found(entry) => Ok(Some(entry)),
        Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => Ok(None),
    }
}

/// Marking a record that is somebody else's, which is all that is granted.
struct Asking {
    clock: Clock,
    bucket: Arc<dyn Bucket>,
    key: String,
    seen: Option<Entry>,
}

impl Asking {
    fn own_key(&self, bucket: Role, key: &str) -> Result<(), Fault> {
        lease_role(bucket)?;
        if key == self.key {
            return Ok(());
        }
        Err(denied(&format!("for the key {key:?}, where {:?} is asked to give way", self.key)))
    }
}

#[async_trait]
impl Imports for Asking {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        self.own_key(bucket, key)?;
        let reading = get_from(&self.bucket, key).await?;
        self.seen = match &reading {
            Reading::Found(entry) => Some(entry.clone()),
            _ => None,
        };
        Ok(reading)
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        let seen = self.seen.as_ref().filter(|seen| seen.revision == expected);
        if !seen.is_some_and(|seen| is_marked(value, &seen.value, Some(expected))) {
            return Err(denied(&format!(
                "to change more of {key:?} than the mark that asks its holder to give way"
            )));
        }
        self.bucket.update(key, value, expected).await
    }
}
