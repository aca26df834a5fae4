//! The user's state folder: the default store and the floors.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use incumbent::clock::Clock;
use incumbent::floor::{FileFloor, Floor, MemoryFloor};
use incumbent::store::name;
use incumbent::store::open::{StoreUrl, open};
use incumbent::store::{BucketConfig, Fault, Store};
use sha2::{Digest, Sha256};

use super::args::{BucketArg, Run, StoreArgs};

/// The ttl of a bucket that is made because none was there.
const TTL: Duration = Duration::from_secs(15);

/// An encoded name in a file name; what is longer is told apart by its digest.
const NAME_SHOWN: usize = 60;

pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("incumbent"))
        .context(
            "neither XDG_STATE_HOME nor HOME is set, so there is no state folder; give --store and --floor",
        )
}

/// The store that was asked for, or the default one.
pub(crate) fn store_url(args: &StoreArgs) -> anyhow::Result<StoreUrl> {
    match &args.store {
        Some(url) => Ok(url.clone()),
        None => Ok(StoreUrl::Sqlite(folder()?.join("leases.db"))),
    }
}

/// Opens the store. A missing bucket of a store of one machine or process is made, with `ttl`; one that
/// servers share is never made by the way, and says what makes it.
pub(crate) async fn open_store(
    args: &StoreArgs,
    bucket: &BucketArg,
    ttl: Option<Duration>,
) -> anyhow::Result<Arc<dyn Store>> {
    open_with(args, &[(&bucket.bucket, ttl.unwrap_or(TTL))]).await
}

/// As [`open_store`], with several buckets and the ttl of each.
pub(crate) async fn open_with(
    args: &StoreArgs,
    buckets: &[(&str, Duration)],
) -> anyhow::Result<Arc<dyn Store>> {
    let url = store_url(args)?;
    let store = open(&url, &args.access(), &Clock::machine()).await?;
    if matches!(url, StoreUrl::Nats(_)) {
        return Ok(store);
    }
    for (name, ttl) in buckets {
        if let Err(Fault::MissingBucket(_)) = store.bucket(name).await {
            store.create_bucket(name, &BucketConfig { ttl: *ttl, replicas: 1 }).await?;
        }
    }
    Ok(store)
}

/// Where the highest epoch issued is kept: a file for each lease of each bucket of each store.
pub(crate) fn floor(run: &Run) -> anyhow::Result<Arc<dyn Floor>> {
    match &run.floor {
        Some(none) if none.as_os_str() == "none" => Ok(Arc::new(MemoryFloor::default())),
        Some(file) => Ok(Arc::new(FileFloor::new(file))),
        None => {
            let url = store_url(&run.store)?;
            let whole = format!("{url}\n{}\n{}", run.bucket.bucket, run.lease);
            let digest = Sha256::digest(whole.as_bytes());
            let mut file: String = name::encode(&run.lease).chars().take(NAME_SHOWN).collect();
            for byte in digest.iter().take(8) {
                // Writing to a string cannot fail.
                let _ = write!(file, "{byte:02x}");
            }
            Ok(Arc::new(FileFloor::new(folder()?.join("floors").join(file))))
        }
    }
}
