//! The plainest store: everything in this process, and gone with it. It is the contract's
//! specification: where another backend answers otherwise, the other one is wrong.

mod queue;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use self::queue::{Asks, MemoryQueue};
use super::queue::{Queue, QueueConfig, check_queue};
use super::{
    Bucket, BucketConfig, BucketInfo, Entry, Fault, Reading, Store, Watch, Write, check_config, check_key,
    check_purge, check_value,
};
use crate::clock::{Clock, Steady};

/// A store in memory. Clones share what it holds.
#[derive(Clone, Debug)]
pub struct Memory {
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

impl Memory {
    /// An empty store whose keys age by `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// Drop a bucket and all that it holds, its revisions too, as an operator's slip would. Whether it
    /// was there. Handles of it find no bucket, or the one raised next under its name.
    pub fn drop_bucket(&self, name: &str) -> bool {
        self.lock().buckets.remove(name).is_some()
    }

    /// What a bucket holds, to be brought back by [`restore`](Self::restore).
    pub(crate) fn saved(&self, name: &str) -> Option<Saved> {
        let shared = self.lock();
        let state = shared.buckets.get(name)?;
        Some(Saved { last_revision: state.last_revision, records: state.records.clone() })
    }

    /// Bring a bucket back to what it held; it stays the same bucket.
    pub(crate) fn restore(&self, name: &str, saved: Saved) {
        if let Some(state) = self.lock().buckets.get_mut(name) {
            (state.last_revision, state.records) = (saved.last_revision, saved.records);
            state.wake.send_replace(());
        }
    }

    /// Drop a key without a marker and without a word. Whether it was there.
    pub(crate) fn forget(&self, name: &str, key: &str) -> bool {
        self.lock().buckets.get_mut(name).is_some_and(|state| state.records.remove(key).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing panics between two changes that belong together, so what a panic left is whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, name: &str) -> MemoryBucket {
        MemoryBucket { store: self.clone(), name: name.into() }
    }
}

#[async_trait]
impl Store for Memory {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        let bucket = self.handle(name);
        bucket.with(|_, _| Ok(()))?;
        Ok(Arc::new(bucket))
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        check_config(name, config)?;
        if config.replicas != 1 {
            return Err(Fault::Denied(format!(
                "the bucket {name} cannot have {} replicas: memory is one process; give it 1",
                config.replicas
            )));
        }
        let mut shared = self.lock();
        match shared.buckets.get(name) {
            Some(there) if there.ttl == config.ttl => {}
            Some(there) => {
                return Err(Fault::Denied(format!(
                    "the bucket {name} has a ttl of {:?}, not {:?}; use that, or another bucket",
                    there.ttl, config.ttl
                )));
            }
            None => {
                shared.raised += 1;
                let state = State {
                    created: shared.raised,
                    ttl: config.ttl,
                    last_revision: 0,
                    records: BTreeMap::new(),
                    wake: watch::Sender::new(()),
                };
                shared.buckets.insert(name.into(), state);
            }
        }
        Ok(Arc::new(self.handle(name)))
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        let queue = MemoryQueue { store: self.clone(), name: name.into() };
        queue.with(|_, _| Ok(()))?;
        Ok(Arc::new(queue))
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        check_queue(name, config)?;
        if config.replicas != 1 {
            return Err(Fault::Denied(format!(
                "the queue {name} cannot have {} replicas: memory is one process; give it 1",
                config.replicas
            )));
        }
        let there =
            self.lock().queues.entry(name.into()).or_insert_with(|| Asks::new(config.ack_wait)).ack_wait;
        if there != config.ack_wait {
            return Err(Fault::Denied(format!(
                "the queue {name} has an ack wait of {there:?}, not {:?}; use that, or another queue",
                config.ack_wait
            )));
        }
        self.queue(name).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// How many buckets were ever raised.
    raised: u64,
    buckets: BTreeMap<String, State>,
    queues: BTreeMap<String, Asks>,
}

#[derive(Debug)]
struct State {
    created: u64,
    ttl: Duration,
    last_revision: u64,
    records: BTreeMap<String, Record>,
    wake: watch::Sender<()>,
}

/// What a bucket held.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    last_revision: u64,
    records: BTreeMap<String, Record>,
}

/// The last write of a key.
#[derive(Clone, Debug)]
struct Record {
    revision: u64,
    written: Steady,
    /// `None`: that write was a delete.
    value: Option<Vec<u8>>,
    /// Meant for another bucket.
    is_erased: bool,
}

impl State {
    fn read(&self, key: &str, now: Steady) -> Reading {
        let Some(record) = self.records.get(key) else { return Reading::Absent };
        match &record.value {
            None if record.is_erased => Reading::Erased(record.revision),
            None => Reading::Deleted(record.revision),
            Some(_) if now.since(record.written) >= self.ttl => Reading::Aged(record.revision),
            Some(value) => Reading::Found(Entry { revision: record.revision, value: value.clone() }),
        }
    }

