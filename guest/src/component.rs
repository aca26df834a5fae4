//! The only shell around the decisions: the generated types, and their conversions at this one edge.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{Decisions, gate as g, holds as h, imports as i, lease as l};

pub mod generated {
    #![allow(unsafe_code, unreachable_pub, missing_docs, clippy::all, reason = "generated")]
    wit_bindgen::generate!({ path: "../wit", world: "policy", generate_all, pub_export_macro: true });
}

pub use dlmalloc::GlobalDlmalloc;

use generated::exports::incumbent::policy::{describe, gate, holds, lease};
use generated::incumbent::policy::{clock, epochs, kv, log, queue, streams};

impl<D: Decisions> describe::Guest for D {
    fn describe() -> describe::About {
        describe::About {
            name: D::NAME.into(),
            version: D::VERSION.into(),
            needs: D::NEEDS.iter().copied().map(String::from).collect(),
        }
    }
}

impl<D: Decisions> lease::Guest for D {
    fn check(terms: lease::Terms) -> Result<(), String> {
        D::check(&terms.into())
    }

    fn take(
        terms: lease::Terms,
        who: lease::Identity,
        rule: lease::Vacancy,
        seen: Option<lease::Sighting>,
    ) -> Result<lease::Attempt, lease::Trouble> {
        let rule = match rule {
            lease::Vacancy::Trusted => l::Vacancy::Trusted,
            lease::Vacancy::Watched => l::Vacancy::Watched,
            lease::Vacancy::Delayed => l::Vacancy::Delayed,
        };
        let seen = seen.map(|s| l::Sighting {
            created: s.created,
            revision: s.revision,
            since_ns: s.since_ns,
            last_ns: s.last_ns,
        });
        match D::take(&mut Host, &terms.into(), &who.into(), rule, seen) {
            Ok(l::Attempt::Taken(tenure)) => Ok(lease::Attempt::Taken(tenure.into())),
            Ok(l::Attempt::Waiting(waiting)) => Ok(lease::Attempt::Waiting(lease::Waiting {
                holder: waiting.holder.map(Into::into),
                sighting: lease::Sighting {
                    created: waiting.sighting.created,
                    revision: waiting.sighting.revision,
                    since_ns: waiting.sighting.since_ns,
                    last_ns: waiting.sighting.last_ns,
                },
                again_at_ns: waiting.again_at_ns,
            })),
            Err(trouble) => Err(trouble.into()),
        }
    }

    fn renew(terms: lease::Terms, who: lease::Identity, tenure: lease::Tenure) -> lease::Renewal {
        match D::renew(&mut Host, &terms.into(), &who.into(), tenure.into()) {
            l::Renewal::Kept(tenure) => lease::Renewal::Kept(tenure.into()),
            l::Renewal::Failed(setback) => lease::Renewal::Failed(setback.into()),
            l::Renewal::Refused(setback) => lease::Renewal::Refused(setback.into()),
            l::Renewal::Asked(setback) => lease::Renewal::Asked(setback.into()),
            l::Renewal::Lost(loss) => lease::Renewal::Lost(match loss {
                l::Loss::Overdue => lease::Loss::Overdue,
                l::Loss::Superseded(holder) => lease::Loss::Superseded(holder.into()),
                l::Loss::Overwritten(what) => lease::Loss::Overwritten(what),
                l::Loss::Gone => lease::Loss::Gone,
                l::Loss::RaisedAgain => lease::Loss::RaisedAgain,
            }),
        }
    }

    fn release(who: lease::Identity, tenure: lease::Tenure) -> lease::ReleaseOutcome {
        match D::release(&mut Host, &who.into(), &tenure.into()) {
            l::Release::GivenBack => lease::ReleaseOutcome::GivenBack,
            l::Release::NotOurs => lease::ReleaseOutcome::NotOurs,
            l::Release::Left(fault) => lease::ReleaseOutcome::Left(fault.into()),
        }
    }

