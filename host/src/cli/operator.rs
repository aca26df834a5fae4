//! What operators do to leases: ask a holder to give way, clear away what is no holder.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use incumbent::clock::Clock;
use incumbent::lease::{self, Cleared};
use incumbent::policy::Policy;
use incumbent::store::Bucket;
use incumbent::{Holder, Request};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::args::{Clear, StepDown};
use super::exit::{Exit, wrong};
use super::say::{self, NotSaid};
use super::show::holder_json;
use super::state::existing;

/// How often one looks whether the holder has given way.
const LOOK: Duration = Duration::from_millis(100);

/// How much later than its ttl a record may be found gone.
const LATE: Duration = Duration::from_secs(2);

/// `incumbent step-down`.
pub(crate) async fn step_down(args: &StepDown) -> anyhow::Result<ExitCode> {
    let Some(bucket) = existing(&args.store, &args.bucket).await? else { return nobody(args) };
    let policy = super::policy::built_in().await?;
    let by = args.by.clone().unwrap_or_else(operator);
    let asked = match lease::step_down(&policy, &bucket, &Clock::machine(), &args.lease, &by).await? {
        Request::Asked(holder) => holder,
        Request::AskedBefore(holder) => {
            say::note(&format!("{} had been asked before", say::name(&holder.instance)));
            holder
        }
        Request::Nobody => return nobody(args),
    };
    let (instance, epoch) = (say::name(&asked.instance), asked.epoch);
    let text = format!("asked {instance} (epoch {epoch}) to give way");
    if args.no_wait {
        answer(args, "asked", Some(&asked), None, &text)?;
        return Ok(Exit::Done.into());
    }
    say::note(&text);
    // Marked, the record is renewed no more: gone it is by its ttl, whatever the holder does.
    let deadline = Instant::now() + bucket.info().await?.ttl + LATE;
    match given_way(&policy, &bucket, args, &asked, deadline).await? {
        Some(None) => {
            let text = format!("{instance} gave way; nobody holds {}", args.lease);
            answer(args, "given-way", Some(&asked), None, &text)?;
        }
        Some(Some(next)) => {
            let text = format!(
                "{instance} gave way; {} holds {} at epoch {}",
                say::name(&next.instance),
                args.lease,
                next.epoch
            );
            answer(args, "given-way", Some(&asked), Some(&next), &text)?;
        }
        None => {
            let text = format!("{instance} has not given way, and its record is still there; look again");
            answer(args, "not-given-way", Some(&asked), None, &text)?;
            return Ok(Exit::Lost.into());
        }
    }
    Ok(Exit::Done.into())
}

/// Until another holds the lease, or nobody. `None` when that takes too long.
async fn given_way(
    policy: &Policy,
    bucket: &Arc<dyn Bucket>,
    args: &StepDown,
    asked: &Holder,
    deadline: Instant,
) -> anyhow::Result<Option<Option<Holder>>> {
    loop {
        let holder = lease::current(policy, bucket, &Clock::machine(), &args.lease).await?;
        if holder.as_ref().is_none_or(|holder| holder.epoch != asked.epoch) {
            return Ok(Some(holder));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(LOOK).await;
    }
}

fn nobody(args: &StepDown) -> anyhow::Result<ExitCode> {
    answer(args, "nobody", None, None, &format!("nobody holds {}", args.lease))?;
    Ok(Exit::Nobody.into())
}

fn answer(
    args: &StepDown,
    outcome: &str,
    asked: Option<&Holder>,
    next: Option<&Holder>,
    text: &str,
) -> Result<(), NotSaid> {
    let (asked, next) = (asked.map(holder_json), next.map(holder_json));
    say::answer(text, &json!({ "lease": args.lease, "outcome": outcome, "asked": asked, "holder": next }))
}

/// Who runs this command, for the one who is asked.
fn operator() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = if user.is_empty() { host } else { format!("{user}@{host}") };
    name.chars().filter(|c| !c.is_control()).take(50).collect()
}

/// `incumbent clear`.
pub(crate) async fn clear(args: &Clear) -> anyhow::Result<ExitCode> {
    let Some(bucket) = existing(&args.store, &args.bucket).await? else {
        return cleared(args, Cleared::Nothing);
    };
    let policy = super::policy::built_in().await?;
    let ttl = humantime::format_duration(bucket.info().await?.ttl);
    if !args.yes {
        let found = lease::current(&policy, &bucket, &Clock::machine(), &args.lease).await;
        let text = match found {
            Ok(None) => return cleared(args, Cleared::Nothing),
            Ok(Some(holder)) => format!(
                "{} holds {} at epoch {}, which is never cleared",
                say::name(&holder.instance),
                args.lease,
                holder.epoch
            ),
            Err(lease::LeaseError::NotAHolder(what)) => {
                format!("{what}\nwith --yes it is deleted, once it has stood unchanged for {ttl}")
            }
            Err(why) => return Err(why.into()),
        };
        return Err(wrong(Exit::Usage, text));
    }
    say::note(&format!(
        "watching {} for {ttl}: a holder whose record was written over may still act",
        args.lease
    ));
    cleared(args, lease::clear(&policy, &bucket, &Clock::machine(), &args.lease).await?)
}

fn cleared(args: &Clear, cleared: Cleared) -> anyhow::Result<ExitCode> {
    let (outcome, text) = match cleared {
        Cleared::Deleted => ("deleted", "deleted"),
        Cleared::AgedOut => ("aged-out", "gone by its age"),
        Cleared::Nothing => ("nothing", "nothing stands there"),
    };
    say::answer(&format!("{}: {text}", args.lease), &json!({ "lease": args.lease, "outcome": outcome }))?;
    Ok(if cleared == Cleared::Nothing { Exit::Nobody } else { Exit::Done }.into())
}
