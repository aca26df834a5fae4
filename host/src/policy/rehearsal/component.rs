//! A decision made by a policy component, over the same script.

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::{Clock, nanos};
use crate::imports::{Ask, Imports, Level, Role};
use crate::limits;
use crate::policy::rehearsal::calls;
use crate::policy::rehearsal::parse::{self, Args, ask, count, done, info, keys, reading, taken, write};
use crate::policy::rehearsal::script::Script;
use crate::policy::rehearsal::table::Scene;
use crate::policy::{Policy, PolicyError};
use crate::store::{BucketInfo, Fault, Reading, Write};

#[path = "words.rs"]
mod words;

mod types {
    pub(super) use crate::bindings::{
        Admitted, Attempt, Building, Certainty, Closed, HeldLease, Holder, Identity, Kept, Loss, Open,
        PolicyFault, ReleaseOutcome, Renewal, Report, Request, Sighting, Standing, Tenure, Terms, Trouble,
        Vacancy, Verdict,
    };
}

/// Why a scene did not end in a decision.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Undecided {
    /// It is a fault of the table.
    #[error("{0}")]
    Command(String),
    /// The policy asked what the script does not answer.
    #[error("{0}")]
    Script(String),
    /// The policy failed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl From<String> for Undecided {
    fn from(why: String) -> Self {
        Self::Command(why)
    }
}

impl Scene {
    /// Have a policy decide over this script, and tell the outcome.
    ///
    /// # Errors
    /// [`Undecided`]
    pub async fn decide(&self, policy: &Policy, script: &Script) -> Result<String, Undecided> {
        let (command, args) = self.command();
        tokio::select! {
            biased;
            // The call is dropped where it waits for an answer.
            why = script.broken() => Err(Undecided::Script(why)),
            outcome = decide(policy, command, Args::of(args)?, script) => outcome,
        }
    }
}

async fn decide(
    policy: &Policy,
    command: &str,
    mut args: Args,
    script: &Script,
) -> Result<String, Undecided> {
    let io = script.clone();
    let args = &mut args;
    let outcome = match command {
        "check" => words::checked(&policy.check(io, words::terms(args)?).await?),
        "take" => {
            let (terms, who) = (words::terms(args)?, words::identity(args));
            let (rule, seen) = (words::vacancy(args)?, words::sighting(args)?);
            words::attempt(&policy.take(io, terms, &who, rule, seen).await?)
        }
        "renew" => {
            let (terms, who, tenure) = (words::terms(args)?, words::identity(args), words::tenure(args)?);
            words::renewal(&policy.renew(io, terms, &who, &tenure).await?)
        }
        "release" => {
            let (who, tenure) = (words::identity(args), words::tenure(args)?);
            words::release(&policy.release(io, &who, &tenure).await?)
        }
        "step-down" => {
            let (lease, by) = (args.text("lease", "controller"), args.text("by", "ops"));
            words::request(&policy.step_down(io, &lease, &by).await?)
        }
        "current" => words::current(&policy.current(io, &args.text("lease", "controller")).await?),
        "list" => {
            let (after, most) = (args.value("after"), words::most(args)?);
            words::list(&policy.list(io, after.as_deref(), most).await?)
        }
        "pass" => words::pass(&policy.pass(io, &words::standing(args)?).await?),
        "admit" => {
            let (heard, epoch) = (args.number("heard", 0)?, args.number("epoch", 0)?);
            words::admit(policy.admit(io, heard, epoch).await?)
        }
        "assess" => words::assess(&policy.assess(io).await?),
        "let-one-through" => {
            let (queues, builder) = (words::queues(args), args.text("builder", "seat-1"));
            let (after, within) = (args.time("after", "1800s")?, args.time("within", "2s")?);
            let one = policy.let_one_through(io, &queues, &builder, after, within).await;
            words::admitted(&one?)
        }
        "keep" => {
            let (builder, since) = (args.text("builder", "seat-1"), args.text("since", words::SINCE));
            let kept = policy.keep_let_through(io, &builder, &since, args.number("revision", 57)?).await;
            words::kept(&kept?)
        }
        "drop" => {
            let dropped = policy.drop_let_through(io, args.number("revision", 57)?).await;
            words::done(&dropped?)
        }
        "status" => words::report(&policy.holds_status(io).await?),
        "begin" => words::building(&policy.begin_plan(io, &args.text("plan", "plan-12")).await?),
        "seen" => {
            let (plan, since) = (args.text("plan", "plan-12"), args.text("since", words::SINCE));
            let known = types::Building { since, revision: args.number("revision", 57)? };
            words::kept(&policy.plan_seen(io, &plan, &known).await?)
        }
        "end" => {
            let plan = args.text("plan", "plan-12");
            let ended = policy.end_plan(io, &plan, args.number("revision", 57)?).await;
            words::done(&ended?)
        }
        other => return Err(Undecided::Command(format!("{other:?} is no command"))),
    };
    std::mem::take(args).end()?;
    Ok(outcome)
}

#[async_trait]
impl Imports for Script {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        if self.logs {
            let level = format!("{level:?}").to_lowercase();
            self.note(&calls::log(&level, target, message));
            return;
        }
        // What a candidate says over a mocked host is no news of this one, whatever level it chose.
        let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
        let (part, message) =
            (cut(target, limits::LOG_TARGET_CHARS), cut(message, limits::LOG_MESSAGE_CHARS));
        tracing::debug!(target: "incumbent::policy", part, "in a rehearsal: {message}");
    }

    async fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        self.answer(&calls::get(bucket, key), "get", reading).await
    }

    async fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.answer(&calls::create(bucket, key, value), "create", write).await
    }

    async fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::update(bucket, key, value, expected), "update", write).await
    }

    async fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::delete(bucket, key, expected), "delete", write).await
    }

    async fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        self.answer(&calls::keys(bucket, after, most), "keys", keys).await
    }

    async fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        self.answer(&calls::info(bucket), "info", info).await
    }

    async fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.answer(calls::LAST_SEQUENCE, "last-sequence", count).await
    }

    async fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        self.answer(&calls::purge_below(sequence), "purged", count).await
    }

    async fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        self.answer(&calls::oldest_waiting(queue), "oldest", ask).await
    }

    async fn take(&mut self, queue: &str, within: Duration) -> Result<Option<(u64, Ask)>, Fault> {
        self.answer(&calls::fetch(queue, nanos(within)), "fetched", taken).await
    }

    async fn hand_back(&mut self, ticket: u64, delay: Duration) -> Result<(), Fault> {
        self.answer(&calls::hand_back(ticket, nanos(delay)), "handed-back", done).await
    }

    async fn floor(&mut self) -> Result<u64, Fault> {
        self.answer(calls::FLOOR, "floor", count).await
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.note(&calls::moved(was, floor));
    }
}