    fn step_down(lease: String, by: String) -> Result<lease::Request, lease::Trouble> {
        D::step_down(&mut Host, &lease, &by)
            .map(|request| match request {
                l::Request::Asked(holder) => lease::Request::Asked(holder.into()),
                l::Request::AskedBefore(holder) => lease::Request::AskedBefore(holder.into()),
                l::Request::Nobody => lease::Request::Nobody,
            })
            .map_err(Into::into)
    }

    fn current(lease: String) -> Result<Option<lease::Holder>, lease::Trouble> {
        D::current(&mut Host, &lease).map(|holder| holder.map(Into::into)).map_err(Into::into)
    }

    fn list(after: Option<String>, most: u32) -> Result<Vec<lease::HeldLease>, lease::Trouble> {
        let held =
            |held: l::HeldLease| lease::HeldLease { name: held.name, holder: held.holder.map(Into::into) };
        D::list(&mut Host, after, most)
            .map(|leases| leases.into_iter().map(held).collect())
            .map_err(Into::into)
    }
}

impl<D: Decisions> gate::Guest for D {
    fn pass(standing: gate::Standing) -> Result<gate::Open, gate::Closed> {
        let standing = match standing {
            gate::Standing::Candidate => g::Standing::Candidate,
            gate::Standing::Held(tenure) => g::Standing::Held(tenure.into()),
            gate::Standing::Released => g::Standing::Released,
            gate::Standing::Lost => g::Standing::Lost,
        };
        D::pass(&standing, clock::now().steady_ns)
            .map(|open| gate::Open { epoch: open.epoch, until_ns: open.until_ns })
            .map_err(|closed| match closed {
                g::Closed::NotHeld => gate::Closed::NotHeld,
                g::Closed::Doubted => gate::Closed::Doubted,
                g::Closed::Overdue => gate::Closed::Overdue,
                g::Closed::Released => gate::Closed::Released,
                g::Closed::Lost => gate::Closed::Lost,
            })
    }

    fn admit(heard: u64, epoch: u64) -> Result<u64, u64> {
        D::admit(heard, epoch)
    }
}

impl<D: Decisions> holds::Guest for D {
    fn assess() -> Result<holds::Verdict, kv::Fault> {
        D::assess(&mut Host)
            .map(|verdict| match verdict {
                h::Verdict::Free => holds::Verdict::Free,
                h::Verdict::Held(plans) => holds::Verdict::Held(plans),
            })
            .map_err(Into::into)
    }

    fn let_one_through(
        queues: Vec<String>,
        builder: String,
        after_ns: u64,
        within_ns: u64,
    ) -> Result<Option<holds::Admitted>, kv::Fault> {
        let admitted = |one: h::Admitted| holds::Admitted {
            queue: one.queue,
            ticket: one.ticket,
            asked: clock::Wall { seconds: one.asked.seconds, nanoseconds: one.asked.nanoseconds },
            since: one.since,
            revision: one.revision,
        };
        D::let_one_through(&mut Host, &queues, &builder, after_ns, within_ns)
            .map(|one| one.map(admitted))
            .map_err(Into::into)
    }

    fn keep(builder: String, since: String, revision: u64) -> Result<holds::Kept, kv::Fault> {
        D::keep_let_through(&mut Host, &builder, &since, revision).map(Into::into).map_err(Into::into)
    }

    fn drop(revision: u64) -> Result<(), kv::Fault> {
        D::drop_let_through(&mut Host, revision).map_err(Into::into)
    }

    fn status() -> Result<holds::Report, kv::Fault> {
        D::status(&mut Host)
            .map(|report| holds::Report {
                plans: report.plans,
                let_through: report
                    .let_through
                    .map(|check| holds::LetThrough { builder: check.builder, since: check.since }),
            })
            .map_err(Into::into)
    }

    fn begin(plan: String) -> Result<holds::Building, kv::Fault> {
        D::begin(&mut Host, &plan)
            .map(|plan| holds::Building { since: plan.since, revision: plan.revision })
            .map_err(Into::into)
    }

    fn seen(plan: String, known: holds::Building) -> Result<holds::Kept, kv::Fault> {
        let known = h::Building { since: known.since, revision: known.revision };
        D::seen(&mut Host, &plan, &known).map(Into::into).map_err(Into::into)
    }

