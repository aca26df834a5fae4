//! Two processes' worth of connections that race for one lease of one SQLite file.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join;
use incumbent::clock::Clock;
use incumbent::lease::{LeaseError, Released};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Store};
use incumbent::{Lease, LeaseOptions};
use incumbent_tests::world::{BUCKET, LEASE, policy};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_that_race_for_one_sql_lease_never_share_it() -> Result<()> {
    const RACES: usize = 1000;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("leases.db");
    let epochs = Arc::<Mutex<Vec<u64>>>::default();
    let racer = async || -> Result<()> {
        // A connection of its own, as another process has.
        let store = Sqlite::open(&path, Clock::machine(), Duration::from_secs(30)).await?;
        store.create_bucket(BUCKET, &BucketConfig { ttl: TTL, replicas: 1 }).await?;
        loop {
            let lease = Lease::open(policy().await, &store, BUCKET, LeaseOptions::new(LEASE)).await?;
            match lease.try_take().await {
                Ok(epoch) => {
                    let count = {
                        let mut epochs = epochs.lock().unwrap_or_else(PoisonError::into_inner);
                        ensure!(epochs.last().is_none_or(|last| *last < epoch), "{epoch} after {epochs:?}");
                        epochs.push(epoch);
                        epochs.len()
                    };
                    ensure!(lease.epoch() == Ok(epoch));
                    ensure!(lease.release().await == Released::GivenBack);
                    if count >= RACES {
                        return Ok(());
                    }
                }
                // The other one has it, or has just given it back.
                Err(LeaseError::Taken(_) | LeaseError::NotYetFree) => {
                    if epochs.lock().unwrap_or_else(PoisonError::into_inner).len() >= RACES {
                        return Ok(());
                    }
                }
                Err(why) => return Err(why.into()),
            }
        }
    };
    try_join(racer(), racer()).await?;
    Ok(())
}
