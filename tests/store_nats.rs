//! What is NATS's own: who is let in, what a bucket is to other programs, and what is lost on the way. What
//! it shares with the other stores is in `store_contract`.

mod access;
mod buckets;
mod faults;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{Bucket, BucketConfig, Store as _, Write};

/// Generous: no test waits for it, unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A ttl that no test outlives.
const TTL: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> Result<Nats> {
    let mut options = NatsOptions::new(url);
    options.timeout = PATIENCE;
    Ok(Nats::connect(options).await?)
}

/// The bucket "leases", made where it is missing.
async fn leases(url: &str, ttl: Duration) -> Result<Arc<dyn Bucket>> {
    Ok(connect(url).await?.create_bucket("leases", &BucketConfig { ttl, replicas: 1 }).await?)
}

/// The revision of a write that must have won.
fn written(write: Write) -> Result<u64> {
    match write {
        Write::Written(revision) => Ok(revision),
        Write::Stale(there) => bail!("lost to {there:?}"),
    }
}

/// What another NATS program sees.
async fn raw(url: &str, password: Option<&str>) -> Result<async_nats::jetstream::Context> {
    let address = url.rsplit('@').next().unwrap_or_default().trim_start_matches("nats://");
    let options = async_nats::ConnectOptions::new();
    let options = match password {
        Some(password) => options.user_and_password("admin".into(), password.into()),
        None => options,
    };
    Ok(async_nats::jetstream::new(options.connect(address).await?))
}
