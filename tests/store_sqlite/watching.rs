//! Many watchers of one file, and what ends a watch.

use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Store, Watch};
use tokio::task::JoinSet;

use super::{GENEROUS, Home, TTL, won};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_wakes_the_watchers_of_its_key_alone() -> Result<()> {
    let home = Home::new()?;
    let (alice, bob) = (home.bucket().await?, home.bucket().await?);
    let mut others = JoinSet::new();
    for number in 0..300 {
        let mut watch = bob.watch(&format!("worker-{number}")).await?;
        others.spawn(async move { watch.changed().await });
    }
    let mut watch = bob.watch("lease").await?;
    let mut revision = won(alice.create("lease", b"alice").await?)?;
    for _ in 0..20 {
        ensure!(tokio::time::timeout(GENEROUS, watch.changed()).await?);
        revision = won(alice.update("lease", b"alice", revision).await?)?;
    }
    ensure!(others.try_join_next().is_none(), "a watcher of another key was woken");
    // And they do hear of their own.
    for number in 0..300 {
        won(alice.create(&format!("worker-{number}"), b"w").await?)?;
    }
    let all = async {
        while let Some(woken) = others.join_next().await {
            ensure!(woken?);
        }
        Ok(())
    };
    tokio::time::timeout(GENEROUS, all).await?
}

#[tokio::test]
async fn a_watcher_is_woken_once_for_a_key_that_aged_out() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    won(bucket.create("lease", b"alice").await?)?;
    let mut watch = bucket.watch("lease").await?;
    home.clock.advance(TTL);
    ensure!(tokio::time::timeout(GENEROUS, watch.changed()).await?);
    // Ten looks later it is still the same.
    ensure!(tokio::time::timeout(Duration::from_millis(250), watch.changed()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_watch_begun_after_all_others_ended_is_woken() -> Result<()> {
    let home = Home::new()?;
    let (alice, bob) = (home.bucket().await?, home.bucket().await?);
    for round in 0..5 {
        let mut watch: Box<dyn Watch> = bob.watch("lease").await?;
        let revision = won(alice.create("lease", b"alice").await?)?;
        ensure!(tokio::time::timeout(GENEROUS, watch.changed()).await?, "round {round}");
        won(alice.delete("lease", revision, None).await?)?;
        drop(watch);
        // Around the time at which the thread looks whether anybody still listens.
        tokio::time::sleep(Duration::from_millis(10 * round)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_when_its_file_stays_out_of_reach() -> Result<()> {
    let home = Home::new()?;
    let store = Sqlite::open(&home.path(), home.clock.clone(), Duration::from_secs(1)).await?;
    let bucket = store.create_bucket("leases", &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    let mut watch = bucket.watch("lease").await?;
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{suffix}", home.path().display()))?;
    }
    std::fs::write(home.path(), "somebody's notes, and no database".repeat(100))?;
    let ended = async { while watch.changed().await {} };
    tokio::time::timeout(GENEROUS, ended).await?;
    Ok(())
}
