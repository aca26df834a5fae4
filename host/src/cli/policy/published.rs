//! Policies that are published in an object bucket, which a whole fleet follows.

use std::process::ExitCode;

use incumbent::policies::publish::{self, Published};
use incumbent::policies::source::Source;
use incumbent::policies::{Policies, PoliciesOptions};
use incumbent::store::nats::Nats;
use incumbent::store::open::{StoreUrl, open_nats};
use serde_json::json;

use super::super::args::{PolicyHistory, PolicyPublish, PolicyRollback, StoreArgs};
use super::super::exit::{Exit, wrong};
use super::super::say::{self, NotSaid};
use super::super::state;

/// `incumbent policy publish`.
pub(super) async fn publish(args: &PolicyPublish) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(&args.to)?;
    let offer = super::offer(&args.file)?;
    // One that was rolled back on this machine is none for others either.
    let (state, key) = (super::here::existing(&args.state)?, super::key(&args.key)?);
    let options = PoliciesOptions { state, key, ..PoliciesOptions::default() };
    let policies = Policies::open(&super::runtime()?, options).await?;
    let checked = policies.check(&offer).await?;
    let nats = connect(&args.store).await?;
    if args.create {
        publish::create_bucket(&nats, bucket, args.replicas.into()).await?;
    }
    let published = publish::publish(&nats, bucket, name, &offer.bytes, offer.signature.as_deref()).await?;
    let about = checked.version.about();
    let text = format!("{} {} is published as {}", about.name, about.version, args.to);
    tell(&published, &text)?;
    Ok(Exit::Done.into())
}

/// `incumbent policy history nats:…`.
pub(super) async fn history(of: &Source, args: &PolicyHistory) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(of)?;
    let versions = publish::history(&connect(&args.store).await?, bucket, name).await?;
    let lines = versions.iter().map(|version| {
        let signed = if version.signed { "signed" } else { "not signed" };
        let current = if version.current { "  current" } else { "" };
        format!("{}  sha256:{}  {} bytes  {signed}{current}", version.published, version.digest, version.size)
    });
    let rows = versions.iter().map(|version| {
        json!({
            "digest": format!("sha256:{}", version.digest), "bytes": version.size,
            "published": version.published, "signed": version.signed, "current": version.current,
        })
    });
    say::answer(&lines.collect::<Vec<_>>().join("\n"), &rows.collect())?;
    Ok(Exit::Done.into())
}

/// `incumbent policy rollback nats:…`.
pub(super) async fn rollback(of: &Source, args: &PolicyRollback) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(of)?;
    let nats = connect(&args.store).await?;
    let digest = match &args.to {
        Some(digest) => digest.trim_start_matches("sha256:").to_owned(),
        None => {
            let versions = publish::history(&nats, bucket, name).await?;
            let none = || {
                wrong(Exit::Nobody, format!("no version of {of} before the one that is published is kept"))
            };
            // Newest first, and one that was gone back to stays in its place.
            let current = versions.iter().position(|version| version.current);
            let before = versions.into_iter().nth(current.map_or(0, |at| at + 1));
            before.ok_or_else(none)?.digest
        }
    };
    let published = publish::republish(&nats, bucket, name, &digest).await?;
    tell(&published, &format!("{of} is sha256:{digest} again"))?;
    Ok(Exit::Done.into())
}

fn object(source: &Source) -> anyhow::Result<(&str, &str)> {
    match source {
        Source::Nats { bucket, name } => Ok((bucket, name)),
        Source::File(path) => {
            Err(wrong(Exit::Usage, format!("{} is no object; give nats:BUCKET/NAME", path.display())))
        }
    }
}

fn tell(Published { digest, unchanged }: &Published, text: &str) -> Result<(), NotSaid> {
    let already = if *unchanged { " already" } else { "" };
    say::answer(
        &format!("{text}{already}"),
        &json!({ "digest": format!("sha256:{digest}"), "unchanged": unchanged }),
    )
}

/// A connection to the servers of the store.
pub(super) async fn connect(args: &StoreArgs) -> anyhow::Result<Nats> {
    match state::store_url(args)? {
        StoreUrl::Nats(servers) => Ok(open_nats(&servers, &args.access()).await?),
        other => Err(wrong(
            Exit::Usage,
            format!(
                "nats:BUCKET/NAME is on NATS servers, and the store is {other}; give --store nats://HOST:PORT"
            ),
        )),
    }
}
