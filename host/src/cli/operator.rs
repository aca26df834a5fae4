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
use super::exit::Exit;
use super::say;
use super::show::holder_json;
use super::state::open_store;

/// How often one looks whether the holder has given way.
const LOOK: Duration = Duration::from_millis(100);

/// How much later than its ttl a record may be found gone.
const LATE: Duration = Duration::from_secs(2);

/// `incumbent step-down`.
pub(crate) async fn step_down(args: &StepDown, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open_store(&args.store, &args.bucket, None).await?;
    let bucket = store.bucket(&args.bucket.bucket).await?;
    let policy = super::policy::built_in().await?;
    let by = args.by.clone().unwrap_or_else(operator);
    let asked = match lease::step_down(&policy, &bucket, &Clock::machine(), &args.lease, &by).await? {
        Request::Asked(holder) => holder,
        Request::AskedBefore(holder) => {
            say::note(&format!("{} had been asked before", holder.instance), as_json);
            holder
        }
        Request::Nobody => {
            tell(args, as_json, "nobody", None, None, &format!("nobody holds {}", args.lease));
            return Ok(Exit::Nobody.into());
        }
    };
    let Holder { instance, epoch, .. } = &asked;
    if args.no_wait {
        tell(
            args,
            as_json,
            "asked",
            Some(&asked),
            None,
            &format!("asked {instance} (epoch {epoch}) to give way"),
        );
        return Ok(Exit::Done.into());
    }
    say::note(&format!("asked {instance} (epoch {epoch}) to give way"), as_json);
    // Marked, the record is renewed no more: gone it is by its ttl, whatever the holder does.
    let deadline = Instant::now() + bucket.info().await?.ttl + LATE;
    match given_way(&policy, &bucket, args, &asked, deadline).await? {
        Some(None) => tell(
            args,
            as_json,
            "given-way",
            Some(&asked),
            None,
            &format!("{instance} gave way; nobody holds {}", args.lease),
        ),
        Some(Some(next)) => {
            let text = format!(
                "{instance} gave way; {} holds {} at epoch {}",
                next.instance, args.lease, next.epoch
            );
            tell(args, as_json, "given-way", Some(&asked), Some(&next), &text);
        }
        None => {
            let text = format!("{instance} has not given way, and its record is still there; look again");
            tell(args, as_json, "not-given-way", Some(&asked), None, &text);
            return Ok(Exit::Unavailable.into());
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

fn tell(
    args: &StepDown,
    as_json: bool,
    outcome: &str,
    asked: Option<&Holder>,
    next: Option<&Holder>,
    text: &str,
) {
    if as_json {
        let (asked, next) = (asked.map(holder_json), next.map(holder_json));
        println!("{}", json!({ "lease": args.lease, "outcome": outcome, "asked": asked, "holder": next }));
    } else {
        println!("{text}");
    }
}

/// Who runs this command, for the one who is asked.
fn operator() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = if user.is_empty() { host } else { format!("{user}@{host}") };
    name.chars().filter(|c| !c.is_control()).take(50).collect()
}

/// `incumbent clear`.
pub(crate) async fn clear(args: &Clear, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open_store(&args.store, &args.bucket, None).await?;
    let bucket = store.bucket(&args.bucket.bucket).await?;
    let policy = super::policy::built_in().await?;
    let ttl = humantime::format_duration(bucket.info().await?.ttl);
    if !args.yes {
        let found = lease::current(&policy, &bucket, &Clock::machine(), &args.lease).await;
        let text = match found {
            Ok(None) => format!("nothing stands at {}", args.lease),
            Ok(Some(holder)) => format!(
                "{} holds {} at epoch {}, which is never cleared",
                holder.instance, args.lease, holder.epoch
            ),
            Err(lease::LeaseError::NotAHolder(what)) => {
                format!("{what}\nwith --yes it is deleted, once it has stood unchanged for {ttl}")
            }
            Err(why) => return Err(why.into()),
        };
        say::error(&text);
        return Ok(Exit::Usage.into());
    }
    say::note(
        &format!("watching {} for {ttl}: a holder whose record was written over may still act", args.lease),
        as_json,
    );
    let cleared = lease::clear(&policy, &bucket, &Clock::machine(), &args.lease).await?;
    let (outcome, text) = match cleared {
        Cleared::Deleted => ("deleted", "deleted"),
        Cleared::AgedOut => ("aged-out", "gone by its age"),
        Cleared::Nothing => ("nothing", "nothing stands there"),
    };
    if as_json {
        println!("{}", json!({ "lease": args.lease, "outcome": outcome }));
    } else {
        println!("{}: {text}", args.lease);
    }
    Ok(if cleared == Cleared::Nothing { Exit::Nobody } else { Exit::Done }.into())
}
