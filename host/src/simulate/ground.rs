//! The one store of a simulation, whose record tells whose it is, and what befalls it as a whole.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use super::Mishap;
use super::oracle::Oracle;
use super::weather::Weather;
use crate::clock::Clock;
use crate::store::memory::{Memory, Saved};
use crate::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write};

/// The bucket.
pub(super) const BUCKET: &str = "leases";
/// The lease, and its key.
pub(super) const LEASE: &str = "controller";

/// Readings that a stale read may answer.
const REMEMBERED: usize = 4;

/// A write, as it is sent.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Where nothing stands but this marker, or whichever.
    Create(Vec<u8>, Option<u64>),
    Update(Vec<u8>, u64),
    /// At this revision, meant for this bucket.
    Delete(u64, Option<u64>),
    Purge(u64),
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// A lease object, by its number, of an instance.
    Object(u64, usize),
    /// An operator, who marks a record and leaves it whose it is.
    Operator,
}

/// The store.
pub(super) struct Ground {
    memory: Memory,
    clock: Clock,
    ttl: Duration,
    oracle: Arc<Oracle>,
    /// Whether it may lose a write, and so has to know what it held before.
    may_roll_back: bool,
    state: Mutex<State>,
    /// How often anything changed.
    changes: AtomicU64,
    wake: Notify,
}

#[derive(Default)]
struct State {
    writer: Option<u64>,
    /// What it held before the last write.
    before: Option<(Saved, Option<u64>)>,
    past: VecDeque<Reading>,
    /// How often it was raised, and whether this bucket's revisions were moved.
    raised: u64,
    is_moved: bool,
    /// In which of the buckets a revision was given last.
    given: HashMap<u64, u64>,
    /// Those given more than once, though not because they were moved to where others had been.
    given_again: HashSet<u64>,
    unmarked: bool,
    is_down: bool,
}

impl Ground {
    pub(super) fn new(clock: Clock, weather: &Weather, oracle: Arc<Oracle>) -> Self {
        let memory = Memory::new(clock.clone());
        let ground = Self {
            memory,
            clock,
            ttl: weather.ttl,
            oracle,
            may_roll_back: weather.has(Mishap::RolledBack),
            state: Mutex::default(),
            changes: AtomicU64::new(0),
            wake: Notify::new(),
        };
        ground.raise();
        ground
    }

    fn raise(&self) {
        let config = BucketConfig { ttl: self.ttl, replicas: 1 };
        // Memory answers at once.
        let _ = at_once(self.memory.create_bucket(BUCKET, &config));
    }

    fn bucket(&self) -> Result<Arc<dyn Bucket>, Fault> {
        at_once(self.memory.bucket(BUCKET))
    }

    /// Nothing but an answer that the store is away, while it is.
    fn up(&self) -> Result<(), Fault> {
        if self.state().is_down { Err(Fault::Unavailable("the store is away".into())) } else { Ok(()) }
    }

    pub(super) fn read(&self) -> Result<Reading, Fault> {
        self.up()?;
        let reading = at_once(self.bucket()?.get(LEASE))?;
        Ok(match reading {
            Reading::Aged(_) if self.state().unmarked => Reading::Absent,
            reading => reading,
        })
    }

    /// What was there before, where anything was.
    pub(super) fn read_past(&self, back: usize) -> Option<Reading> {
        let state = self.state();
        state.past.iter().rev().nth(back % REMEMBERED).cloned()
    }

    pub(super) fn keys(&self, most: usize) -> Result<Vec<String>, Fault> {
        self.up()?;
        at_once(self.bucket()?.keys(None, most))
    }

    pub(super) fn info(&self) -> Result<BucketInfo, Fault> {
        self.up()?;
        at_once(self.bucket()?.info())
    }

    pub(super) fn last_revision(&self) -> Result<u64, Fault> {
        self.up()?;
        at_once(self.bucket()?.last_revision())
    }

    /// Not memory's own watch, which wakes those who wait in no order.
    pub(super) fn watch(self: &Arc<Self>) -> Result<Box<dyn Watch>, Fault> {
        self.up()?;
        let seen = self.changes.load(Ordering::SeqCst);
        Ok(Box::new(Watching { ground: self.clone(), seen }))
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_waiters();
    }

