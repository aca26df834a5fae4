//! A policy: a version loaded, which may be swapped for another while it serves, and called.
//!
//! Every call gets a fresh instance in a store of its own, which is dropped on the way out: that makes "no
//! memory between calls" true, and what a trap or a dropped call leaves behind is never entered again. One that answered
//! a renewal well is asked for the gate's state too, as a part of it. A call ends on the version it began with, but for
//! one: what a version on probation fails, the one before it answers.

mod answer;
mod contract;
mod holds;
mod instance;
mod load;
mod native;
pub mod rehearsal;
mod runtime;
mod serving;
mod version;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use wasmtime::StoreLimits;

use crate::bindings::{
    Attempt, Certainty, Closed, HeldLease, Holder, Identity, Open, ReleaseOutcome, Renewal, Request, Setback,
    Sighting, Standing, Tenure, Terms, Trouble, Vacancy,
};
use crate::imports::{Claim, Imports};

pub use crate::lie::Lie;
pub use load::LoadError;
pub use native::Native;
pub use runtime::Runtime;
pub use serving::{Probation, Trial, Verdict};
pub use version::Version;

use answer::{Begun, call};
pub(crate) use instance::Instance;
use serving::Serving;

/// The policy that is built in, as the component's bytes.
pub const BUILT_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.wasm"));

/// A policy that may be called: whichever version serves. Cheap to clone; clones are the same policy.
#[derive(Clone)]
pub struct Policy {
    serving: Arc<Serving>,
}

/// What one call's store holds.
pub(crate) struct Call {
    pub(crate) imports: Box<dyn Imports>,
    /// Time waited for the host and not yet credited.
    pub(crate) waited: Duration,
    /// Imports used so far.
    pub(crate) asked: u32,
    /// The first thing it asked for that the call does not grant.
    pub(crate) overstepped: Option<String>,
    limits: StoreLimits,
}

/// What a policy did wrong in a call. The lease fails closed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the policy {policy} failed in {export}: {what}")]
pub struct PolicyError {
    /// Its name and version.
    pub policy: String,
    /// The export that was called.
    pub export: &'static str,
    /// What happened.
    pub what: Misdeed,
}

/// What a policy can do wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misdeed {
    /// It computed longer than [`COMPUTING`](crate::limits::COMPUTING).
    #[error("it did not end within the time that a call may compute")]
    Overran,
    /// It wanted more memory or a larger table than it may have.
    #[error("it wanted more memory than a policy may have")]
    OutOfMemory,
    /// It trapped: a panic, a stack overflow, an access out of bounds.
    #[error("it trapped: {0}")]
    Trapped(String),
    /// Its answer cannot be read, or it broke the component model's rules.
    #[error("{0}")]
    Broke(String),
    /// It said what cannot be so. Only a version on probation is blamed for it; another is just not believed.
    #[error("{0}")]
    Lied(Lie),
    /// It wrote where the call does not let it. Only a version on probation is blamed for it; for another the
    /// import is refused, and that is all.
    #[error("{0}")]
    Overstepped(String),
}

impl Policy {
    /// The policy that is built in.
    ///
    /// # Errors
    /// [`LoadError`], which would be a fault of this build.
    pub async fn built_in(runtime: &Runtime) -> Result<Self, LoadError> {
        Self::load(runtime, BUILT_IN).await
    }

    /// Load a policy. Compiles off the async threads.
    ///
    /// # Errors
    /// [`LoadError`], one for each step.
    pub async fn load(runtime: &Runtime, bytes: &[u8]) -> Result<Self, LoadError> {
        Ok(Self::of(Version::load(runtime, bytes).await?))
    }

    /// A policy that this version serves for, which is taken for proven.
    #[must_use]
    pub fn of(version: Version) -> Self {
        Self { serving: Arc::new(Serving::new(version)) }
    }

    /// The version that serves now.
    #[must_use]
    pub fn version(&self) -> Version {
        self.serving.current().0
    }

    /// How far the version that serves is, and the one that would serve again, while it is on probation.
    #[must_use]
    pub fn trial(&self) -> Option<(Trial, Version)> {
        self.serving.trial()
    }

    /// Let a version serve from the next call on: on probation, or as one that is proven. Calls under way end on the
    /// version that they began with, and every gate is asked anew.
    ///
    /// The version is taken as it is: what [`Policies`](crate::policies::Policies) asks of one that is offered is
    /// not asked here.
    pub fn swap(&self, version: Version, probation: Option<Probation>) {
        self.serving.publish(version, probation);
    }

    /// As [`swap`](Self::swap) to one that is proven, where this version serves. Whether it did.
    pub(crate) fn swap_from(&self, from: &Version, to: Version) -> bool {
        self.serving.replace(from, to)
    }

    /// Told of what becomes of versions on probation, from within the call that decides it; must not block. The first
    /// one that is set stays.
    pub fn on_verdict(&self, told: impl Fn(Verdict) + Send + Sync + 'static) {
        self.serving.on_verdict(Box::new(told));
    }

