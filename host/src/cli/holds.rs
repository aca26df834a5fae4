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
use super::exit::Exit;
use super::state::open_with;

/// `incumbent holds`.
pub(crate) async fn holds(command: HoldsCommand, as_json: bool) -> anyhow::Result<ExitCode> {
    match command {
        HoldsCommand::Status(args) => status(&args, as_json).await,
        HoldsCommand::Watch(args) => watch(&args, as_json).await,
        HoldsCommand::Begin(args) => delivery::begin(args, as_json).await,
        HoldsCommand::End(args) => delivery::end(args, as_json).await,
        HoldsCommand::Next(args) => next::next(args, as_json).await,
    }
}

/// The store, with both buckets where they are made by the way.
async fn open(args: &StoreArgs, buckets: &Buckets) -> anyhow::Result<Arc<dyn Store>> {
    open_with(args, &[(&buckets.plans, holds::TTL), (&buckets.running, holds::TTL)]).await
}

async fn status(args: &HoldsStatus, as_json: bool) -> anyhow::Result<ExitCode> {
    let buckets = args.buckets.names();
    let store = open(&args.store, &buckets).await?;
    let policy = super::policy::built_in().await?;
    let report = holds::status(&policy, &store, &buckets, &Clock::machine()).await?;
    println!("{}", said(&report, as_json));
    Ok(Exit::Done.into())
}

async fn watch(args: &HoldsWatch, as_json: bool) -> anyhow::Result<ExitCode> {
    let buckets = args.buckets.names();
    let store = open(&args.store, &buckets).await?;
    let policy = super::policy::built_in().await?;
    let mut last = None;
    loop {
        let line = match holds::status(&policy, &store, &buckets, &Clock::machine()).await {
            Ok(report) => said(&report, as_json),
            // It may come back; until then it is said once, as everything here.
            Err(why) if as_json => json!({ "error": why.to_string() }).to_string(),
            Err(why) => format!("cannot tell: {why}"),
        };
        if last.as_ref() != Some(&line) {
            println!("{line}");
            last = Some(line);
        }
        sleep(args.every).await;
    }
}

fn said(report: &Report, as_json: bool) -> String {
    if as_json {
        return to_json(report).to_string();
    }
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
