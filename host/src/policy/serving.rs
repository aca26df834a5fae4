//! Which version answers: the one that serves, and the one to go back to while that is on probation.

use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::policy::{PolicyError, Version};

/// What proves a version: so many clean calls, and so much time. Both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probation {
    /// Calls that it must answer.
    pub calls: u32,
    /// Time for which it must serve.
    pub time: Duration,
}

impl Default for Probation {
    /// 20 calls and a minute: at the default timings some ten renewals of one lease.
    fn default() -> Self {
        Self { calls: 20, time: Duration::from_secs(60) }
    }
}

/// How far a version on probation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// What it needs.
    pub needs: Probation,
    /// The calls that it has answered.
    pub calls: u32,
    /// For how long it has served.
    pub time: Duration,
}

/// What became of a version that was on probation.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is proven.
    Proven(Version),
    /// It failed, and the one before it serves again.
    RolledBack {
        /// The one that failed.
        from: Version,
        /// The one that serves now.
        to: Version,
        /// What it did.
        why: PolicyError,
    },
}

type OnVerdict = Box<dyn Fn(Verdict) + Send + Sync>;

/// The versions of one policy.
pub(super) struct Serving {
    state: RwLock<State>,
    /// Rises with every change of the version that serves.
    changes: watch::Sender<u64>,
    on_verdict: OnceLock<OnVerdict>,
}

struct State {
    current: Version,
    trial: Option<OnTrial>,
}

struct OnTrial {
    fallback: Version,
    needs: Probation,
    calls: u32,
    since: Instant,
}

impl Serving {
    /// This one, which is taken for proven.
    pub(super) fn new(version: Version) -> Self {
        Self {
            state: RwLock::new(State { current: version, trial: None }),
            changes: watch::Sender::new(0),
            on_verdict: OnceLock::new(),
        }
    }

    /// Who is told of verdicts; the first that is given.
    pub(super) fn on_verdict(&self, told: OnVerdict) {
        let _ = self.on_verdict.set(told);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The version that serves, and whether it is on probation.
    pub(super) fn current(&self) -> (Version, bool) {
        let state = self.read();
        (state.current.clone(), state.trial.is_some())
    }

    /// How far the version that serves is, and the one that would serve again, while it is on probation.
    pub(super) fn trial(&self) -> Option<(Trial, Version)> {
        let state = self.read();
        let trial = state.trial.as_ref()?;
        let told = Trial { needs: trial.needs, calls: trial.calls, time: trial.since.elapsed() };
        Some((told, trial.fallback.clone()))
    }

    /// Let this version serve from the next call on: on probation, or as one that is proven.
    pub(super) fn publish(&self, version: Version, probation: Option<Probation>) {
        {
            let mut state = self.write();
            // One that was on probation itself is nothing to go back to.
            let fallback = state.trial.take().map_or_else(|| state.current.clone(), |trial| trial.fallback);
            // The proven one itself, offered again, has nothing to prove.
            state.trial = probation.filter(|_| fallback.digest() != version.digest()).map(|needs| OnTrial {
                fallback,
                needs,
                calls: 0,
                since: Instant::now(),
            });
            state.current = version;
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Let a proven version serve in the place of this one, if that serves still. Whether it did.
    pub(super) fn replace(&self, from: &Version, to: Version) -> bool {
        {
            let mut state = self.write();
            if state.current.digest() != from.digest() {
                return false;
            }
            *state = State { current: to, trial: None };
        }
        self.changes.send_modify(|changes| *changes += 1);
        true
    }

    /// A call that this version answered well.
    pub(super) fn clean(&self, version: &Version) {
        let proven = {
            let mut state = self.write();
            let same = state.current.digest() == version.digest();
            let Some(trial) = state.trial.as_mut().filter(|_| same) else { return };
            trial.calls = trial.calls.saturating_add(1);
            if trial.calls < trial.needs.calls || trial.since.elapsed() < trial.needs.time {
                return;
            }
            state.trial = None;
            version.clone()
        };
        self.tell(Verdict::Proven(proven));
    }

    /// A call that this version failed. Whether another serves now, which may answer it instead.
    pub(super) fn blame(&self, version: &Version, why: &PolicyError) -> bool {
        let verdict = {
            let mut state = self.write();
            if state.current.digest() != version.digest() {
                // It does not serve any more: swapped, or rolled back by another call.
                return true;
            }
            let Some(trial) = state.trial.take() else { return false };
            let to = trial.fallback;
            let from = std::mem::replace(&mut state.current, to.clone());
            Verdict::RolledBack { from, to, why: why.clone() }
        };
        self.changes.send_modify(|changes| *changes += 1);
        self.tell(verdict);
        true
    }

    fn tell(&self, verdict: Verdict) {
        if let Some(told) = self.on_verdict.get() {
            told(verdict);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