    /// Hears of every change of the version that serves.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.serving.changes()
    }

    /// Whether the timings fit each other.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn check(&self, imports: impl Imports + 'static, terms: Terms) -> Called<Result<(), String>> {
        call!(
            self,
            "lease.check",
            imports,
            |call| call.exports.incumbent_policy_lease().call_check(&mut call.store, terms),
            |native, io, _again| native.check(&mut io, terms),
            |_| None
        )
    }

    /// Try to take the lease, once.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn take(
        &self,
        imports: impl Imports + 'static,
        terms: Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Called<Result<Attempt, Trouble>> {
        let claim = |answer: &Result<Attempt, Trouble>| match answer {
            Ok(Attempt::Taken(tenure)) => Some(Claim::Taken(tenure.clone())),
            _ => None,
        };
        call!(
            self,
            "lease.take",
            imports,
            |call| call.exports.incumbent_policy_lease().call_take(&mut call.store, terms, who, rule, seen),
            |native, io, _again| native.take(&mut io, terms, who, rule, seen),
            claim
        )
    }

    /// Renew, or find out what became of a renewal.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn renew(
        &self,
        imports: impl Imports + 'static,
        terms: Terms,
        who: &Identity,
        tenure: &Tenure,
    ) -> Called<Renewal> {
        let (answer, instance) = self.renew_and(imports, terms, who, tenure).await;
        Instance::retire(instance);
        answer
    }

    /// As [`renew`](Self::renew), with the instance for what follows.
    pub(crate) async fn renew_and(
        &self,
        imports: impl Imports + 'static,
        terms: Terms,
        who: &Identity,
        tenure: &Tenure,
    ) -> (Called<Renewal>, Option<Instance>) {
        // The version that failed may have written: the next one looks first.
        let mut looking = None;
        let claim = |answer: &Renewal| match answer {
            Renewal::Kept(tenure)
            | Renewal::Failed(Setback { tenure, .. })
            | Renewal::Refused(Setback { tenure, .. })
            | Renewal::Asked(Setback { tenure, .. }) => Some(Claim::Kept(tenure.clone())),
            Renewal::Lost(_) => None,
        };
        call!(
            self,
            "lease.renew",
            imports,
            None,
            |call| {
                let tenure = if call.again { &*looking.insert(in_doubt(tenure)) } else { tenure };
                call.exports.incumbent_policy_lease().call_renew(&mut call.store, terms, who, tenure)
            },
            |native, io, again| {
                let tenure = if again { &*looking.insert(in_doubt(tenure)) } else { tenure };
                native.renew(&mut io, terms, who, tenure)
            },
            claim
        )
    }

    /// Give the lease back.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn release(
        &self,
        imports: impl Imports + 'static,
        who: &Identity,
        tenure: &Tenure,
    ) -> Called<ReleaseOutcome> {
        call!(
            self,
            "lease.release",
            imports,
            |call| call.exports.incumbent_policy_lease().call_release(&mut call.store, who, tenure),
            |native, io, _again| native.release(&mut io, who, tenure),
            |_| None
        )
    }

    /// Ask whoever holds the lease to give way.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn step_down(
        &self,
        imports: impl Imports + 'static,
        lease: &str,
        by: &str,
    ) -> Called<Result<Request, Trouble>> {
        call!(
            self,
            "lease.step-down",
            imports,
            |call| call.exports.incumbent_policy_lease().call_step_down(&mut call.store, lease, by),
            |native, io, _again| native.step_down(&mut io, lease, by),
            |_| None
        )
    }

    /// Who holds the lease.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn current(
        &self,
        imports: impl Imports + 'static,
        lease: &str,
    ) -> Called<Result<Option<Holder>, Trouble>> {
        call!(
            self,
            "lease.current",
            imports,
            |call| call.exports.incumbent_policy_lease().call_current(&mut call.store, lease),
            |native, io, _again| native.current(&mut io, lease),
            |_| None
        )
    }

    /// The leases that have a record, those after `after`, `most` at the most.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn list(
        &self,
        imports: impl Imports + 'static,
        after: Option<&str>,
        most: u32,
    ) -> Called<Result<Vec<HeldLease>, Trouble>> {
        call!(
            self,
            "lease.list",
            imports,
            |call| call.exports.incumbent_policy_lease().call_list(&mut call.store, after, most),
            |native, io, _again| native.list(&mut io, after, most),
            |_| None
        )
    }

    /// Whether acts may pass now.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn pass(
        &self,
        imports: impl Imports + 'static,
        standing: &Standing,
    ) -> Called<Result<Open, Closed>> {
        self.pass_after(None, imports, standing).await
    }

    /// As [`pass`](Self::pass), in the instance that renewed, where the same version serves still.
    pub(crate) async fn pass_after(
        &self,
        renewed: Option<Instance>,
        imports: impl Imports + 'static,
        standing: &Standing,
    ) -> Called<Result<Open, Closed>> {
        let claim = |answer: &Result<Open, Closed>| match (answer, standing) {
            (Ok(open), Standing::Held(tenure)) => Some(Claim::Open(*open, tenure.clone())),
            (Ok(open), _) => Some(Claim::Opened(*open)),
            (Err(_), _) => None,
        };
        let (answer, instance) = call!(
            self,
            "gate.pass",
            imports,
            renewed,
            |call| call.exports.incumbent_policy_gate().call_pass(&mut call.store, standing),
            |native, io, _again| native.pass(&mut io, standing),
            claim
        );
        Instance::retire(instance);
        answer
    }

    /// Whether an act at `epoch` is admitted where `heard` is the highest heard.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn admit(
        &self,
        imports: impl Imports + 'static,
        heard: u64,
        epoch: u64,
    ) -> Called<Result<u64, u64>> {
        call!(
            self,
            "gate.admit",
            imports,
            |call| call.exports.incumbent_policy_gate().call_admit(&mut call.store, heard, epoch),
            |native, io, _again| native.admit(&mut io, heard, epoch),
            |_| None
        )
    }
}

/// A tenure whose last write may have been made or not.
fn in_doubt(tenure: &Tenure) -> Tenure {
    let certainty = match tenure.certainty {
        Certainty::Sure => Certainty::Unsure,
        certainty => certainty,
    };
    Tenure { certainty, ..tenure.clone() }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({:?})", self.version())
    }
}

type Called<T> = Result<T, PolicyError>;
