//! What a lease costs a process that keeps very many: memory for each, and processor time for each renewal.
//! On one NATS connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use incumbent::clock::Clock;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{BucketConfig, Store};
use incumbent::{Policy, Runtime};
use incumbent_tests::fleet::Fleet;
use incumbent_tests::memory::resident;
use incumbent_tests::nats::NatsServer;

/// Leases, for how long they are kept, and their ttl.
const FULL: (usize, Duration, Duration) = (1000, Duration::from_secs(60), Duration::from_secs(30));

/// `cargo test` runs benches once for whether they run at all.
const SMALL: (usize, Duration, Duration) = (10, Duration::from_secs(1), Duration::from_secs(3));

fn main() -> anyhow::Result<()> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(many(if full { FULL } else { SMALL }))
}

async fn many((leases, kept_for, ttl): (usize, Duration, Duration)) -> anyhow::Result<()> {
    let server = NatsServer::start()?;
    let store: Arc<dyn Store> = Arc::new(Nats::connect(NatsOptions::new(server.url())).await?);
    store.create_bucket("leases", &BucketConfig { ttl, replicas: 1 }).await?;
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let fleet = Fleet::new(&policy, &store, "leases", &Clock::machine());
    // What the first of them need once is not counted on each.
    fleet.spawn(0, leases / 10);
    fleet.work(leases / 10).await;
    let before = resident()?;
    fleet.spawn(leases / 10, leases);
    fleet.work(leases).await;
    let each = resident()?.saturating_sub(before) * 1024 / u64::try_from(leases - leases / 10)?;

    fleet.count_from_now();
    let (began, busy) = (Instant::now(), busy());
    tokio::time::sleep(kept_for).await;
    let (renewals, spent) = (fleet.renewed(), self::busy() - busy);
    println!("{leases} leases on one connection: {each} bytes each");
    println!(
        "{renewals} renewals in {:?}, {:?} of processor time each; {} were lost",
        began.elapsed(),
        spent / u32::try_from(renewals.max(1))?,
        fleet.ended()
    );
    let left = fleet.workers.wait(Duration::from_secs(30)).await;
    anyhow::ensure!(left.is_empty(), "{} did not end", left.len());
    Ok(())
}

/// Processor time that this process has spent.
fn busy() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}