    /// Do it, and see that it touches nobody else's record.
    pub(super) fn apply(&self, op: &Op, by: Writer) -> Result<Write, Fault> {
        self.up()?;
        let bucket = self.bucket()?;
        let saved = self.may_roll_back.then(|| self.memory.saved(BUCKET)).flatten();
        let before = at_once(bucket.get(LEASE))?;
        let answer = match op {
            Op::Create(value, None) => at_once(bucket.create(LEASE, value)),
            // By what a read would tell now, which may know less than the store does.
            Op::Create(value, Some(marker)) => match self.read()? {
                // A server does not look what it is that stands there: of a bucket before this one it was a marker.
                Reading::Found(entry)
                    if entry.revision == *marker && self.state().given_again.contains(marker) =>
                {
                    at_once(bucket.update(LEASE, value, *marker))
                }
                told if told.marker() == *marker => at_once(bucket.create(LEASE, value)),
                _ => Ok(Write::Stale(None)),
            },
            Op::Update(value, expected) => at_once(bucket.update(LEASE, value, *expected)),
            Op::Delete(expected, meant_for) => at_once(bucket.delete(LEASE, *expected, *meant_for)),
            Op::Purge(below) => at_once(bucket.purge_below(*below)).map(Write::Written),
        }?;
        let Write::Written(won) = answer else { return Ok(answer) };
        self.changed();
        let mut state = self.state();
        let touched = match (&before, op) {
            (Reading::Found(_), Op::Create(..) | Op::Update(..) | Op::Delete(..)) => state.writer,
            (Reading::Found(entry), Op::Purge(below)) if entry.revision < *below => state.writer,
            _ => None,
        };
        // Where a revision was given once more, by a store that forgot it or was raised again, a late write of an earlier
        // holder that quotes it wins. No policy can know better; who is written over finds his next renewal refused.
        let knew = !matches!(&before, Reading::Found(entry) if state.given_again.contains(&entry.revision));
        if matches!(op, Op::Purge(_)) {
            state.is_moved = true;
        } else {
            let raised = state.raised;
            let before = state.given.insert(won, raised);
            if before.is_some_and(|before| before == raised || !state.is_moved) {
                state.given_again.insert(won);
            }
        }
        state.before = saved.map(|saved| (saved, state.writer));
        if !matches!(op, Op::Purge(_)) {
            if state.past.len() == REMEMBERED {
                state.past.pop_front();
            }
            state.past.push_back(before);
        }
        if let Writer::Object(object, instance) = by {
            if !matches!(op, Op::Purge(_)) {
                state.writer = Some(object);
            }
            drop(state);
            if let Some(of) = touched.filter(|of| knew && *of != object) {
                self.oracle.touched(instance, object, of);
            }
            self.oracle.note(instance, "wrote", object, won, || format!("{} won revision {won}", op.words()));
        }
        Ok(answer)
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// It is raised again from nothing.
    pub(super) fn wipe(&self) -> bool {
        self.memory.drop_bucket(BUCKET);
        self.raise();
        self.changed();
        let mut state = self.state();
        let was_held = state.writer.take().is_some();
        state.past.clear();
        state.before = None;
        state.raised += 1;
        state.is_moved = false;
        was_held
    }

    /// The last write is lost, which it had acknowledged.
    pub(super) fn roll_back(&self) -> bool {
        let mut state = self.state();
        let Some((saved, writer)) = state.before.take() else { return false };
        self.memory.restore(BUCKET, saved);
        self.changed();
        state.writer = writer;
        true
    }

    /// The record is gone, without a marker.
    pub(super) fn forget(&self) -> bool {
        self.state().before = None;
        self.memory.forget(BUCKET, LEASE)
    }

    pub(super) fn set_unmarked(&self, unmarked: bool) {
        self.state().unmarked = unmarked;
    }

    pub(super) fn set_clock_ahead(&self, by: Duration) {
        self.clock.set_ahead(by);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Op {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Create(..) => "create",
            Self::Update(..) => "update",
            Self::Delete(..) => "delete",
            Self::Purge(_) => "purge",
        }
    }

    /// What befalls a write of this kind that never arrives, whose answer is lost, that arrives late, and twice.
    pub(super) fn mishaps(&self) -> [Option<Mishap>; 4] {
        match self {
            Self::Create(..) => [
                Some(Mishap::CreateUnsent),
                Some(Mishap::CreateUnheard),
                Some(Mishap::CreateLate),
                Some(Mishap::CreateRepeated),
            ],
            Self::Update(..) => [
                Some(Mishap::UpdateUnsent),
                Some(Mishap::UpdateUnheard),
                Some(Mishap::UpdateLate),
                Some(Mishap::UpdateRepeated),
            ],
            Self::Delete(..) => [
                Some(Mishap::DeleteUnsent),
                Some(Mishap::DeleteUnheard),
                Some(Mishap::DeleteLate),
                Some(Mishap::DeleteRepeated),
            ],
            Self::Purge(_) => [None, Some(Mishap::PurgeUnheard), Some(Mishap::PurgeLate), None],
        }
    }
}

/// Woken, in the order of their coming, by whatever changes; not by an age.
struct Watching {
    ground: Arc<Ground>,
    seen: u64,
}

#[async_trait]
impl Watch for Watching {
    async fn changed(&mut self) -> bool {
        loop {
            let woken = self.ground.wake.notified();
            let changes = self.ground.changes.load(Ordering::SeqCst);
            if changes != self.seen {
                self.seen = changes;
                return true;
            }
            woken.await;
        }
    }
}

/// What memory answers.
fn at_once<T>(answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    answer.now_or_never().unwrap_or_else(|| Err(Fault::Unavailable("the store thinks".into())))
}
