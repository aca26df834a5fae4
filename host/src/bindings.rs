//! The generated types of the contract, named here and nowhere else. A change of `wit/` touches this file
//! and the guest's `component.rs`.

use std::time::{Duration, Instant, SystemTime};

use crate::clock::{Clock, nanos};
use crate::imports;
use crate::limits;
use crate::policy::Call;
use crate::store;

mod generated {
    #![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; documented in wit/")]
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "policy",
        imports: {
            "incumbent:policy/kv": async,
            "incumbent:policy/streams": async,
            "incumbent:policy/queue": async,
            "incumbent:policy/epochs.floor": async,
        },
        exports: { default: async },
        additional_derives: [PartialEq, Eq],
        require_store_data_send: true,
    });
}

pub(crate) use generated::{Policy as Exports, PolicyPre as ExportsPre};

pub use generated::exports::incumbent::policy::describe::About;
pub use generated::exports::incumbent::policy::gate::{Closed, Open, Standing};
pub use generated::exports::incumbent::policy::holds::{
    Admitted, Building, Kept, LetThrough, Report, Verdict,
};
pub use generated::exports::incumbent::policy::lease::{
    Attempt, Certainty, HeldLease, Holder, Identity, Loss, ReleaseOutcome, Renewal, Request, Setback,
    Sighting, Tenure, Terms, Trouble, Vacancy, Waiting,
};
pub use generated::incumbent::policy::clock::Wall;
pub use generated::incumbent::policy::kv::Fault as PolicyFault;

use generated::incumbent::policy::{clock, epochs, kv, log, queue, streams};

/// Awaits the host and counts the time as waited, which a policy is not charged for. What was asked and is not
/// granted is noted.
macro_rules! waiting {
    ($call:ident, $future:expr) => {{
        match $call.count() {
            Ok(()) => {
                let began = Instant::now();
                let answer = $future.await;
                $call.waited += began.elapsed();
                answer.inspect_err(|fault| $call.note(fault))
            }
            Err(fault) => Err(fault),
        }
    }};
}

impl Call {
    /// One import more.
    fn count(&mut self) -> Result<(), store::Fault> {
        if self.asked >= limits::HOST_CALLS {
            return Err(imports::denied(&format!(
                "for more than {} imports in one call",
                limits::HOST_CALLS
            )));
        }
        self.asked += 1;
        Ok(())
    }

    fn note(&mut self, fault: &store::Fault) {
        if self.overstepped.is_none() && imports::is_overstep(fault) {
            self.overstepped = Some(fault.to_string());
        }
    }
}

impl kv::Host for Call {
    async fn get(&mut self, bucket: kv::Role, key: String) -> Result<kv::Reading, kv::Fault> {
        Ok(match waiting!(self, self.imports.get(bucket.into(), &key))? {
            store::Reading::Found(entry) => kv::Reading::Found(entry.into()),
            store::Reading::Deleted(revision) => kv::Reading::Deleted(revision),
            store::Reading::Aged(revision) => kv::Reading::Aged(revision),
            store::Reading::Absent => kv::Reading::Absent,
            store::Reading::Erased(revision) => kv::Reading::Erased(revision),
        })
    }

    async fn create(
        &mut self,
        bucket: kv::Role,
        key: String,
        value: Vec<u8>,
    ) -> Result<kv::Write, kv::Fault> {
        Ok(waiting!(self, self.imports.create(bucket.into(), &key, &value))?.into())
    }

    async fn update(
        &mut self,
        bucket: kv::Role,
        key: String,
        value: Vec<u8>,
        expected: u64,
    ) -> Result<kv::Write, kv::Fault> {
        Ok(waiting!(self, self.imports.update(bucket.into(), &key, &value, expected))?.into())
    }

    async fn delete(&mut self, bucket: kv::Role, key: String, expected: u64) -> Result<kv::Write, kv::Fault> {
        Ok(waiting!(self, self.imports.delete(bucket.into(), &key, expected))?.into())
    }

    async fn keys(
        &mut self,
        bucket: kv::Role,
        after: Option<String>,
        most: u32,
    ) -> Result<Vec<String>, kv::Fault> {
        Ok(waiting!(self, self.imports.keys(bucket.into(), after.as_deref(), most))?)
    }

