//! Very many leases kept for ten minutes on real stores, while one answer in a hundred is lost: 1,000 on one NATS
//! connection and, at the same time, 200 on one SQLite file. Fails when one is lost, or when renewals come in bursts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::clock::Clock;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Store};
use incumbent::{Policy, Runtime};
use incumbent_tests::faulty::Faulty;
use incumbent_tests::fleet::{Fleet, WINDOW, lose_one_in_a_hundred};
use incumbent_tests::nats::NatsServer;

const BUCKET: &str = "leases";

struct Length {
    on_nats: usize,
    on_sqlite: usize,
    kept_for: Duration,
    ttl: Duration,
}

const FULL: Length = Length {
    on_nats: 1000,
    on_sqlite: 200,
    kept_for: Duration::from_secs(600),
    ttl: Duration::from_secs(60),
};

/// `cargo test` runs benches once for whether they run at all.
const SMALL: Length =
    Length { on_nats: 20, on_sqlite: 20, kept_for: Duration::from_secs(2), ttl: Duration::from_secs(3) };

fn main() -> Result<()> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(soak(if full { FULL } else { SMALL }))
}

async fn soak(length: Length) -> Result<()> {
    let server = NatsServer::start()?;
    let folder = tempfile::tempdir()?;
    let nats = Nats::connect(NatsOptions::new(server.url())).await?;
    let sqlite =
        Sqlite::open(&folder.path().join("leases.db"), Clock::machine(), Duration::from_secs(1)).await?;
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let (on_nats, on_sqlite) = tokio::join!(
        keep("one NATS connection", Arc::new(nats), length.on_nats, &length, &policy),
        keep("one SQLite file", Arc::new(sqlite), length.on_sqlite, &length, &policy),
    );
    on_nats?;
    on_sqlite
}

async fn keep(
    on: &str,
    store: Arc<dyn Store>,
    leases: usize,
    length: &Length,
    policy: &Policy,
) -> Result<()> {
    store.create_bucket(BUCKET, &BucketConfig { ttl: length.ttl, replicas: 1 }).await?;
    let line = Faulty::over(store, BUCKET, |_| ()).line("alice");
    let store: Arc<dyn Store> = Arc::new(line.clone());
    let fleet = Fleet::new(policy, &store, BUCKET, &Clock::machine());
    fleet.spawn(0, leases);
    fleet.work(leases).await;
    // The first renewals are spread over an interval; what is counted begins after it.
    tokio::time::sleep(length.ttl / 3).await;

    let renewals = leases * usize::try_from(length.kept_for.as_millis() / (length.ttl / 3).as_millis())?;
    let lost = lose_one_in_a_hundred(&line, renewals);
    fleet.count_from_now();
    tokio::time::sleep(length.kept_for).await;
    let (renewed, ended) = (fleet.renewed(), fleet.ended());
    let (most, average) = fleet.most_and_average(length.kept_for);
    println!(
        "{leases} leases on {on} for {:?}: {renewed} renewals, {lost} answers lost, {ended} leases lost; within any \
         {WINDOW:?} at most {most} renewals, {average:.1} on the average",
        length.kept_for
    );
    let left = fleet.workers.wait(Duration::from_secs(60)).await;
    ensure!(left.is_empty(), "{} did not end", left.len());
    ensure!(ended == 0, "{ended} were lost");
    ensure!(renewed * 10 >= renewals * 9, "{renewed} renewals are too few for {renewals}");
    Ok(())
}