    fn end(plan: String, revision: u64) -> Result<(), kv::Fault> {
        D::end(&mut Host, &plan, revision).map_err(Into::into)
    }
}

/// The imports, as the decisions see them.
struct Host;

impl i::Imports for Host {
    fn get(&mut self, bucket: i::Role, key: &str) -> Result<i::Reading, i::Fault> {
        Ok(match kv::get(bucket.into(), key)? {
            kv::Reading::Found(entry) => i::Reading::Found(entry.into()),
            kv::Reading::Deleted(revision) => i::Reading::Deleted(revision),
            kv::Reading::Aged(revision) => i::Reading::Aged(revision),
            kv::Reading::Absent => i::Reading::Absent,
            kv::Reading::Erased(revision) => i::Reading::Erased(revision),
        })
    }

    fn create(&mut self, bucket: i::Role, key: &str, value: &[u8]) -> Result<i::Write, i::Fault> {
        Ok(kv::create(bucket.into(), key, value)?.into())
    }

    fn update(
        &mut self,
        bucket: i::Role,
        key: &str,
        value: &[u8],
        expected: u64,
    ) -> Result<i::Write, i::Fault> {
        Ok(kv::update(bucket.into(), key, value, expected)?.into())
    }

    fn delete(&mut self, bucket: i::Role, key: &str, expected: u64) -> Result<i::Write, i::Fault> {
        Ok(kv::delete(bucket.into(), key, expected)?.into())
    }

    fn keys(&mut self, bucket: i::Role, after: Option<&str>, most: u32) -> Result<Vec<String>, i::Fault> {
        Ok(kv::keys(bucket.into(), after, most)?)
    }

    fn info(&mut self, bucket: i::Role) -> Result<i::BucketInfo, i::Fault> {
        let info = kv::info(bucket.into())?;
        Ok(i::BucketInfo { created: info.created, ttl_ns: info.ttl_ns })
    }