    async fn info(&mut self, bucket: kv::Role) -> Result<kv::BucketInfo, kv::Fault> {
        let info = waiting!(self, self.imports.info(bucket.into()))?;
        Ok(kv::BucketInfo { created: info.created, ttl_ns: nanos(info.ttl) })
    }
}

impl streams::Host for Call {
    async fn last_sequence(&mut self) -> Result<u64, kv::Fault> {
        Ok(waiting!(self, self.imports.last_sequence())?)
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, kv::Fault> {
        Ok(waiting!(self, self.imports.purge_below(sequence))?)
    }
}

impl queue::Host for Call {
    async fn oldest_waiting(&mut self, queue: String) -> Result<Option<queue::Ask>, kv::Fault> {
        Ok(waiting!(self, self.imports.oldest_waiting(&queue))?.map(Into::into))
    }

    async fn take(&mut self, queue: String, within_ns: u64) -> Result<Option<queue::Taken>, kv::Fault> {
        let within = Duration::from_nanos(within_ns);
        Ok(waiting!(self, self.imports.take(&queue, within))?
            .map(|(ticket, ask)| queue::Taken { ticket, ask: ask.into() }))
    }

    async fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), kv::Fault> {
        Ok(waiting!(self, self.imports.hand_back(ticket, Duration::from_nanos(delay_ns)))?)
    }
}

impl epochs::Host for Call {
    async fn floor(&mut self) -> Result<u64, kv::Fault> {
        Ok(waiting!(self, self.imports.floor())?)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.asked = self.asked.saturating_add(1);
        self.imports.moved(was, floor);
    }
}

impl clock::Host for Call {
    fn now(&mut self) -> clock::Moment {
        self.asked = self.asked.saturating_add(1);
        let clock = self.imports.clock();
        clock::Moment { steady_ns: clock.now().0, wall: wall(&clock) }
    }
}

impl log::Host for Call {
    fn log(&mut self, level: log::Level, target: String, message: String) {
        let level = match level {
            log::Level::Trace => imports::Level::Trace,
            log::Level::Debug => imports::Level::Debug,
            log::Level::Info => imports::Level::Info,
            log::Level::Warn => imports::Level::Warn,
            log::Level::Error => imports::Level::Error,
            log::Level::Critical => imports::Level::Critical,
        };
        if self.count().is_ok() {
            self.imports.log(level, &target, &message);
        }
    }
}

fn wall(clock: &Clock) -> clock::Wall {
    // A time of day before 1970 is told as 1970: it fills text fields only.
    let since = clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_1970(since)
}

fn since_1970(since: Duration) -> clock::Wall {
    clock::Wall {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

impl From<kv::Role> for imports::Role {
    fn from(role: kv::Role) -> Self {
        match role {
            kv::Role::Lease => Self::Lease,
            kv::Role::Plans => Self::Plans,
            kv::Role::Running => Self::Running,
        }
    }
}

impl From<store::Entry> for kv::Entry {
    fn from(entry: store::Entry) -> Self {
        Self { revision: entry.revision, value: entry.value }
    }
}

impl From<store::Write> for kv::Write {
    fn from(write: store::Write) -> Self {
        match write {
            store::Write::Written(revision) => Self::Written(revision),
            store::Write::Stale(entry) => Self::Stale(entry.map(Into::into)),
        }
    }
}

impl From<store::Fault> for kv::Fault {
    fn from(fault: store::Fault) -> Self {
        match fault {
            store::Fault::Denied(text) => Self::Denied(text),
            store::Fault::MissingBucket(text) => Self::MissingBucket(text),
            store::Fault::TooLarge(text) => Self::TooLarge(text),
            store::Fault::Unavailable(text) => Self::Unavailable(text),
            store::Fault::Unknown(text) => Self::Unknown(text),
        }
    }
}

impl From<kv::Fault> for store::Fault {
    fn from(fault: kv::Fault) -> Self {
        match fault {
            kv::Fault::Denied(text) => Self::Denied(text),
            kv::Fault::MissingBucket(text) => Self::MissingBucket(text),
            kv::Fault::TooLarge(text) => Self::TooLarge(text),
            kv::Fault::Unavailable(text) => Self::Unavailable(text),
            kv::Fault::Unknown(text) => Self::Unknown(text),
        }
    }
}

impl From<imports::Ask> for queue::Ask {
    fn from(ask: imports::Ask) -> Self {
        Self { sequence: ask.sequence, stored: ask.stored.map(since_1970), body: ask.body }
    }
}
