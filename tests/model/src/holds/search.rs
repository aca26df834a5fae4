//! Breadth first through every state, so that the first violation found is one of the shortest.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use incumbent_policy::Decisions;

use super::calls::{Calls, Policy};
use super::sometimes::{Reached, Sometimes};
use super::state::State;
use super::step::{self, Stepper};
use super::{Config, Invariant};
use crate::search::Digest;

/// What came of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// Different states.
    pub states: u64,
    /// The steps to the furthest.
    pub depth: u32,
    /// Whether every state that can be reached was.
    pub exhausted: bool,
    /// What was to happen at some time, and never did.
    pub missing: Vec<Sometimes>,
    /// What happened at some time.
    pub reached: Reached,
    /// A shortest way to a broken invariant.
    pub violation: Option<Violation>,
}

/// How an invariant is broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// Step by step.
    pub path: Vec<String>,
}

/// Every state that can be reached within the bounds under this policy.
///
/// # Errors
/// The bounds do not fit each other.
pub fn explore<P: Decisions>(config: &Config) -> Result<Report, String> {
    config.check()?;
    Ok(search(config, Policy::of::<P>()))
}

fn search(config: &Config, policy: Policy) -> Report {
    let mut stepper = Stepper::new(config, Calls::new(policy));
    let mut found = Found::default();
    found.accept(config, Stepper::begin(config), 0, 0);
    let mut depth = 0;
    while found.broken.is_none() && !found.next.is_empty() && (found.parents.len() as u64) < config.most {
        depth += 1;
        for (state, id) in std::mem::take(&mut found.next) {
            for (at, (next, _)) in (0..).zip(stepper.steps(&state)) {
                found.accept(config, *next, id, at);
            }
        }
    }
    let reached = stepper.reached;
    Report {
        states: found.parents.len() as u64,
        depth,
        exhausted: found.next.is_empty(),
        missing: config.sometimes.iter().copied().filter(|what| !reached.has(*what)).collect(),
        reached,
        violation: found
            .broken
            .map(|(invariant, id)| Violation { invariant, path: found.path(&mut stepper, id) }),
    }
}

#[derive(Default)]
struct Found {
    seen: HashSet<u128, BuildHasherDefault<Digest>>,
    /// Of each state, by its order of discovery, the state it was found from and by which of its steps.
    parents: Vec<(u32, u8)>,
    next: Vec<(State, u32)>,
    broken: Option<(Invariant, u32)>,
}

impl Found {
    fn accept(&mut self, config: &Config, state: State, parent: u32, step: u8) {
        if !self.seen.insert(state.digest()) {
            return;
        }
        // 2³² states would not fit into memory.
        let id = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
        self.parents.push((parent, step));
        match broken(config, &state) {
            Some(invariant) => self.broken = self.broken.or(Some((invariant, id))),
            None => self.next.push((state, id)),
        }
    }

    /// The steps to a state, told by taking them again.
    fn path(&self, stepper: &mut Stepper<'_>, mut id: u32) -> Vec<String> {
        let mut steps = Vec::new();
        while id != 0 {
            let (parent, step) = self.parents[id as usize];
            steps.push(step);
            id = parent;
        }
        let mut state = Stepper::begin(stepper.config);
        let tell = |step| {
            let (next, what) = stepper.steps(&state)[usize::from(step)];
            let told = step::tell(&state, &next, what);
            state = next;
            told
        };
        steps.into_iter().rev().map(tell).collect()
    }
}

/// The first of the judged invariants that does not hold.
fn broken(config: &Config, state: &State) -> Option<Invariant> {
    let two = if state.let_through() > 1 { Invariant::OneLetThrough as u8 } else { 0 };
    config.judged.iter().copied().find(|invariant| (state.broken | two) & *invariant as u8 != 0)
}