    /// Write `value` (`None`: a delete) where `expected` is the revision of the key's value (`None`: where
    /// it has no value).
    fn write(
        &mut self,
        key: &str,
        value: Option<&[u8]>,
        expected: Option<u64>,
        now: Steady,
    ) -> Result<Write, Fault> {
        let standing = match self.read(key, now) {
            Reading::Found(entry) => Some(entry),
            _ => None,
        };
        if standing.as_ref().map(|entry| entry.revision) != expected {
            return Ok(Write::Stale(standing));
        }
        self.last_revision += 1; // A purge cannot bring it near the end: see `check_purge`.
        let value = value.map(<[u8]>::to_vec);
        let record = Record { revision: self.last_revision, written: now, value, is_erased: false };
        self.records.insert(key.into(), record);
        // Markers go in the end, or a bucket of ever new names would grow for ever.
        self.records.retain(|_, record| now.since(record.written) < self.ttl * 2);
        self.wake.send_replace(());
        Ok(Write::Written(self.last_revision))
    }
}

#[derive(Clone, Debug)]
struct MemoryBucket {
    store: Memory,
    name: String,
}

impl MemoryBucket {
    fn with<T>(&self, act: impl FnOnce(&mut State, Steady) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut shared = self.store.lock();
        let now = self.store.clock.now();
        match shared.buckets.get_mut(&self.name) {
            Some(state) => act(state, now),
            None => Err(Fault::MissingBucket(format!(
                "there is no bucket {0:?} in memory; create it: incumbent bucket create {0}",
                self.name
            ))),
        }
    }
}

#[async_trait]
impl Bucket for MemoryBucket {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        check_key(key)?;
        self.with(|state, now| Ok(state.read(key, now)))
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        self.with(|state, now| state.write(key, Some(value), None, now))
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        self.with(|state, now| {
            let reading = state.read(key, now);
            if reading.marker() != marker {
                return Ok(Write::Stale(None));
            }
            state.write(key, Some(value), None, now)
        })
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        self.with(|state, now| state.write(key, Some(value), Some(expected), now))
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        check_key(key)?;
        self.with(|state, now| {
            let write = state.write(key, None, Some(expected), now)?;
            // Told in time here; but this is what the weakest store does.
            let is_erased = meant_for.is_some_and(|created| created != state.created);
            if let (Write::Written(_), Some(record)) = (&write, state.records.get_mut(key)) {
                record.is_erased = is_erased;
            }
            Ok(write)
        })
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        self.with(|state, now| {
            let live = |key: &&String| matches!(state.read(key, now), Reading::Found(_));
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let keys = state.records.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
            Ok(keys.filter(live).take(most).cloned().collect())
        })
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        self.with(|state, _| Ok(BucketInfo { created: state.created, ttl: state.ttl, markers: true }))
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        self.with(|state, _| Ok(state.last_revision))
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        check_purge(&self.name, revision)?;
        self.with(|state, _| {
            let before = state.records.len();
            state.records.retain(|_, record| record.revision >= revision);
            state.last_revision = state.last_revision.max(revision - 1);
            state.wake.send_replace(());
            Ok((before - state.records.len()) as u64)
        })
    }

    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault> {
        check_key(key)?;
        self.with(|state, now| {
            let (seen, wake) = (state.read(key, now), state.wake.subscribe());
            Ok(Box::new(MemoryWatch { bucket: self.clone(), key: key.into(), seen, wake }) as Box<dyn Watch>)
        })
    }
}

struct MemoryWatch {
    bucket: MemoryBucket,
    key: String,
    seen: Reading,
    /// Of the bucket that the watch began with.
    wake: watch::Receiver<()>,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn changed(&mut self) -> bool {
        loop {
            // Before the look, so that a change during it is not missed.
            self.wake.mark_unchanged();
            let looked = self.bucket.with(|state, now| {
                let written = state.records.get(&self.key).map_or(now, |record| record.written);
                Ok((state.read(&self.key, now), written.plus(state.ttl).since(now)))
            });
            let Ok((reading, left)) = looked else { return false };
            if reading != self.seen {
                self.seen = reading;
                return true;
            }
            // A clock moved by hand ages nothing by itself; then this is one more look.
            let aged = async {
                match self.seen {
                    Reading::Found(_) => tokio::time::sleep(left).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                woken = self.wake.changed() => if woken.is_err() { return false },
                () = aged => {}
            }
        }
    }
}
