//! What is explored: how many instances, for how long, and which faults may come how often.

use incumbent_policy::lease::Vacancy;

use crate::check::Invariant;
use crate::sometimes::Sometimes;

/// The most instances that a state has room for.
pub(crate) const INSTANCES: usize = 3;

/// The most writes that may be on their way without anybody waiting for their answer.
pub(crate) const LATE: usize = 4;

/// The timings of the lease, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// How long a record lives.
    pub ttl: u8,
    /// How often the holder renews.
    pub renew: u8,
    /// How long before the record could expire the gate shuts.
    pub margin: u8,
}

/// What becomes of a record that was not written again for a ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The store vouches for its age.
    Marked,
    /// It is merely absent.
    Unmarked,
    /// Either, as the store likes.
    Either,
}

/// How often each thing may come, in one run from the beginning to the end. Being slow, or standing still, needs no
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A candidate looks whether it can take the lease. No fault, but what bounds a run.
    pub looks: u8,
    /// A write was applied, a read served, and the answer is lost.
    pub lost_answer: u8,
    /// A write gets no answer, and is applied later, whenever that is, or never.
    pub late: u8,
    /// A write that was applied arrives once more, whenever that is.
    pub duplicate: u8,
    /// A write or a read is refused for certain, for a passing reason.
    pub unavailable: u8,
    /// A write is refused for certain, and not for a passing reason.
    pub denied: u8,
    /// A read tells what stood before the last change.
    pub stale: u8,
    /// The host cuts off a call that takes longer than its bound.
    pub cut: u8,
    /// An instance dies.
    pub crash: u8,
    /// A holder gives the lease back.
    pub release: u8,
    /// An operator asks the holder to give way.
    pub ask: u8,
    /// The bucket is raised again from nothing.
    pub wipe: u8,
    /// The store forgets a create that it acknowledged, and gives its revision again.
    pub forget_create: u8,
    /// The store forgets a renewal that it acknowledged, and gives its revision again.
    pub forget_renewal: u8,
    /// The store's clock steps ahead by one tick.
    pub step: u8,
    /// An instance's clock gains a tick.
    pub gains: u8,
    /// An instance's clock loses a tick.
    pub loses: u8,
}

impl Faults {
    /// The writes that may be on their way with nobody waiting for them, at the most.
    pub(crate) fn late_writes(&self) -> usize {
        [self.late, self.duplicate, self.cut, self.crash, self.release].iter().map(|n| usize::from(*n)).sum()
    }

    /// Whether a revision may be given again, from now on.
    pub(crate) fn revisions_fall(&self) -> bool {
        self.wipe + self.forget_create + self.forget_renewal > 0
    }
}

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many instances stand for the lease.
    pub instances: u8,
    /// How many lease objects each instance may make, one after another. A new one knows nothing of the one before
    /// but what its floor says.
    pub objects: u8,
    /// How many instances may be in the middle of something while a tick passes; the others come to rest within one
    /// tick, but may rest for as long as they like.
    pub slow: u8,
    /// The ticks until the end.
    pub horizon: u8,
    /// The lease's timings.
    pub ticks: Ticks,
    /// What an absence is worth.
    pub rule: Vacancy,
    /// What becomes of an old record.
    pub expiry: Expiry,
    /// Whether the instances share one floor, or each keeps its own.
    pub one_floor: bool,
    /// The faults.
    pub faults: Faults,
    /// What is looked at in every state.
    pub judged: Vec<Invariant>,
    /// What has to happen at some time, or the run shows nothing.
    pub sometimes: Vec<Sometimes>,
    /// No more than about so many states.
    pub most: u64,
    /// How many threads, one or two.
    pub threads: usize,
}

impl Config {
    /// Two instances and no fault.
    #[must_use]
    pub fn two(horizon: u8) -> Self {
        Self {
            instances: 2,
            objects: 1,
            slow: 1,
            horizon,
            ticks: Ticks { ttl: 4, renew: 2, margin: 1 },
            rule: Vacancy::Watched,
            expiry: Expiry::Marked,
            one_floor: true,
            faults: Faults { looks: 4, ..Faults::default() },
            judged: Invariant::ALL.to_vec(),
            sometimes: Vec::new(),
            most: u64::MAX,
            threads: 1,
        }
    }
}
