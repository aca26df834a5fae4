//! Every state of check holds that two or three builders and one or two deliveries can reach: the real decision
//! functions, every import one step.
//!
//! Breadth first, as the model of leases, and as there the policy is judged without the guard rails. Builders look,
//! take an ordinary check or let one through, keep its key and drop it; controllers say that a plan builds, say so
//! again, and end it. What is modelled is the host around the decisions (`host/src/holds`), the two buckets, one queue
//! of checks and the clocks. A builder's let-through check runs before the instant that the host gives it: what the
//! last write of the key that was answered allows, counted from before it was sent, by the builder's own clock. One
//! that is killed leaves its check to a guardian, which ends it by that instant.
//!
//! What is promised of a check that is not let through is what can be read: a call of `assess` in which a plan's key
//! stood from its beginning to its end never answers `free`. A key that is written after the page with its name was
//! read is not seen in that call, and the check that is started by it runs on. A fault holds no check.
//!
//! What is left out: stale reads, a bucket raised again from nothing (its revisions are given again, and all that is
//! promised then is that one of two is told at its next keeping), an ask whose ack wait is over under its builder,
//! more than one queue of checks.

mod builder;
mod calls;
mod controller;
mod runs;
mod search;
mod sometimes;
mod state;
mod step;

pub use runs::{Run, runs};
pub use search::{Report, Violation, explore};
pub use sometimes::{Reached, Sometimes};

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Invariant {
    /// No two checks that were let through run at the same moment.
    OneLetThrough = 1,
    /// No call that a plan's key stood all through says that checks are free to be taken.
    HeldWhilePlansStand = 2,
    /// No write or deletion takes a live key that another taking, or another controller, wrote; but a plan that
    /// begins goes on under its new controller.
    OnlyYourOwn = 4,
    /// No check is let through that has not waited long enough.
    LongEnough = 8,
}

impl Invariant {
    /// Each of them.
    pub const ALL: [Self; 4] =
        [Self::OneLetThrough, Self::HeldWhilePlansStand, Self::OnlyYourOwn, Self::LongEnough];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneLetThrough => "one check let through",
            Self::HeldWhilePlansStand => "checks are held while a plan's key stands",
            Self::OnlyYourOwn => "only your own",
            Self::LongEnough => "none is let through before its time",
        }
    }
}

/// How often each thing may come, in one run from the beginning to the end. Standing still needs no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A builder looks for a check. No fault, but what bounds a run.
    pub looks: u8,
    /// A plan begins, or begins again. No fault either.
    pub begins: u8,
    /// A write was applied, or a check taken, and the answer is lost.
    pub lost_answer: u8,
    /// A write gets no answer, and is applied later, whenever that is, or never.
    pub late: u8,
    /// A read or a write is refused for certain.
    pub refused: u8,
    /// The host cuts off a keeping that takes too long.
    pub cut: u8,
    /// A builder is killed, and stands anew.
    pub builder_killed: u8,
    /// A controller is killed, and stands anew.
    pub controller_killed: u8,
    /// The store's clock steps ahead by one tick.
    pub step: u8,
    /// A builder's clock loses a tick.
    pub loses: u8,
}

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many builders, up to three.
    pub builders: u8,
    /// The plan of each controller, up to two: one or two. Two controllers of one plan are one after another in office.
    pub plans: Vec<u8>,
    /// The asks in the queue at the beginning, up to three. The first has waited long enough, each other needs a tick
    /// more.
    pub asks: u8,
    /// How many may be in the middle of a call while a tick passes.
    pub slow: u8,
    /// The ticks until the end.
    pub horizon: u8,
    /// How long a key lives unless written again, ticks.
    pub ttl: u8,
    /// How long a let-through check may run after its key was written, ticks.
    pub validity: u8,
    /// The faults.
    pub faults: Faults,
    /// What is looked at in every state.
    pub judged: Vec<Invariant>,
    /// What has to happen at some time, or the run shows nothing.
    pub sometimes: Vec<Sometimes>,
    /// No more than about so many states.
    pub most: u64,
}

impl Config {
    /// Two builders, one plan and no fault.
    #[must_use]
    pub fn two(horizon: u8) -> Self {
        Self {
            builders: 2,
            plans: vec![1],
            asks: 2,
            slow: 1,
            horizon,
            ttl: 3,
            validity: 2,
            faults: Faults { looks: 3, begins: 1, ..Faults::default() },
            judged: Invariant::ALL.to_vec(),
            sometimes: Vec::new(),
            most: 20_000_000,
        }
    }

    fn check(&self) -> Result<(), String> {
        let Faults { looks, begins, late, cut, builder_killed, controller_killed, .. } = self.faults;
        if usize::from(late + cut + builder_killed + controller_killed) > state::LATE {
            return Err(format!("more than {} writes could be on their way at once", state::LATE));
        }
        if looks > 15 || begins > 15 {
            return Err("at most 15 looks, and 15 begins".into());
        }
        let plans_fit =
            self.plans.len() <= state::CONTROLLERS && self.plans.iter().all(|plan| matches!(plan, 1 | 2));
        if usize::from(self.builders) > state::BUILDERS || !plans_fit || self.asks > 3 || self.horizon > 100 {
            return Err("up to three builders, two controllers of plan 1 or 2, three asks, 100 ticks".into());
        }
        Ok(())
    }
}
