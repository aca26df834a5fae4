//! A policy loaded: checked, compiled, linked against our world and nothing else, and called.
//!
//! Every call gets a fresh instance in a store of its own, which is dropped on the way out: that makes "no
//! memory between calls" true, and what a trap or a dropped call leaves behind is never entered again.

mod holds;
mod load;
pub mod rehearsal;
mod runtime;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Store, StoreLimits, Trap};

use crate::bindings::{
    About, Attempt, Closed, Exports, ExportsPre, HeldLease, Holder, Identity, Open, ReleaseOutcome, Renewal,
    Sighting, Standing, Tenure, Terms, Trouble, Vacancy,
};
use crate::imports::Imports;

pub use load::LoadError;
pub use runtime::Runtime;

/// The policy that is built in, as the component's bytes.
pub const BUILT_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.wasm"));

/// A policy that may be called. Cheap to clone; a call ends on the version it began with.
#[derive(Clone)]
pub struct Policy {
    runtime: Runtime,
    exports: ExportsPre<Call>,
    about: Arc<About>,
    digest: Arc<str>,
    size: usize,
}

/// What one call's store holds.
pub(crate) struct Call {
    pub(crate) imports: Box<dyn Imports>,
    /// Time waited for the host and not yet credited.
    pub(crate) waited: Duration,
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
}

impl Policy {
    /// The policy that is built in.
    ///
    /// # Errors
    /// [`LoadError`], which would be a fault of this build.
    pub async fn built_in(runtime: &Runtime) -> Result<Self, LoadError> {
        Self::load(runtime, BUILT_IN).await
    }

    /// Its name, version and needs, as it says.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The SHA-256 of its bytes, hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its size, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether the timings fit each other.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn check(&self, imports: impl Imports + 'static, terms: Terms) -> Called<Result<(), String>> {
        let mut call = self.instance("lease.check", imports).await?;
        let answer = call.exports.incumbent_policy_lease().call_check(&mut call.store, terms).await;
        self.answered("lease.check", answer)
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
        let mut call = self.instance("lease.take", imports).await?;
        let lease = call.exports.incumbent_policy_lease();
        let answer = lease.call_take(&mut call.store, terms, who, rule, seen).await;
        self.answered("lease.take", answer)
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
        let mut call = self.instance("lease.renew", imports).await?;
        let answer =
            call.exports.incumbent_policy_lease().call_renew(&mut call.store, terms, who, tenure).await;
        self.answered("lease.renew", answer)
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
        let mut call = self.instance("lease.release", imports).await?;
        let answer = call.exports.incumbent_policy_lease().call_release(&mut call.store, who, tenure).await;
        self.answered("lease.release", answer)
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
        let mut call = self.instance("lease.current", imports).await?;
        let answer = call.exports.incumbent_policy_lease().call_current(&mut call.store, lease).await;
        self.answered("lease.current", answer)
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
        let mut call = self.instance("lease.list", imports).await?;
        let answer = call.exports.incumbent_policy_lease().call_list(&mut call.store, after, most).await;
        self.answered("lease.list", answer)
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
        let mut call = self.instance("gate.pass", imports).await?;
        let answer = call.exports.incumbent_policy_gate().call_pass(&mut call.store, standing).await;
        self.answered("gate.pass", answer)
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
        let mut call = self.instance("gate.admit", imports).await?;
        let answer = call.exports.incumbent_policy_gate().call_admit(&mut call.store, heard, epoch).await;
        self.answered("gate.admit", answer)
    }

    /// A fresh instance, for one call.
    async fn instance(&self, export: &'static str, imports: impl Imports + 'static) -> Called<Instance> {
        let turn = self.runtime.turn().await;
        let mut store = self.runtime.store(Box::new(imports));
        match self.exports.instantiate_async(&mut store).await {
            Ok(exports) => Ok(Instance { exports, store, _turn: turn }),
            Err(why) => Err(self.error(export, &why)),
        }
    }

    fn answered<T>(&self, export: &'static str, answer: wasmtime::Result<T>) -> Called<T> {
        answer.map_err(|why| self.error(export, &why))
    }

    fn error(&self, export: &'static str, why: &wasmtime::Error) -> PolicyError {
        let policy = format!("{} {}", self.about.name, self.about.version);
        PolicyError { policy, export, what: Misdeed::of(why) }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({} {}, {})", self.about.name, self.about.version, self.digest)
    }
}

type Called<T> = Result<T, PolicyError>;

struct Instance {
    exports: Exports,
    store: Store<Call>,
    /// Given up after the store is dropped.
    _turn: runtime::Turn,
}

impl Misdeed {
    fn of(why: &wasmtime::Error) -> Self {
        match why.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => Self::Overran,
            Some(Trap::UnreachableCodeReached) => Self::Trapped("it panicked".into()),
            Some(Trap::AllocationTooLarge) => Self::OutOfMemory,
            Some(trap) => Self::Trapped(trap.to_string()),
            None => {
                let words = format!("{why:#}");
                if words.contains("forcing trap when growing") {
                    Self::OutOfMemory
                } else {
                    Self::Broke(words)
                }
            }
        }
    }
}
