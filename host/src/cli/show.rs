//! Who holds what.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use incumbent::clock::Clock;
use incumbent::lease;
use incumbent::{HeldLease, Holder};
use serde_json::{Value, json};

use super::args::{List, Status};
use super::exit::Exit;
use super::state::open_store;

/// Rows asked for at a time.
const PAGE: u32 = 500;

/// `incumbent status`.
pub(crate) async fn status(args: &Status, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open_store(&args.store, &args.bucket, None).await?;
    let bucket = store.bucket(&args.bucket.bucket).await?;
    let policy = super::policy::built_in().await?;
    let ttl = bucket.info().await?.ttl;
    let holder = lease::current(&policy, &bucket, &Clock::machine(), &args.lease).await?;
    let serving = super::policy::serving(&args.policy)?;
    if as_json {
        let shown = holder.as_ref().map(|holder| with_expiry(holder, ttl));
        println!("{}", json!({ "lease": args.lease, "holder": shown, "policy": serving }));
    } else {
        match &holder {
            Some(holder) => println!("{}", line(holder, ttl)),
            None => println!("nobody holds {}", args.lease),
        }
        // Only where another than the built-in one ever served.
        if let Some(serving) = &serving {
            println!("on this machine: {}", super::policy::serving_line(serving));
        }
    }
    Ok(if holder.is_some() { Exit::Done } else { Exit::Nobody }.into())
}

/// `incumbent list`.
pub(crate) async fn list(args: &List, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open_store(&args.store, &args.bucket, None).await?;
    let bucket = store.bucket(&args.bucket.bucket).await?;
    let policy = super::policy::built_in().await?;
    let ttl = bucket.info().await?.ttl;
    let mut leases: Vec<HeldLease> = Vec::new();
    loop {
        let after = leases.last().map(|lease| lease.name.clone());
        let page = lease::list(&policy, &bucket, &Clock::machine(), after.as_deref(), PAGE).await?;
        // A page without anything new is the end.
        if page.last().is_none_or(|last| Some(&last.name) <= after.as_ref()) {
            break;
        }
        leases.extend(page);
    }
    if as_json {
        let rows: Vec<Value> = leases.iter().map(|lease| row(lease, ttl)).collect();
        println!("{}", serde_json::to_string(&rows).context("the list cannot be written as JSON")?);
    } else {
        for lease in &leases {
            match &lease.holder {
                Ok(holder) => println!("{}  {}", lease.name, line(holder, ttl)),
                Err(what) => println!("{}  {what}", lease.name),
            }
        }
    }
    let broken = leases.iter().any(|lease| lease.holder.is_err());
    Ok(if broken { Exit::Data } else { Exit::Done }.into())
}

fn row(lease: &HeldLease, ttl: Duration) -> Value {
    match &lease.holder {
        Ok(holder) => json!({ "lease": lease.name, "holder": with_expiry(holder, ttl) }),
        Err(what) => json!({ "lease": lease.name, "error": what }),
    }
}

fn line(holder: &Holder, ttl: Duration) -> String {
    let Holder { instance, epoch, taken, renewed, .. } = holder;
    let expires = expires(holder, ttl).map_or_else(String::new, |at| format!("  expires {at}"));
    format!("{instance}  epoch {epoch}  taken {taken}  renewed {renewed}{expires}")
}

fn with_expiry(holder: &Holder, ttl: Duration) -> Value {
    let mut shown = holder_json(holder);
    shown["expires"] = json!(expires(holder, ttl));
    shown
}

/// When the record expires unless renewed, by the holder's own time of day; for people who look.
fn expires(holder: &Holder, ttl: Duration) -> Option<String> {
    let renewed = humantime::parse_rfc3339(&holder.renewed).ok()?;
    let mut text = String::new();
    // A year of five digits cannot be written.
    write!(text, "{}", humantime::format_rfc3339_seconds(renewed.checked_add(ttl)?)).ok()?;
    Some(text)
}

/// A holder as JSON.
pub(crate) fn holder_json(holder: &Holder) -> Value {
    json!({
        "instance": holder.instance,
        "host": holder.host,
        "build": holder.build,
        "epoch": holder.epoch,
        "taken": holder.taken,
        "renewed": holder.renewed,
        "revision": holder.revision,
    })
}
