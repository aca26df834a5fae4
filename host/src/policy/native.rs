//! Decisions made in this process instead of in a component: the same code, in bulk.

use async_trait::async_trait;

use crate::bindings::{
    Attempt, Closed, HeldLease, Holder, Identity, Open, ReleaseOutcome, Renewal, Request, Sighting, Standing,
    Tenure, Terms, Trouble, Vacancy,
};
use crate::clock::Clock;
use crate::imports::{self, Imports, Level, Role};
use crate::policy::Misdeed;
use crate::policy::version::Ended;
use crate::store::{BucketInfo, Fault, Reading, Write};

/// The decisions of a lease and of a fence as code of this process, unbounded and not sandboxed: for simulations and
/// tests of what is a component in earnest. Each method is the export of that name.
#[async_trait]
#[expect(missing_docs, reason = "each function is documented where the contract is: in wit/")]
pub trait Native: Send + Sync {
    async fn check(&self, imports: &mut dyn Imports, terms: Terms) -> Result<(), String>;

    async fn take(
        &self,
        imports: &mut dyn Imports,
        terms: Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble>;

    async fn renew(
        &self,
        imports: &mut dyn Imports,
        terms: Terms,
        who: &Identity,
        tenure: &Tenure,
    ) -> Renewal;

    async fn release(&self, imports: &mut dyn Imports, who: &Identity, tenure: &Tenure) -> ReleaseOutcome;

    async fn step_down(&self, imports: &mut dyn Imports, lease: &str, by: &str) -> Result<Request, Trouble>;

    async fn current(&self, imports: &mut dyn Imports, lease: &str) -> Result<Option<Holder>, Trouble>;

    async fn list(
        &self,
        imports: &mut dyn Imports,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<HeldLease>, Trouble>;

    async fn pass(&self, imports: &mut dyn Imports, standing: &Standing) -> Result<Open, Closed>;

    async fn admit(&self, imports: &mut dyn Imports, heard: u64, epoch: u64) -> Result<u64, u64>;
}

/// One call: its imports, and what was asked of them and is not granted.
pub(super) struct Noting {
    imports: Box<dyn Imports>,
    overstepped: Option<String>,
}

impl Noting {
    pub(super) fn new(imports: Box<dyn Imports>) -> Self {
        Self { imports, overstepped: None }
    }

    /// The call's end.
    pub(super) fn end<T>(self, answer: Result<T, Misdeed>) -> Ended<T> {
        Ended { answer, imports: self.imports, overstepped: self.overstepped }
    }

    fn note<T>(&mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        answer.inspect_err(|fault| {
            if self.overstepped.is_none() && imports::is_overstep(fault) {
                self.overstepped = Some(fault.to_string());
            }
        })
    }
}

#[async_trait]
impl Imports for Noting {
    fn clock(&self) -> Clock {
        self.imports.clock()
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        self.imports.log(level, target, message);
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        let answer = self.imports.get(bucket, key).await;
        self.note(answer)
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        let answer = self.imports.create(bucket, key, value).await;
        self.note(answer)
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        let answer = self.imports.update(bucket, key, value, expected).await;
        self.note(answer)
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        let answer = self.imports.delete(bucket, key, expected).await;
        self.note(answer)
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        let answer = self.imports.keys(bucket, after, most).await;
        self.note(answer)
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        let answer = self.imports.info(bucket).await;
        self.note(answer)
    }

    async fn last_sequence(&mut self) -> Result<u64, Fault> {
        let answer = self.imports.last_sequence().await;
        self.note(answer)
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        let answer = self.imports.purge_below(sequence).await;
        self.note(answer)
    }

    async fn floor(&mut self) -> Result<u64, Fault> {
        let answer = self.imports.floor().await;
        self.note(answer)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.imports.moved(was, floor);
    }
}
