//! Breadth first through every state, so that the first violation found is one of the shortest.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::thread;

use incumbent_policy::Decisions;

use crate::calls::{Calls, Shared, Terms};
use crate::check::{self, Invariant};
use crate::config::{Config, LATE};
use crate::replay::Policy;
use crate::sometimes::{Reached, Sometimes};
use crate::state::State;
use crate::step::Stepper;
use crate::tell;

/// States that a thread steps from before what it found is handed over. Bounds what is kept meanwhile.
const BATCH: usize = 1 << 15;

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
    let shared = Shared::default();
    Ok(Search::new(config, &shared, Policy::of::<P>()).run())
}

impl Config {
    fn check(&self) -> Result<(), String> {
        if self.faults.late_writes() > LATE {
            return Err(format!("more than {LATE} writes could be on their way at once"));
        }
        if !(1..=3).contains(&self.instances) || self.objects == 0 || !(1..=2).contains(&self.threads) {
            return Err("one to three instances, one object or more, one or two threads".into());
        }
        Ok(())
    }
}

struct Search<'a> {
    config: &'a Config,
    shared: &'a Shared,
    policy: Policy,
    workers: Vec<Worker<'a>>,
}

/// A thread's share: the states whose digest falls to it.
struct Worker<'a> {
    me: usize,
    stepper: Stepper<'a>,
    seen: HashSet<u128, BuildHasherDefault<Digest>>,
    /// Of each state, by its order of discovery, the state it was found from and by which of its steps.
    parents: Vec<(Id, u8)>,
    layer: Vec<(State, Id)>,
    next: Vec<(State, Id)>,
    out: Vec<Found>,
    broken: Option<(Invariant, Id)>,
}

/// A state's place: in the upper half which worker's, then its order of discovery.
type Id = u32;

struct Found {
    digest: u128,
    state: State,
    parent: Id,
    step: u8,
}

impl<'a> Search<'a> {
    fn new(config: &'a Config, shared: &'a Shared, policy: Policy) -> Self {
        let worker = |me| Worker {
            me,
            stepper: stepper(config, shared, policy),
            seen: HashSet::default(),
            parents: Vec::new(),
            layer: Vec::new(),
            next: Vec::new(),
            out: Vec::new(),
            broken: None,
        };
        Self { config, shared, policy, workers: (0..config.threads).map(worker).collect() }
    }

    fn run(mut self) -> Report {
        let begin = Stepper::begin(self.config);
        let digest = begin.digest();
        let owner = owner(digest, self.workers.len());
        self.workers[owner].accept(Found { digest, state: begin, parent: 0, step: 0 });
        let first = Id::try_from(owner).unwrap_or(0);
        let mut depth = 0;
        let mut broken = None;
        while broken.is_none() && self.states() < self.config.most && self.turn() {
            depth += 1;
            self.layer();
            broken = self.workers.iter().filter_map(|worker| worker.broken).min_by_key(|(_, id)| *id);
        }
        let mut reached = Reached::default();
        for worker in &self.workers {
            reached.add(worker.stepper.reached);
        }
        Report {
            states: self.states(),
            depth,
            exhausted: self.workers.iter().all(|worker| worker.layer.is_empty() && worker.next.is_empty()),
            missing: self.config.sometimes.iter().copied().filter(|what| !reached.has(*what)).collect(),
            reached,
            violation: broken.map(|(invariant, id)| Violation { invariant, path: self.path(first, id) }),
        }
    }

    fn states(&self) -> u64 {
        self.workers.iter().map(|worker| worker.parents.len() as u64).sum()
    }

    /// The next layer becomes this one; `false` when there is none.
    fn turn(&mut self) -> bool {
        for worker in &mut self.workers {
            worker.layer = std::mem::take(&mut worker.next);
        }
        self.workers.iter().any(|worker| !worker.layer.is_empty())
    }

    fn layer(&mut self) {
        while self.workers.iter().any(|worker| !worker.layer.is_empty()) {
            if let [only] = &mut self.workers[..] {
                only.expand();
                continue;
            }
            thread::scope(|scope| {
                for worker in &mut self.workers {
                    scope.spawn(|| worker.expand());
                }
            });
            let found: Vec<_> =
                self.workers.iter_mut().map(|worker| std::mem::take(&mut worker.out)).rev().collect();
            thread::scope(|scope| {
                for (worker, found) in self.workers.iter_mut().zip(found) {
                    scope.spawn(|| found.into_iter().for_each(|found| worker.accept(found)));
                }
            });
        }
    }

    /// The steps to a state, told by taking them again.
    fn path(&self, first: Id, last: Id) -> Vec<String> {
        let mut steps = Vec::new();
        let mut id = last;
        while id != first {
            let (at, worker) = (id as usize / self.workers.len(), id as usize % self.workers.len());
            let (parent, step) = self.workers[worker].parents[at];
            steps.push(step);
            id = parent;
        }
        let mut stepper = stepper(self.config, self.shared, self.policy);
        let mut state = Stepper::begin(self.config);
        let mut path = Vec::new();
        for step in steps.into_iter().rev() {
            let (next, what) = stepper.steps(&state)[usize::from(step)];
            path.push(tell::step(&mut stepper, &state, &next, what));
            state = next;
        }
        path
    }
}

impl Worker<'_> {
    fn expand(&mut self) {
        let begin = self.layer.len().saturating_sub(BATCH);
        let batch = self.layer.split_off(begin);
        for (state, id) in batch {
            let count = self.stepper.steps(&state).len();
            for at in 0..count {
                let next = self.stepper.made(at);
                let digest = next.digest();
                // A state has some dozens of steps at the most.
                let step = u8::try_from(at).unwrap_or(u8::MAX);
                let found = Found { digest, state: *next, parent: id, step };
                if owner(digest, self.workers()) == self.me {
                    self.accept(found);
                } else {
                    self.out.push(found);
                }
            }
        }
    }

    fn workers(&self) -> usize {
        self.stepper.config.threads
    }

    fn accept(&mut self, found: Found) {
        if !self.seen.insert(found.digest) {
            return;
        }
        let place = self.parents.len() * self.workers() + self.me;
        // 2³² states would not fit into memory.
        let id = Id::try_from(place).unwrap_or(Id::MAX);
        self.parents.push((found.parent, found.step));
        match check::broken(self.stepper.config, &found.state) {
            Some(invariant) => self.broken = self.broken.or(Some((invariant, id))),
            None => self.next.push((found.state, id)),
        }
    }
}

fn stepper<'a>(config: &'a Config, shared: &'a Shared, policy: Policy) -> Stepper<'a> {
    let terms = Terms { ticks: config.ticks, rule: config.rule, one_floor: config.one_floor };
    Stepper::new(config, Calls::new(shared, policy, terms))
}

fn owner(digest: u128, workers: usize) -> usize {
    usize::from(digest & 1 == 1) % workers
}

/// A digest is its own hash.
#[derive(Default)]
pub(crate) struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, digest: u128) {
        self.0 = (digest >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
