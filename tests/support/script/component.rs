//! A decision made by a policy component, over the same script.

use std::time::Duration;

use async_trait::async_trait;
use incumbent::clock::{Clock, nanos};
use incumbent::imports::{Ask, Imports, Level, Role};
use incumbent::store::{BucketInfo, Fault, Reading, Write};
use incumbent::{Policy, policy::PolicyError};

use crate::script::parse::{Args, ask, count, done, info, keys, reading, taken, write};
use crate::script::{Script, calls};

#[path = "words.rs"]
#[allow(clippy::duplicate_mod, reason = "one text over two families of types")]
mod words;

mod types {
    pub(super) use incumbent::{
        Admitted, Attempt, Building, Certainty, Closed, HeldLease, Holder, Identity, Kept, Loss, Open,
        PolicyFault, ReleaseOutcome, Renewal, Report, Request, Sighting, Standing, Tenure, Terms, Trouble,
        Vacancy, Verdict,
    };
}

/// Decide a command, and tell the outcome.
///
/// # Errors
/// The command is not understood, or the policy failed.
pub async fn decide(
    policy: &Policy,
    command: &str,
    mut args: Args,
    script: &Script,
) -> Result<String, String> {
    let io = script.clone();
    let args = &mut args;
    let failed = |why: PolicyError| why.to_string();
    let outcome = match command {
        "check" => words::checked(&policy.check(io, words::terms(args)?).await.map_err(failed)?),
        "take" => {
            let (terms, who) = (words::terms(args)?, words::identity(args));
            let (rule, seen) = (words::vacancy(args)?, words::sighting(args)?);
            words::attempt(&policy.take(io, terms, &who, rule, seen).await.map_err(failed)?)
        }
        "renew" => {
            let (terms, who, tenure) = (words::terms(args)?, words::identity(args), words::tenure(args)?);
            words::renewal(&policy.renew(io, terms, &who, &tenure).await.map_err(failed)?)
        }
        "release" => {
            let (who, tenure) = (words::identity(args), words::tenure(args)?);
            words::release(&policy.release(io, &who, &tenure).await.map_err(failed)?)
        }
        "step-down" => {
            let (lease, by) = (args.text("lease", "controller"), args.text("by", "ops"));
            words::request(&policy.step_down(io, &lease, &by).await.map_err(failed)?)
        }
        "current" => {
            words::current(&policy.current(io, &args.text("lease", "controller")).await.map_err(failed)?)
        }
        "list" => {
            let (after, most) = (args.value("after"), calls::most(args)?);
            words::list(&policy.list(io, after.as_deref(), most).await.map_err(failed)?)
        }
        "pass" => words::pass(&policy.pass(io, &words::standing(args)?).await.map_err(failed)?),
        "admit" => {
            let (heard, epoch) = (args.number("heard", 0)?, args.number("epoch", 0)?);
            words::admit(policy.admit(io, heard, epoch).await.map_err(failed)?)
        }
        "assess" => words::assess(&policy.assess(io).await.map_err(failed)?),
        "let-one-through" => {
            let (queues, builder) = (calls::queues(args), args.text("builder", "seat-1"));
            let (after, within) = (args.time("after", "1800s")?, args.time("within", "2s")?);
            let one = policy.let_one_through(io, &queues, &builder, after, within).await;
            words::admitted(&one.map_err(failed)?)
        }
        "keep" => {
            let (builder, since) = (args.text("builder", "seat-1"), args.text("since", calls::SINCE));
            let kept = policy.keep_let_through(io, &builder, &since, args.number("revision", 57)?).await;
            words::kept(&kept.map_err(failed)?)
        }
        "drop" => {
            let dropped = policy.drop_let_through(io, args.number("revision", 57)?).await;
            words::done(&dropped.map_err(failed)?)
        }
        "status" => words::report(&policy.holds_status(io).await.map_err(failed)?),
        "begin" => {
            words::building(&policy.begin_plan(io, &args.text("plan", "plan-12")).await.map_err(failed)?)
        }
        "seen" => {
            let (plan, since) = (args.text("plan", "plan-12"), args.text("since", calls::SINCE));
            let known = incumbent::Building { since, revision: args.number("revision", 57)? };
            words::kept(&policy.plan_seen(io, &plan, &known).await.map_err(failed)?)
        }
        "end" => {
            let plan = args.text("plan", "plan-12");
            let ended = policy.end_plan(io, &plan, args.number("revision", 57)?).await;
            words::done(&ended.map_err(failed)?)
        }
        other => return Err(format!("{other:?} is no command")),
    };
    std::mem::take(args).end()?;
    Ok(outcome)
}

#[async_trait]
impl Imports for Script {
    fn clock(&self) -> Clock {
        self.clock()
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        let level = format!("{level:?}").to_lowercase();
        self.note(&calls::log(&level, target, message));
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        self.answer(&calls::get(bucket, key), "get", reading)
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.answer(&calls::create(bucket, key, value), "create", write)
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::update(bucket, key, value, expected), "update", write)
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::delete(bucket, key, expected), "delete", write)
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        self.answer(&calls::keys(bucket, after, most), "keys", keys)
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        self.answer(&calls::info(bucket), "info", info)
    }

    async fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.answer(calls::LAST_SEQUENCE, "last-sequence", count)
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        self.answer(&calls::purge_below(sequence), "purged", count)
    }

    async fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        self.answer(&calls::oldest_waiting(queue), "oldest", ask)
    }

    async fn take(&mut self, queue: &str, within: Duration) -> Result<Option<(u64, Ask)>, Fault> {
        self.answer(&calls::fetch(queue, nanos(within)), "fetched", taken)
    }

    async fn hand_back(&mut self, ticket: u64, delay: Duration) -> Result<(), Fault> {
        self.answer(&calls::hand_back(ticket, nanos(delay)), "handed-back", done)
    }

    async fn floor(&mut self) -> Result<u64, Fault> {
        self.answer(calls::FLOOR, "floor", count)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.note(&calls::moved(was, floor));
    }
}
