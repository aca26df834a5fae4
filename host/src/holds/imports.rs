//! What each side's policy calls may reach.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::LET_THROUGH;
use super::authority::{Authority, NotInOffice};
use super::event::SayOnce;
use super::places::Places;
use super::source::{Fetched, Source};
use crate::clock::Clock;
use crate::imports::{Ask, Imports, OwnKey, Role, denied, get_from, keys_from};
use crate::limits;
use crate::store::{BucketInfo, Fault, Reading, Write};

/// Reading both buckets.
pub(super) struct Reader {
    clock: Clock,
    places: Arc<Places>,
}

impl Reader {
    pub(super) fn new(clock: &Clock, places: &Arc<Places>) -> Self {
        Self { clock: clock.clone(), places: places.clone() }
    }
}

#[async_trait]
impl Imports for Reader {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        get_from(self.places.bucket(bucket).await?, key).await
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        keys_from(self.places.bucket(bucket).await?, after, most).await
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        self.places.bucket(bucket).await?.info().await
    }
}

/// Taking one check under the let-through key, and keeping that key.
#[derive(Clone)]
pub(super) struct LettingThrough {
    pub(super) key: OwnKey,
    pub(super) sources: Arc<[Arc<Source>]>,
    /// What was taken, by its ticket.
    pub(super) taken: Arc<Mutex<BTreeMap<u64, Fetched>>>,
    pub(super) said: Arc<SayOnce>,
}

impl LettingThrough {
    pub(super) fn taken(&self) -> MutexGuard<'_, BTreeMap<u64, Fetched>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, name: &str) -> Result<&Arc<Source>, Fault> {
        self.sources
            .iter()
            .find(|source| source.name() == name)
            .ok_or_else(|| denied(&format!("for the queue {name:?}, which is none of its own")))
    }

    fn own_key(&self, bucket: Role, key: &str) -> Result<(), Fault> {
        match bucket {
            Role::Running => self.key.is(key),
            Role::Lease | Role::Plans => Err(denied(&format!("for the bucket {bucket:?}"))),
        }
    }
}

#[async_trait]
impl Imports for LettingThrough {
    fn clock(&self) -> Clock {
        self.key.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        self.own_key(bucket, key)?;
        self.key.get().await
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        self.key.create(value, None).await
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        self.key.update(value, expected).await
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.own_key(bucket, key)?;
        self.key.delete(expected, || ()).await
    }

    async fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        let oldest = self.source(queue)?.queue.oldest_waiting().await;
        let about =
            format!("the oldest check of the queue {queue} cannot be read, so the queue is passed over");
        self.said.value(&about, oldest.as_ref().map(|_| ()));
        Ok(oldest?.map(shown))
    }

    async fn take(&mut self, queue: &str, within: Duration) -> Result<Option<(u64, Ask)>, Fault> {
        // One check is let through at a time, so one is taken in a call.
        if self.key.rails().latest().is_none() || !self.taken().is_empty() {
            return Err(denied("to take a check without the let-through key, or a second one"));
        }
        let within = within.min(limits::LET_THROUGH_FETCH);
        let Some(fetched) = self.source(queue)?.fetch(&self.key.clock, within).await? else {
            return Ok(None);
        };
        let (ticket, ask) = (fetched.taken.ask().sequence, shown(fetched.taken.ask().clone()));
        self.taken().insert(ticket, fetched);
        Ok(Some((ticket, ask)))
    }

    async fn hand_back(&mut self, ticket: u64, delay: Duration) -> Result<(), Fault> {
        let fetched = self.taken().remove(&ticket);
        match fetched {
            Some(fetched) => fetched.hand_back(&self.key.clock, delay).await,
            None => Err(denied(&format!("to hand back the ask {ticket}, which it did not take"))),
        }
    }
}

/// An ask as a policy sees it: its id fits, what it asks for need not.
fn shown(mut ask: Ask) -> Ask {
    ask.body.truncate(limits::ASK_SHOWN_BYTES);
    ask
}

/// Saying that one plan builds.
pub(super) struct Planning {
    pub(super) clock: Clock,
    pub(super) places: Arc<Places>,
    pub(super) authority: Arc<dyn Authority>,
    pub(super) plan: String,
}

impl Planning {
    /// Whether it may be written now: every act passes the gate.
    async fn may_write(&self, bucket: Role, key: &str) -> Result<(), Fault> {
        if bucket != Role::Plans || key != self.plan {
            return Err(denied(&format!("to write {key:?} in the bucket {bucket:?}")));
        }
        self.authority.in_office().await.map(drop).map_err(|why| match why {
            NotInOffice::Over(why) => Fault::Denied(why),
            NotInOffice::Unsure(why) => Fault::Unavailable(why),
        })
    }
}

#[async_trait]
impl Imports for Planning {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        get_from(self.places.bucket(bucket).await?, key).await
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.may_write(bucket, key).await?;
        self.places.bucket(bucket).await?.create(key, value).await
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.may_write(bucket, key).await?;
        self.places.bucket(bucket).await?.update(key, value, expected).await
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.may_write(bucket, key).await?;
        self.places.bucket(bucket).await?.delete(key, expected, None).await
    }
}

/// The let-through key, under rails of its own for each taking.
pub(super) fn let_through_key(
    clock: &Clock,
    bucket: &Arc<dyn crate::store::Bucket>,
    validity: Duration,
) -> OwnKey {
    OwnKey {
        clock: clock.clone(),
        bucket: bucket.clone(),
        key: LET_THROUGH.into(),
        rails: Arc::new(Mutex::new(crate::rails::Rails::new(validity))),
    }
}

#[cfg(test)]
mod tests;
