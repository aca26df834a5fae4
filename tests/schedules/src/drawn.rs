//! Orders drawn by a seed, with shuttle: each step between two uses of a lock or a counter may be followed by another
//! thread's. Half of them are drawn evenly, half by priorities, which finds what takes few preemptions.
//!
//! The sources are the host's (`build.rs`); what they stand on is in `stage`, and for the lease with everything in it in
//! `whole`. A call of one of tokio's primitives is a part of the step that it is in. The memory is sequentially consistent
//! here: weaker orders of the gate's are loom's affair.

mod acts;
mod line;
mod rails;
mod stage;
mod swap;
mod whole;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// What the copied sources have for `std::sync`.
mod sync {
    pub(crate) use std::sync::{Arc, PoisonError};

    pub(crate) use shuttle::sync::atomic::{self, AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Shuttle has none: each look at it is a step, and each setting.
    #[derive(Debug, Default)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        step: AtomicU64,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { value: std::sync::OnceLock::new(), step: AtomicU64::new(0) }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.step.load(Ordering::SeqCst);
            self.value.get()
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            self.step.load(Ordering::SeqCst);
            self.value.set(value)
        }
    }
}

/// A model, and what it shows.
#[derive(Debug)]
pub struct Model {
    /// What holds in every order.
    pub name: &'static str,
    run: fn(),
    /// How many orders of it are drawn with one seed.
    part: u64,
}

/// How many orders were run.
#[derive(Debug, Default)]
pub struct Ran {
    /// Of all models.
    pub all: u64,
    /// Of the whole lease.
    pub whole: u64,
    /// Of those, in how many one held it after another.
    pub followed: u64,
}

/// Every model.
pub const MODELS: &[Model] = &[
    small("no act passes late, and none is under way once it is quiet", acts::kept_and_given_back),
    small("a gate opened after its time lets nobody pass", acts::opened_too_late),
    small("whoever lost it in the middle of acts lets nobody pass", acts::lost),
    small("every version has one verdict, and no caller sees another", swap::versions_come_and_go),
    small("a version that failed does not serve again", swap::callers_blame_one),
    small("one has the turn, and nobody waits for ever", line::candidates_come_and_go),
    small("only what was acknowledged or seen is owned", rails::writes_and_answers),
    whole("one holds it, and whoever follows has a higher epoch", whole::kept_and_followed),
    whole("one of three has it, and every stand ends", whole::contended_and_cut_short),
    whole("who is cut off loses it before another has it", whole::cut_off),
];

const fn small(name: &'static str, run: fn()) -> Model {
    Model { name, run, part: 2000 }
}

/// Of the whole lease fewer are drawn: one takes twenty times as long and more.
const WHOLE: u64 = 200;

const fn whole(name: &'static str, run: fn()) -> Model {
    Model { name, run, part: WHOLE }
}

/// Of the orders that are drawn by priorities: one more than their preemptions.
const DEPTH: usize = 4;

/// A lease's calls go deeper than the stack that a task has otherwise.
const STACK: usize = 256 << 10;

/// Draws so many orders of all models together, on every core, from `seed` on.
///
/// # Errors
/// The model, how it was drawn and what it showed; shuttle has printed the order.
pub fn run(orders: u64, seed: u64) -> Result<Ran, String> {
    let a_part: u64 = MODELS.iter().map(|model| model.part).sum();
    let parts = orders.div_ceil(a_part).next_multiple_of(2);
    let tasks: Vec<_> = (0..parts).flat_map(|part| MODELS.iter().map(move |model| (model, part))).collect();
    let (next, all, ran_whole) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    whole::FOLLOWED.store(0, Ordering::Relaxed);
    let work = || -> Result<(), String> {
        while let Some((model, part)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let its = (model.part * orders).div_ceil(a_part * parts);
            let ran = draw(model, seed + part, its)?;
            all.fetch_add(ran, Ordering::Relaxed);
            if model.part == WHOLE {
                ran_whole.fetch_add(ran, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread ended".into())))
    })?;
    let followed = whole::FOLLOWED.load(Ordering::Relaxed);
    Ok(Ran { all: all.into_inner(), whole: ran_whole.into_inner(), followed })
}

/// Runs a model in orders drawn by this seed: an even one evenly, an odd one by priorities.
fn draw(model: &Model, seed: u64, orders: u64) -> Result<u64, String> {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    // That weaker orders of memory are taken for the strongest.
    config.silence_warnings = true;
    if model.part == WHOLE {
        config.stack_size = STACK;
    }
    let most = usize::try_from(orders).unwrap_or(usize::MAX);
    let evenly = seed.is_multiple_of(2);
    let ran = catch_unwind(AssertUnwindSafe(|| match evenly {
        true => Runner::new(RandomScheduler::new_from_seed(seed, most), config).run(model.run),
        false => Runner::new(PctScheduler::new_from_seed(seed, DEPTH, most), config).run(model.run),
    }));
    let how = if evenly { "evenly" } else { "by priorities" };
    let ran = ran.map_err(|_| format!("{}: it does not hold; drawn {how}, seed {seed}", model.name))?;
    Ok(u64::try_from(ran).unwrap_or(0))
}
