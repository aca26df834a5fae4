//! Who holds what.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use incumbent::clock::Clock;
use incumbent::lease;
use incumbent::store::Bucket;
use incumbent::{HeldLease, Holder};
use serde_json::{Value, json};

use super::args::{List, Status};
use super::exit::Exit;
use super::{policy, say, state};

/// Rows asked for at a time.
const PAGE: u32 = 500;

/// `incumbent status`.
pub(crate) async fn status(args: &Status) -> anyhow::Result<ExitCode> {
    let (mut holder, mut ttl) = (None, Duration::ZERO);
    if let Some(bucket) = state::existing(&args.store, &args.bucket).await? {
        ttl = bucket.info().await?.ttl;
        holder = lease::current(&policy::built_in().await?, &bucket, &Clock::machine(), &args.lease).await?;
    }
    let serving = policy::serving(&args.policy)?;
    let mut text = match &holder {
        Some(holder) => line(holder, ttl),
        None => format!("nobody holds {}", args.lease),
    };
    // Only where another than the built-in one ever served.
    if let Some(serving) = &serving {
        text = format!("{text}\non this machine: {}", policy::serving_line(serving));
    }
    let shown = holder.as_ref().map(|holder| with_expiry(holder, ttl));
    say::answer(&text, &json!({ "lease": args.lease, "holder": shown, "policy": serving }))?;
    Ok(if holder.is_some() { Exit::Done } else { Exit::Nobody }.into())
}

/// `incumbent list`.
pub(crate) async fn list(args: &List) -> anyhow::Result<ExitCode> {
    let (mut leases, mut ttl) = (Vec::new(), Duration::ZERO);
    if let Some(bucket) = state::existing(&args.store, &args.bucket).await? {
        ttl = bucket.info().await?.ttl;
        leases = all(&bucket).await?;
    }
    let lines = leases.iter().map(|HeldLease { name, holder }| match holder {
        Ok(holder) => format!("{}  {}", say::name(name), line(holder, ttl)),
        Err(what) => format!("{}  {what}", say::name(name)),
    });
    let rows = leases.iter().map(|HeldLease { name, holder }| match holder {
        Ok(holder) => json!({ "lease": name, "holder": with_expiry(holder, ttl) }),
        Err(what) => json!({ "lease": name, "error": what }),
    });
    say::answer(&lines.collect::<Vec<_>>().join("\n"), &rows.collect())?;
    let broken = leases.iter().any(|lease| lease.holder.is_err());
    Ok(if broken { Exit::Data } else { Exit::Done }.into())
}

async fn all(bucket: &Arc<dyn Bucket>) -> anyhow::Result<Vec<HeldLease>> {
    let policy = policy::built_in().await?;
    let mut leases: Vec<HeldLease> = Vec::new();
    loop {
        let after = leases.last().map(|lease| lease.name.clone());
        let page = lease::list(&policy, bucket, &Clock::machine(), after.as_deref(), PAGE).await?;
        // A page without anything new is the end.
        if page.last().is_none_or(|last| Some(&last.name) <= after.as_ref()) {
            return Ok(leases);
        }
        leases.extend(page);
    }
}

fn line(holder: &Holder, ttl: Duration) -> String {
    let Holder { instance, epoch, taken, renewed, .. } = holder;
    let [instance, taken, renewed] = [instance, taken, renewed].map(|text| say::name(text));
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
