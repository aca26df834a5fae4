//! Orders drawn by a seed, with shuttle: each step between two uses of a lock, a counter or the clock may be followed by
//! another thread's. Half of them are drawn evenly, half by priorities, which finds what takes few preemptions.
//!
//! The sources are the host's (`build.rs`); what they stand on is in `stage`. Of tokio's primitives each call is one
//! step. The memory is sequentially consistent here: weaker orders of the gate's are loom's affair.

mod acts;
mod line;
mod rails;
mod stage;
mod swap;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// What the copied sources have for `std::sync`.
mod sync {
    pub(crate) use std::sync::{Arc, OnceLock, PoisonError};

    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
}

/// A model, and what it shows.
#[derive(Debug)]
pub struct Model {
    /// What holds in every order.
    pub name: &'static str,
    run: fn(),
}

/// Every model.
pub const MODELS: &[Model] = &[
    Model {
        name: "no act passes late, and none is under way once it is quiet",
        run: acts::kept_and_given_back,
    },
    Model { name: "a gate opened after its time lets nobody pass", run: acts::opened_too_late },
    Model { name: "whoever lost it in the middle of acts lets nobody pass", run: acts::lost },
    Model {
        name: "every version has one verdict, and no caller sees another",
        run: swap::versions_come_and_go,
    },
    Model { name: "a version that failed does not serve again", run: swap::callers_blame_one },
    Model { name: "one has the turn, and nobody waits for ever", run: line::candidates_come_and_go },
    Model { name: "only what was acknowledged or seen is owned", run: rails::writes_and_answers },
];

/// Orders drawn with one seed.
const PART: u64 = 2000;

/// Preemptions of the orders that are drawn by priorities.
const DEPTH: usize = 4;

/// Draws so many orders of all models together, on every core, from `seed` on. Answers how many were run.
///
/// # Errors
/// The model, how it was drawn and what it showed; shuttle has printed the order.
pub fn run(orders: u64, seed: u64) -> Result<u64, String> {
    let models = u64::try_from(MODELS.len()).unwrap_or(u64::MAX);
    let parts = orders.div_ceil(models * PART).next_multiple_of(2);
    let each = PART.min(orders.div_ceil(models * parts));
    let tasks: Vec<_> = (0..parts).flat_map(|part| MODELS.iter().map(move |model| (model, part))).collect();
    let (next, ran) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = || -> Result<(), String> {
        while let Some((model, part)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            ran.fetch_add(draw(model, seed + part, each)?, Ordering::Relaxed);
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
    Ok(ran.into_inner())
}

/// Runs a model in orders drawn by this seed: an even one evenly, an odd one by priorities.
fn draw(model: &Model, seed: u64, orders: u64) -> Result<u64, String> {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    // That weaker orders of memory are taken for the strongest.
    config.silence_warnings = true;
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
