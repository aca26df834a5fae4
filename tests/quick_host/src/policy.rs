//! A policy, as the host has it towards the lease: decided in this process, without components and probation.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use incumbent_policy::Decisions;

use crate::bindings::{
    Admitted, Attempt, Building, Closed, HeldLease, Holder, Identity, Kept, Open, PolicyFault,
    ReleaseOutcome, Renewal, Report, Request, Sighting, Standing, Tenure, Terms, Trouble, Vacancy, Verdict,
};
use crate::imports::Imports;
use crate::natively::{self, BuiltIn, call};

pub use crate::lie::Lie;
pub use native::Native;

#[allow(dead_code, missing_docs, reason = "used in part")]
#[path = "../../../host/src/policy/native.rs"]
mod native;

mod version {
    //! As the host has it.

    use super::{Imports, Misdeed};

    #[allow(dead_code, reason = "nobody judges how a call ended")]
    pub(super) struct Ended<T> {
        pub(super) answer: Result<T, Misdeed>,
        pub(super) imports: Box<dyn Imports>,
        pub(super) overstepped: Option<String>,
    }
}

/// There is none.
#[derive(Debug)]
pub struct Runtime;

impl Runtime {
    /// # Errors
    /// None.
    pub fn new() -> Result<Self, Infallible> {
        Ok(Self)
    }
}

/// None is kept.
pub(crate) struct Instance;

/// Decisions, and their name.
#[derive(Clone)]
pub struct Version {
    name: Arc<str>,
    decides: Arc<dyn Native>,
}

impl Version {
    /// As the host has it.
    #[must_use]
    pub fn native(name: &str, decides: Arc<dyn Native>) -> Self {
        Self { name: name.into(), decides }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.name)
    }
}

/// As the host has it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the policy {policy} failed in {export}: {what}")]
#[allow(missing_docs, reason = "as the host has it")]
pub struct PolicyError {
    pub policy: String,
    pub export: &'static str,
    pub what: Misdeed,
}

/// As the host has it, of what the lease names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "as the host has it")]
pub enum Misdeed {
    #[error("{0}")]
    Lied(Lie),
    #[error("{0}")]
    Broke(String),
}

/// A policy that may be called, and swapped.
#[derive(Clone, Debug)]
pub struct Policy {
    serves: Arc<Mutex<Version>>,
    changes: watch::Sender<u64>,
}

type Called<T> = Result<T, PolicyError>;

#[allow(missing_docs, clippy::missing_errors_doc, reason = "as the host has it")]
impl Policy {
    pub async fn built_in(_: &Runtime) -> Result<Self, Infallible> {
        let [version, _] = natively::built_in();
        Ok(Self::of(version))
    }

    #[must_use]
    pub fn of(version: Version) -> Self {
        Self { serves: Arc::new(Mutex::new(version)), changes: watch::Sender::new(0) }
    }

    #[must_use]
    pub fn version(&self) -> Version {
        self.serves.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// None is on probation.
    pub fn swap(&self, version: Version, _: Option<Infallible>) {
        *self.serves.lock().unwrap_or_else(PoisonError::into_inner) = version;
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn decides(&self) -> Arc<dyn Native> {
        self.version().decides
    }

    pub async fn check(&self, mut io: impl Imports + 'static, terms: Terms) -> Called<Result<(), String>> {
        Ok(self.decides().check(&mut io, terms).await)
    }

    pub async fn take(
        &self,
        mut io: impl Imports + 'static,
        terms: Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Called<Result<Attempt, Trouble>> {
        Ok(self.decides().take(&mut io, terms, who, rule, seen).await)
    }

    pub(crate) async fn renew_and(
        &self,
        mut io: impl Imports + 'static,
        terms: Terms,
        who: &Identity,
        tenure: &Tenure,
    ) -> (Called<Renewal>, Option<Instance>) {
        (Ok(self.decides().renew(&mut io, terms, who, tenure).await), None)
    }

    pub async fn release(
        &self,
        mut io: impl Imports + 'static,
        who: &Identity,
        tenure: &Tenure,
    ) -> Called<ReleaseOutcome> {
        Ok(self.decides().release(&mut io, who, tenure).await)
    }

    pub async fn step_down(
        &self,
        mut io: impl Imports + 'static,
        lease: &str,
        by: &str,
    ) -> Called<Result<Request, Trouble>> {
        Ok(self.decides().step_down(&mut io, lease, by).await)
    }

    pub async fn current(
        &self,
        mut io: impl Imports + 'static,
        lease: &str,
    ) -> Called<Result<Option<Holder>, Trouble>> {
        Ok(self.decides().current(&mut io, lease).await)
    }

    pub async fn list(
        &self,
        mut io: impl Imports + 'static,
        after: Option<&str>,
        most: u32,
    ) -> Called<Result<Vec<HeldLease>, Trouble>> {
        Ok(self.decides().list(&mut io, after, most).await)
    }

    pub(crate) async fn pass_after(
        &self,
        _: Option<Instance>,
        mut io: impl Imports + 'static,
        standing: &Standing,
    ) -> Called<Result<Open, Closed>> {
        Ok(self.decides().pass(&mut io, standing).await)
    }

    pub async fn admit(
        &self,
        mut io: impl Imports + 'static,
        heard: u64,
        epoch: u64,
    ) -> Called<Result<u64, u64>> {
        Ok(self.decides().admit(&mut io, heard, epoch).await)
    }
}

type Answered<T> = Called<Result<T, PolicyFault>>;

/// Holds are decided as the built-in policy decides them, whatever serves.
#[allow(missing_docs, clippy::missing_errors_doc, reason = "as the host has it")]
impl Policy {
    pub async fn assess(&self, mut io: impl Imports + 'static) -> Answered<Verdict> {
        Ok(call(&mut io, BuiltIn::assess).await)
    }

    pub async fn let_one_through(
        &self,
        mut io: impl Imports + 'static,
        queues: &[String],
        builder: &str,
        after_ns: u64,
        within_ns: u64,
    ) -> Answered<Option<Admitted>> {
        let decide = |io: &mut _| BuiltIn::let_one_through(io, queues, builder, after_ns, within_ns);
        Ok(call(&mut io, decide).await)
    }

    pub async fn keep_let_through(
        &self,
        mut io: impl Imports + 'static,
        builder: &str,
        since: &str,
        revision: u64,
    ) -> Answered<Kept> {
        Ok(call(&mut io, |io| BuiltIn::keep_let_through(io, builder, since, revision)).await)
    }

    pub async fn drop_let_through(&self, mut io: impl Imports + 'static, revision: u64) -> Answered<()> {
        Ok(call(&mut io, |io| BuiltIn::drop_let_through(io, revision)).await)
    }

    pub async fn holds_status(&self, mut io: impl Imports + 'static) -> Answered<Report> {
        Ok(call(&mut io, BuiltIn::status).await)
    }

    pub async fn begin_plan(&self, mut io: impl Imports + 'static, plan: &str) -> Answered<Building> {
        Ok(call(&mut io, |io| BuiltIn::begin(io, plan)).await)
    }

    pub async fn plan_seen(
        &self,
        mut io: impl Imports + 'static,
        plan: &str,
        known: &Building,
    ) -> Answered<Kept> {
        Ok(call(&mut io, |io| BuiltIn::seen(io, plan, known)).await)
    }

    pub async fn end_plan(&self, mut io: impl Imports + 'static, plan: &str, revision: u64) -> Answered<()> {
        Ok(call(&mut io, |io| BuiltIn::end(io, plan, revision)).await)
    }
}
