//! A renewal through the component against a raw update of the same record on the same server, one after
//! the other in turn; and the memory of an idle holder. Prints ratios and figures.

use std::time::{Duration, Instant};

use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{BucketConfig, Store as _};
use incumbent::{Lease, LeaseOptions, Policy, Runtime, Vacancy};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::Arena;
use tokio::task::yield_now;

/// Pairs measured, after a tenth as many that are not.
const PAIRS: usize = 5000;

fn main() -> anyhow::Result<()> {
    // `cargo test` runs benches once for whether they run at all.
    let pairs = if std::env::args().any(|argument| argument == "--bench") { PAIRS } else { 10 };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(renew(pairs))?;
    memory()
}

async fn renew(pairs: usize) -> anyhow::Result<()> {
    let server = NatsServer::start()?;
    let store = Nats::connect(NatsOptions::new(server.url())).await?;
    let config = BucketConfig { ttl: Duration::from_secs(3600), replicas: 1 };
    store.create_bucket("leases", &config).await?;
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let mut options = LeaseOptions::new("bench");
    // Nobody else is there, and an hour's ttl is not to be watched first.
    options.vacancy = Some(Vacancy::Trusted);
    let lease = Lease::open(&policy, &store, "leases", options).await?;
    lease.take().await?;

    let raw = async_nats::connect(server.url()).await?;
    let raw = async_nats::jetstream::new(raw).get_key_value("leases").await?;
    let value = vec![b'x'; 250];
    let mut revision = raw.create("raw", value.clone().into()).await?;

    let (mut renewals, mut updates, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs + pairs / 10 {
        let began = Instant::now();
        lease.renew().await?;
        renewals.push(began.elapsed());
        // What it left to do behind its answer is not charged to the other.
        for _ in 0..3 {
            yield_now().await;
        }

        // The first one runs with the caches as the renewal left them, the second as the first did.
        for updates in [&mut updates, &mut seconds] {
            let began = Instant::now();
            revision = raw.update("raw", value.clone().into(), revision).await?;
            updates.push(began.elapsed());
        }
    }
    let [renewal, update, second] =
        [renewals, updates, seconds].map(|mut times| median(times.split_off(pairs / 10)));
    let times = |update: Duration| renewal.as_secs_f64() / update.as_secs_f64();
    println!(
        "renewal through the component / raw update after it, median of {pairs}: {renewal:?} / {update:?} = {:.2}; \
         / another after that: {second:?} = {:.2}",
        times(update),
        times(second)
    );
    lease.release().await;
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What a process that holds a lease and does nothing else has needed at the most.
fn memory() -> anyhow::Result<()> {
    let arena = Arena::sqlite(&[])?;
    let mut holder = arena.stand_with("alice", &["sleep", "999"])?;
    holder.hears("taken at epoch")?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", holder.id()))?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not told");
    println!("peak memory of an idle holder: {}", peak.trim_start_matches("VmHWM:").trim());
    Ok(())
}
