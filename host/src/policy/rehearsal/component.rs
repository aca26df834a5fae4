//! A decision made by a policy component, over the same script.

use crate::policy::rehearsal::parse::{self, Args};
use crate::policy::rehearsal::script::Script;
use crate::policy::rehearsal::table::Scene;
use crate::policy::{Policy, PolicyError};

#[path = "words.rs"]
#[allow(clippy::duplicate_mod, reason = "one text over two families of types")]
mod words;

mod types {
    pub(super) use crate::bindings::{
        Admitted, Attempt, Building, Certainty, Closed, HeldLease, Holder, Identity, Kept, Loss, Open,
        PolicyFault, ReleaseOutcome, Renewal, Report, Sighting, Standing, Tenure, Terms, Trouble, Vacancy,
        Verdict,
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
