//! Making buckets.

use std::process::ExitCode;

use incumbent::store::BucketConfig;
use serde_json::json;

use super::args::BucketCreate;
use super::exit::{Exit, wrong};
use super::say;
use super::state::{check_replicas, open_store, store_url};

/// `incumbent bucket create`.
pub(crate) async fn create(args: &BucketCreate) -> anyhow::Result<ExitCode> {
    let url = store_url(&args.store)?;
    check_replicas(&url, args.replicas)?;
    let store = open_store(&args.store).await?;
    if let Ok(there) = store.bucket(&args.name).await {
        let has = there.info().await?.ttl;
        if has != args.ttl {
            let has = humantime::format_duration(has);
            let why = format!(
                "the bucket {} is there, and has a ttl of {has}; use that, or another bucket",
                args.name
            );
            return Err(wrong(Exit::Config, why));
        }
    }
    let config = BucketConfig { ttl: args.ttl, replicas: args.replicas.into() };
    let info = store.create_bucket(&args.name, &config).await?.info().await?;
    let ttl = humantime::format_duration(info.ttl);
    let markers = if info.markers { "" } else { ", without markers: candidates see an expiry at their poll" };
    say::answer(
        &format!("{} on {url}: ttl {ttl}, replicas {}{markers}", args.name, args.replicas),
        &json!({
            "bucket": args.name,
            "store": url.to_string(),
            "ttl_ms": info.ttl.as_millis(),
            "replicas": args.replicas,
            "markers": info.markers,
        }),
    )?;
    Ok(Exit::Done.into())
}
