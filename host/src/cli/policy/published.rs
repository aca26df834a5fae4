//! Policies that are published in an object bucket, which a whole fleet follows.

use std::process::ExitCode;

use anyhow::{Context, bail};
use incumbent::policies::publish::{self, Published};
use incumbent::policies::source::Source;
use incumbent::policies::{Policies, PoliciesOptions};
use incumbent::store::nats::Nats;
use incumbent::store::open::{StoreUrl, open_nats};
use serde_json::json;

use super::super::args::{PolicyHistory, PolicyPublish, PolicyRollback, StoreArgs};
use super::super::exit::Exit;
use super::super::{say, state};

/// `incumbent policy publish`.
pub(super) async fn publish(args: &PolicyPublish, as_json: bool) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(&args.to)?;
    let offer = super::offer(&args.file)?;
    let options = PoliciesOptions { key: super::key(&args.key)?, ..PoliciesOptions::default() };
    let policies = Policies::open(&super::runtime()?, options).await?;
    let checked = policies.check(&offer).await?;
    let nats = connect(&args.store).await?;
    if args.create {
        publish::create_bucket(&nats, bucket, args.replicas).await?;
    }
    let published = publish::publish(&nats, bucket, name, &offer.bytes, offer.signature.as_deref()).await?;
    let about = checked.version.about();
    let text = format!("{} {} is published as {}", about.name, about.version, args.to);
    tell(&published, &text, as_json);
    Ok(Exit::Done.into())
}

/// `incumbent policy history nats:…`.
pub(super) async fn history(of: &Source, args: &PolicyHistory, as_json: bool) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(of)?;
    let versions = publish::history(&connect(&args.store).await?, bucket, name).await?;
    let mut rows = Vec::new();
    for version in &versions {
        if as_json {
            rows.push(json!({
                "digest": format!("sha256:{}", version.digest), "bytes": version.size,
                "published": version.published, "signed": version.signed, "current": version.current,
            }));
            continue;
        }
        let signed = if version.signed { "signed" } else { "not signed" };
        let current = if version.current { "  current" } else { "" };
        println!(
            "{}  sha256:{}  {} bytes  {signed}{current}",
            version.published, version.digest, version.size
        );
    }
    if as_json {
        println!("{}", serde_json::Value::from(rows));
    }
    Ok(Exit::Done.into())
}

/// `incumbent policy rollback nats:…`.
pub(super) async fn rollback(of: &Source, args: &PolicyRollback, as_json: bool) -> anyhow::Result<ExitCode> {
    let (bucket, name) = object(of)?;
    let nats = connect(&args.store).await?;
    let digest = match &args.to {
        Some(digest) => digest.trim_start_matches("sha256:").to_owned(),
        None => {
            let versions = publish::history(&nats, bucket, name).await?;
            match versions.into_iter().find(|version| !version.current) {
                Some(before) => before.digest,
                None => {
                    say::error(&format!("no version of {of} before the one that is published is kept"));
                    return Ok(Exit::Nobody.into());
                }
            }
        }
    };
    let published = publish::republish(&nats, bucket, name, &digest).await?;
    tell(&published, &format!("{of} is sha256:{digest} again"), as_json);
    Ok(Exit::Done.into())
}

fn tell(published: &Published, text: &str, as_json: bool) {
    let Published { digest, unchanged } = published;
    if as_json {
        println!("{}", json!({ "digest": format!("sha256:{digest}"), "unchanged": unchanged }));
    } else if *unchanged {
        println!("{text} already");
    } else {
        println!("{text}");
    }
}

fn object(source: &Source) -> anyhow::Result<(&str, &str)> {
    match source {
        Source::Nats { bucket, name } => Ok((bucket, name)),
        Source::File(path) => bail!("{} is no object; give nats:BUCKET/NAME", path.display()),
    }
}

/// A connection to the servers of the store.
pub(super) async fn connect(args: &StoreArgs) -> anyhow::Result<Nats> {
    match state::store_url(args)? {
        StoreUrl::Nats(servers) => Ok(open_nats(&servers, &args.access()).await?),
        other => Err(incumbent::store::Fault::Denied(format!(
            "policies are published on NATS servers, and the store is {other}; give --store nats://HOST:PORT"
        )))
        .context("nats:BUCKET/NAME"),
    }
}
