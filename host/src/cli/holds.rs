//! Check holds from the command line.

mod delivery;
mod next;

use std::process::ExitCode;
use std::sync::Arc;

use incumbent::clock::Clock;
use incumbent::holds::{self, Buckets};
use incumbent::store::Store;
use incumbent::{LetThrough, Report};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::args::{HoldsCommand, HoldsStatus, HoldsWatch, StoreArgs};
use super::exit::{Exit, wrong};
use super::say;
use super::state::{ensure_bucket, open_existing};

/// `incumbent holds`.
pub(crate) async fn holds(command: HoldsCommand) -> anyhow::Result<ExitCode> {
    match command {
        HoldsCommand::Status(args) => status(&args).await,
        HoldsCommand::Watch(args) => watch(&args).await,
        HoldsCommand::Begin(args) => delivery::begin(args).await,
        HoldsCommand::End(args) => delivery::end(args).await,
        HoldsCommand::Next(args) => next::next(args).await,
    }
}

/// The store, with both buckets where they are made by the way. A file is never made by the way: where there is none,
/// there are neither queues nor leases.
async fn open(args: &StoreArgs, buckets: &Buckets) -> anyhow::Result<Arc<dyn Store>> {
    let store = open_existing(args).await?.map_err(|why| {
        wrong(
            Exit::Config,
            format!("{why}; `incumbent queue create` makes it, or whoever stands for a lease there"),
        )
    })?;
    for bucket in [&buckets.plans, &buckets.running] {
        ensure_bucket(args, &*store, bucket, holds::TTL).await?;
    }
    Ok(store)
}

async fn status(args: &HoldsStatus) -> anyhow::Result<ExitCode> {
    let buckets = args.buckets.names();
    let store = open(&args.store, &buckets).await?;
    let policy = super::policy::built_in().await?;
    let report = holds::status(&policy, &store, &buckets, &Clock::machine()).await?;
    say::answer(&to_text(&report), &to_json(&report))?;
    Ok(Exit::Done.into())
}

async fn watch(args: &HoldsWatch) -> anyhow::Result<ExitCode> {
    let buckets = args.buckets.names();
    let store = open(&args.store, &buckets).await?;
    let policy = super::policy::built_in().await?;
    let mut last = None;
    loop {
        let (text, json) = match holds::status(&policy, &store, &buckets, &Clock::machine()).await {
            Ok(report) => (to_text(&report), to_json(&report)),
            // It may come back; until then it is said once, as everything here.
            Err(why) => (format!("cannot tell: {why}"), json!({ "error": why.to_string() })),
        };
        if last.as_ref() != Some(&text) {
            say::answer(&text, &json)?;
            last = Some(text);
        }
        sleep(args.every).await;
    }
}

fn to_text(report: &Report) -> String {
    let plans = match report.plans.as_slice() {
        [] => "no delivery builds, checks are taken as usual".into(),
        plans => holds::Event::Held { plans: plans.to_vec() }.to_string(),
    };
    match &report.let_through {
        Some(LetThrough { builder, since }) => format!("{plans}; let through on {builder} since {since}"),
        None => plans,
    }
}

fn to_json(report: &Report) -> Value {
    let let_through = report.let_through.as_ref();
    json!({
        "held": !report.plans.is_empty(),
        "plans": report.plans,
        "let_through": let_through.map(|check| json!({ "builder": check.builder, "since": check.since })),
    })
}