    fn last_sequence(&mut self) -> Result<u64, i::Fault> {
        Ok(streams::last_sequence()?)
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, i::Fault> {
        Ok(streams::purge_below(sequence)?)
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<i::Ask>, i::Fault> {
        Ok(queue::oldest_waiting(queue)?.map(Into::into))
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<i::Taken>, i::Fault> {
        Ok(queue::take(queue, within_ns)?
            .map(|taken| i::Taken { ticket: taken.ticket, ask: taken.ask.into() }))
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), i::Fault> {
        Ok(queue::hand_back(ticket, delay_ns)?)
    }

    fn floor(&mut self) -> Result<u64, i::Fault> {
        Ok(epochs::floor()?)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        epochs::moved(was, floor);
    }

    fn now(&mut self) -> i::Moment {
        let now = clock::now();
        i::Moment { steady_ns: now.steady_ns, wall: now.wall.into() }
    }

    fn log(&mut self, level: i::Level, target: &str, message: &str) {
        let level = match level {
            i::Level::Info => log::Level::Info,
            i::Level::Warn => log::Level::Warn,
        };
        log::log(level, target, message);
    }
}

impl From<i::Role> for kv::Role {
    fn from(role: i::Role) -> Self {
        match role {
            i::Role::Lease => Self::Lease,
            i::Role::Plans => Self::Plans,
            i::Role::Running => Self::Running,
        }
    }
}

impl From<kv::Entry> for i::Entry {
    fn from(entry: kv::Entry) -> Self {
        Self { revision: entry.revision, value: entry.value }
    }
}

impl From<kv::Write> for i::Write {
    fn from(write: kv::Write) -> Self {
        match write {
            kv::Write::Written(revision) => Self::Written(revision),
            kv::Write::Stale(entry) => Self::Stale(entry.map(Into::into)),
        }
    }
}

impl From<kv::Fault> for i::Fault {
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

impl From<i::Fault> for kv::Fault {
    fn from(fault: i::Fault) -> Self {
        match fault {
            i::Fault::Denied(text) => Self::Denied(text),
            i::Fault::MissingBucket(text) => Self::MissingBucket(text),
            i::Fault::TooLarge(text) => Self::TooLarge(text),
            i::Fault::Unavailable(text) => Self::Unavailable(text),
            i::Fault::Unknown(text) => Self::Unknown(text),
        }
    }
}

impl From<clock::Wall> for i::Wall {
    fn from(wall: clock::Wall) -> Self {
        Self { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
    }
}

impl From<queue::Ask> for i::Ask {
    fn from(ask: queue::Ask) -> Self {
        Self { sequence: ask.sequence, stored: ask.stored.map(Into::into), body: ask.body }
    }
}

impl From<h::Kept> for holds::Kept {
    fn from(kept: h::Kept) -> Self {
        match kept {
            h::Kept::Kept(revision) => Self::Kept(revision),
            h::Kept::Lost => Self::Lost,
        }
    }
}

impl From<lease::Terms> for l::Terms {
    fn from(terms: lease::Terms) -> Self {
        Self {
            ttl_ns: terms.ttl_ns,
            renew_every_ns: terms.renew_every_ns,
            margin_ns: terms.margin_ns,
            poll_ns: terms.poll_ns,
        }
    }
}

impl From<lease::Identity> for l::Identity {
    fn from(who: lease::Identity) -> Self {
        Self { lease: who.lease, instance: who.instance, host: who.host, build: who.build, nonce: who.nonce }
    }
}

impl From<l::Holder> for lease::Holder {
    fn from(holder: l::Holder) -> Self {
        Self {
            instance: holder.instance,
            host: holder.host,
            build: holder.build,
            epoch: holder.epoch,
            taken: holder.taken,
            renewed: holder.renewed,
            nonce: holder.nonce,
            revision: holder.revision,
        }
    }
}

impl From<lease::Tenure> for l::Tenure {
    fn from(tenure: lease::Tenure) -> Self {
        Self {
            epoch: tenure.epoch,
            revision: tenure.revision,
            created: tenure.created,
            taken: tenure.taken,
            until_ns: tenure.until_ns,
            certainty: match tenure.certainty {
                lease::Certainty::Sure => l::Certainty::Sure,
                lease::Certainty::Unsure => l::Certainty::Unsure,
                lease::Certainty::Doubted(since) => l::Certainty::Doubted(since),
            },
        }
    }
}

impl From<l::Tenure> for lease::Tenure {
    fn from(tenure: l::Tenure) -> Self {
        Self {
            epoch: tenure.epoch,
            revision: tenure.revision,
            created: tenure.created,
            taken: tenure.taken,
            until_ns: tenure.until_ns,
            certainty: match tenure.certainty {
                l::Certainty::Sure => lease::Certainty::Sure,
                l::Certainty::Unsure => lease::Certainty::Unsure,
                l::Certainty::Doubted(since) => lease::Certainty::Doubted(since),
            },
        }
    }
}

impl From<l::Setback> for lease::Setback {
    fn from(setback: l::Setback) -> Self {
        Self { tenure: setback.tenure.into(), why: setback.why }
    }
}

impl From<l::Trouble> for lease::Trouble {
    fn from(trouble: l::Trouble) -> Self {
        match trouble {
            l::Trouble::Misfit(text) => Self::Misfit(text),
            l::Trouble::Unreadable(fault) => Self::Unreadable(fault.into()),
            l::Trouble::NotAHolder(text) => Self::NotAHolder(text),
            l::Trouble::Unwritable(fault) => Self::Unwritable(fault.into()),
            l::Trouble::Unsure(fault) => Self::Unsure(fault.into()),
            l::Trouble::FloorUnreadable(fault) => Self::FloorUnreadable(fault.into()),
            l::Trouble::FloorTooHigh(floor) => Self::FloorTooHigh(floor),
            l::Trouble::FloorBlocked(keys) => Self::FloorBlocked(keys),
            l::Trouble::FloorUnmoved(fault) => Self::FloorUnmoved(fault.into()),
        }
    }
}
