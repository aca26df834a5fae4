//! The store of the command line, and the user's state folder: the default store and the floors.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use incumbent::clock::Clock;
use incumbent::digest;
use incumbent::floor::{FileFloor, Floor, MemoryFloor};
use incumbent::store::name;
use incumbent::store::open::{StoreUrl, open};
use incumbent::store::{Bucket, BucketConfig, Fault, Store};

use super::args::{BucketArg, Run, StoreArgs};
use super::exit::{Exit, wrong};
use super::say;

/// The ttl of a bucket that is made because none was there.
pub(crate) const TTL: Duration = Duration::from_secs(15);

/// An encoded name in a file name; what is longer is told apart by its digest.
const NAME_SHOWN: usize = 60;

/// How much of a digest is in a file name, digits.
const DIGEST_SHOWN: usize = 16;

/// The user's state folder. `instead` is what to give where there is none.
pub(crate) fn folder(instead: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("incumbent")).ok_or_else(|| {
        let why =
            format!("neither XDG_STATE_HOME nor HOME is set, so there is no state folder; give {instead}");
        wrong(Exit::Config, why)
    })
}

/// The store that was asked for, or the default one.
pub(crate) fn store_url(args: &StoreArgs) -> anyhow::Result<StoreUrl> {
    match args.url()? {
        Some(url) => Ok(url),
        None => Ok(StoreUrl::Sqlite(folder("--store")?.join("leases.db"))),
    }
}

/// Opens the store; a file is made where there is none.
pub(crate) async fn open_store(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(open(&store_url(args)?, &args.access(), &Clock::machine()).await?)
}

/// Opens the store unless it is a file that is not there, which is then said.
pub(crate) async fn open_existing(args: &StoreArgs) -> anyhow::Result<Result<Arc<dyn Store>, String>> {
    match store_url(args)? {
        // What cannot be looked at is for the store to say.
        StoreUrl::Sqlite(path) if path.try_exists().is_ok_and(|exists| !exists) => {
            Ok(Err(format!("there is no file {} yet", path.display())))
        }
        _ => Ok(Ok(open_store(args).await?)),
    }
}

/// The bucket of leases, for a look: nothing is made. `None` where nobody ever stood, which is said.
pub(crate) async fn existing(
    args: &StoreArgs,
    bucket: &BucketArg,
) -> anyhow::Result<Option<Arc<dyn Bucket>>> {
    let store = match open_existing(args).await? {
        Ok(store) => store,
        Err(why) => {
            say::note(&format!("{why}: nobody has stood for a lease there"));
            return Ok(None);
        }
    };
    match store.bucket(&bucket.bucket).await {
        Err(Fault::MissingBucket(_)) if makes_buckets(args)? => {
            let (url, name) = (store_url(args)?, &bucket.bucket);
            say::note(&format!("{url} has no bucket {name} yet: nobody has stood for a lease there"));
            Ok(None)
        }
        found => Ok(Some(found?)),
    }
}

/// Refuses to keep something on several servers in a store of one machine.
pub(crate) fn check_replicas(url: &StoreUrl, replicas: u8) -> anyhow::Result<()> {
    if replicas == 1 || matches!(url, StoreUrl::Nats(_)) {
        return Ok(());
    }
    Err(wrong(Exit::Usage, format!("--replicas {replicas}: {url} is on one machine; leave it out")))
}

/// Whether a missing bucket of this store is made by the way: of one that servers share it never is.
pub(crate) fn makes_buckets(args: &StoreArgs) -> anyhow::Result<bool> {
    Ok(!matches!(store_url(args)?, StoreUrl::Nats(_)))
}

/// Makes a bucket that is missing, where that is done by the way.
pub(crate) async fn ensure_bucket(
    args: &StoreArgs,
    store: &dyn Store,
    name: &str,
    ttl: Duration,
) -> anyhow::Result<()> {
    if makes_buckets(args)?
        && let Err(Fault::MissingBucket(_)) = store.bucket(name).await
    {
        store.create_bucket(name, &BucketConfig { ttl, replicas: 1 }).await?;
    }
    Ok(())
}

/// Where the highest epoch issued is kept: a file for each lease of each bucket of each store.
pub(crate) fn floor(run: &Run) -> anyhow::Result<Arc<dyn Floor>> {
    match &run.floor {
        Some(none) if none.as_os_str() == "none" => Ok(Arc::new(MemoryFloor::default())),
        Some(file) => Ok(Arc::new(FileFloor::new(file))),
        None => {
            let folder = folder("--floor")?.join("floors");
            let url = store_url(&run.store)?;
            let digest = digest::of(format!("{url}\n{}\n{}", run.bucket.bucket, run.lease).as_bytes());
            let mut file: String = name::encode(&run.lease).chars().take(NAME_SHOWN).collect();
            file.extend(digest.chars().take(DIGEST_SHOWN));
            Ok(Arc::new(FileFloor::new(folder.join(file))))
        }
    }
}
