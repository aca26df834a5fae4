//! Work queues in this process's memory: the specification of the [contract](crate::store::queue).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Memory;
use crate::clock::Steady;
use crate::store::Fault;
use crate::store::queue::{Ask, Queue, QueueInfo, Taken, check_ask};

/// One queue's asks.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) ack_wait: Duration,
    last_sequence: u64,
    asks: BTreeMap<u64, Record>,
    wake: watch::Sender<()>,
}

#[derive(Debug)]
struct Record {
    ask: Ask,
    deliveries: u64,
    /// A taken ask is its taker's until then, a handed back one waits until then; zero when never taken.
    again_at: Steady,
    /// Whether it was handed back: nobody's, though it was taken.
    handed_back: bool,
}

impl Asks {
    pub(super) fn new(ack_wait: Duration) -> Self {
        Self { ack_wait, last_sequence: 0, asks: BTreeMap::new(), wake: watch::Sender::new(()) }
    }

    /// The next one to give: those to be given again first.
    fn give(&mut self, now: Steady) -> Option<(Ask, u64)> {
        let until = now.plus(self.ack_wait);
        let due = || self.asks.values().filter(|record| record.again_at <= now);
        let next = due().find(|record| record.deliveries > 0).or_else(|| due().next())?.ask.sequence;
        let record = self.asks.get_mut(&next)?;
        record.deliveries += 1;
        record.again_at = until;
        record.handed_back = false;
        Some((record.ask.clone(), record.deliveries))
    }

    /// When the next one comes to be given again, of those that were taken.
    fn again_at(&self) -> Option<Steady> {
        self.asks.values().map(|record| record.again_at).min()
    }
}

#[derive(Clone, Debug)]
pub(super) struct MemoryQueue {
    pub(super) store: Memory,
    pub(super) name: String,
}

impl MemoryQueue {
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Asks, Steady) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let now = self.store.clock.now();
        let mut shared = self.store.lock();
        let asks = shared.queues.get_mut(&self.name).ok_or_else(|| {
            let name = &self.name;
            Fault::MissingBucket(format!(
                "the queue {name:?} does not exist in memory; create it: incumbent queue create {name}"
            ))
        })?;
        work(asks, now)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    fn name(&self) -> &str {
        &self.name
    }

    async fn put(&self, body: &[u8]) -> Result<u64, Fault> {
        check_ask(&self.name, body)?;
        let stored = self.store.clock.wall().duration_since(SystemTime::UNIX_EPOCH).ok();
        self.with(|asks, _| {
            asks.last_sequence += 1;
            let ask = Ask { sequence: asks.last_sequence, stored, body: body.into() };
            let record = Record { ask, deliveries: 0, again_at: Steady(0), handed_back: false };
            asks.asks.insert(asks.last_sequence, record);
            asks.wake.send_replace(());
            Ok(asks.last_sequence)
        })
    }

    async fn oldest_waiting(&self) -> Result<Option<Ask>, Fault> {
        self.with(|asks, now| {
            Ok(asks.asks.values().find(|record| record.again_at <= now).map(|record| record.ask.clone()))
        })
    }

    async fn take(&self, within: Duration) -> Result<Option<Box<dyn Taken>>, Fault> {
        let start = Instant::now();
        let deadline = start.checked_add(within).unwrap_or(start + FOR_EVER);
        let mut wake = self.with(|asks, _| Ok(asks.wake.subscribe()))?;
        loop {
            wake.mark_unchanged();
            let (given, again_in) = self.with(|asks, now| {
                let given = asks.give(now);
                Ok((given, asks.again_at().map(|at| at.since(now))))
            })?;
            if let Some((ask, deliveries)) = given {
                return Ok(Some(Box::new(MemoryTaken { queue: self.clone(), ask, deliveries })));
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            // A clock moved by hand brings nothing by itself; then this is one more look.
            let look = again_in.map_or(deadline, |again| deadline.min(now + again));
            let _ = tokio::time::timeout_at(look, wake.changed()).await;
        }
    }

    async fn info(&self) -> Result<QueueInfo, Fault> {
        self.with(|asks, _| {
            let waiting = asks.asks.values().filter(|record| record.deliveries == 0).count() as u64;
            let taken = asks.asks.len() as u64 - waiting;
            Ok(QueueInfo { ack_wait: asks.ack_wait, waiting, taken })
        })
    }
}

#[derive(Debug)]
struct MemoryTaken {
    queue: MemoryQueue,
    ask: Ask,
    deliveries: u64,
}

impl MemoryTaken {
    /// Work on the record, while it is this taker's.
    fn own<T>(&self, work: impl FnOnce(&mut Asks, Steady) -> T) -> Result<T, Fault> {
        self.queue.with(|asks, now| match asks.asks.get(&self.ask.sequence) {
            Some(record) if record.deliveries == self.deliveries && !record.handed_back => {
                Ok(work(asks, now))
            }
            _ => Err(Fault::Denied(format!(
                "the ask {} of the queue {} is this taker's no more",
                self.ask.sequence, self.queue.name
            ))),
        })
    }
}

#[async_trait]
impl Taken for MemoryTaken {
    fn ask(&self) -> &Ask {
        &self.ask
    }

    fn deliveries(&self) -> u64 {
        self.deliveries
    }

    async fn working(&self) -> Result<(), Fault> {
        self.own(|asks, now| {
            let until = now.plus(asks.ack_wait);
            if let Some(record) = asks.asks.get_mut(&self.ask.sequence) {
                record.again_at = until;
            }
        })
    }

    async fn done(&self) -> Result<(), Fault> {
        self.own(|asks, _| {
            asks.asks.remove(&self.ask.sequence);
        })
    }

    async fn hand_back(&self, delay: Duration) -> Result<(), Fault> {
        self.own(|asks, now| {
            if let Some(record) = asks.asks.get_mut(&self.ask.sequence) {
                record.again_at = now.plus(delay);
                record.handed_back = true;
            }
            asks.wake.send_replace(());
        })
    }
}

/// What a wait beyond the end of the clock is cut to: ten years.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
