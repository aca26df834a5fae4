//! The delivery's side: under a lease that another process of ours holds and tells by the environment.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use incumbent::clock::Clock;
use incumbent::guard::GuardError;
use incumbent::holds::{Claim, HoldsError, Plans};
use serde_json::json;
use tokio::process::Command;

use super::super::args::{HoldsBegin, HoldsBuckets, HoldsEnd, Office, StoreArgs};
use super::super::exit::Exit;
use super::super::say::{self, NotSaid};
use super::super::signals::{Signals, after_signal, forward};
use super::super::state::store_url;

/// `incumbent holds begin`.
pub(crate) async fn begin(args: HoldsBegin) -> anyhow::Result<ExitCode> {
    let plans = plans(&args.office, &args.store, &args.buckets);
    let Some((program, arguments)) = args.command.split_first() else {
        let known =
            plans.await?.say(&args.plan).await.map_err(|why| refused(why, &args.office, &args.store))?;
        said(&args.plan, Some(&known.since))?;
        return Ok(Exit::Done.into());
    };
    // Listening first, so that no signal ends this process without the plan being ended.
    let mut signals = Signals::listen().context("signals cannot be listened to")?;
    let plans = match signals.unless_ended(plans, || false).await {
        Ok(plans) => plans?,
        Err(signal) => return Ok(after_signal(signal).into()),
    };
    let building = plans.begin(&args.plan).await.map_err(|why| refused(why, &args.office, &args.store))?;
    let spawned = Command::new(program).args(arguments).kill_on_drop(true).spawn();
    let mut command = match spawned {
        Ok(command) => command,
        Err(source) => {
            building.end().await?;
            let command = program.clone();
            return Err(match source.kind() {
                std::io::ErrorKind::NotFound => GuardError::NotFound { command },
                _ => GuardError::NotExecutable { command, source },
            }
            .into());
        }
    };
    let status = loop {
        tokio::select! {
            status = command.wait() => break status.context("the command's end cannot be learnt")?,
            signal = signals.next() => forward(command.id(), signal),
        }
    };
    if let Err(why) = building.end().await {
        // The command's code is what the caller asked for.
        say::error(&format!("that {} has built was not said: {why}", args.plan));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or_else(|| status.signal().map_or(u8::MAX, after_signal))))
}

/// `incumbent holds end`.
pub(crate) async fn end(args: HoldsEnd) -> anyhow::Result<ExitCode> {
    let plans = plans(&args.office, &args.store, &args.buckets).await?;
    plans.end(&args.plan).await.map_err(|why| refused(why, &args.office, &args.store))?;
    said(&args.plan, None)?;
    Ok(Exit::Done.into())
}

/// With where it was looked up who is in office: `run` may have been told another place.
fn refused(why: HoldsError, Office { bucket, .. }: &Office, store: &StoreArgs) -> anyhow::Error {
    let is_about_office = matches!(why, HoldsError::NotInOffice(_));
    let why = anyhow::Error::from(why);
    match store_url(store) {
        Ok(url) if is_about_office => {
            let name = &bucket.bucket;
            why.context(format!(
                "by the bucket {name} of {url} (--bucket, --store, as `incumbent run` has them)"
            ))
        }
        _ => why,
    }
}

async fn plans(office: &Office, store: &StoreArgs, buckets: &HoldsBuckets) -> anyhow::Result<Plans> {
    let buckets = buckets.names();
    let store = super::open(store, &buckets).await?;
    let (policy, clock) = (super::super::policy::built_in().await?, Clock::machine());
    let claim = Claim {
        policy: policy.clone(),
        bucket: store.bucket(&office.bucket.bucket).await?,
        clock: clock.clone(),
        lease: office.lease.clone(),
        epoch: office.epoch,
    };
    Ok(Plans::new(&policy, &store, &buckets, &clock, Arc::new(claim), Arc::new(say::holds)))
}

/// `since`: when it began to build, while it does.
fn said(plan: &str, since: Option<&str>) -> Result<(), NotSaid> {
    let text = match since {
        Some(since) => format!("{plan} builds since {since}"),
        None => format!("{plan} does not build"),
    };
    say::answer(&text, &json!({ "plan": plan, "builds": since.is_some(), "since": since }))
}
