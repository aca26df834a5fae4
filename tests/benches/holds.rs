//! What one decision of a builder costs while deliveries build: whether checks wait, and whether the oldest one
//! is let through. At 1, 100 and 10,000 plans, and with 1 and 100,000 asks waiting; on each store. Prints medians
//! and ratios, and how much memory the deciding took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};
use incumbent::clock::Clock;
use incumbent::holds::{Builder, BuilderOptions, PLANS, RUNNING, TTL};
use incumbent::store::memory::Memory;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{Bucket, BucketConfig, Store};
use incumbent::{Policy, Runtime};
use incumbent_tests::nats::NatsServer;

/// The plans, the asks and how many decisions are measured.
struct Size {
    plans: [usize; 3],
    asks: [usize; 2],
    decisions: usize,
}

const FULL: Size = Size { plans: [1, 100, 10_000], asks: [1, 100_000], decisions: 200 };

/// `cargo test` runs benches once for whether they run at all.
const SMALL: Size = Size { plans: [1, 2, 3], asks: [1, 2], decisions: 2 };

/// Writes under way at one time while a store is filled.
const AT_ONCE: usize = 64;

fn main() -> anyhow::Result<()> {
    let size = if std::env::args().any(|argument| argument == "--bench") { FULL } else { SMALL };
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let policy = Policy::built_in(&Runtime::new()?).await?;
        measure("memory", &policy, Arc::new(Memory::new(Clock::machine())), &size).await?;
        let folder = tempfile::tempdir()?;
        let patience = Duration::from_secs(30);
        let sqlite = Sqlite::open(&folder.path().join("holds.db"), Clock::machine(), patience).await?;
        measure("SQLite", &policy, Arc::new(sqlite), &size).await?;
        // Filled sooner: what is measured only reads.
        let server = NatsServer::configured("jetstream { store_dir: \"data\" }")?;
        let nats = Nats::connect(NatsOptions::new(server.url())).await?;
        measure("NATS", &policy, Arc::new(nats), &size).await
    })
}

async fn measure(name: &str, policy: &Policy, store: Arc<dyn Store>, size: &Size) -> anyhow::Result<()> {
    // Nothing ages out while it is measured.
    let plans =
        store.create_bucket(PLANS, &BucketConfig { ttl: Duration::from_secs(3600), replicas: 1 }).await?;
    store.create_bucket(RUNNING, &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    let config = QueueConfig { ack_wait: Duration::from_secs(30), replicas: 1 };
    let queue = store.create_queue("checks", &config).await?;
    let mut options = BuilderOptions::new("bench");
    options.checks = vec!["checks".into()];
    let builder = Builder::open(policy, &store, options).await?;
    let (mut there, mut waiting, mut first) = (0, 0, None);
    for (plan_count, ask_count) in [
        (size.plans[0], size.asks[0]),
        (size.plans[1], size.asks[0]),
        (size.plans[2], size.asks[0]),
        (size.plans[2], size.asks[1]),
    ] {
        fill_plans(&plans, there..plan_count).await?;
        fill_asks(&queue, waiting..ask_count).await?;
        (there, waiting) = (plan_count, ask_count);
        let before = memory("VmRSS")?;
        // The kernel forgets the peak so far.
        std::fs::write("/proc/self/clear_refs", "5")?;
        let cost = median(&builder, size.decisions).await?;
        let more = memory("VmHWM")?.saturating_sub(before);
        let first = *first.get_or_insert(cost);
        println!(
            "{name}: a decision at {plan_count} plans and {ask_count} asks: {cost:?}, {:.2} times that at one of \
             each; at most {more} kB more than before",
            cost.as_secs_f64() / first.as_secs_f64()
        );
    }
    Ok(())
}

/// A line of this process's status, kB.
fn memory(line: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|all| all.strip_prefix(line)?.strip_prefix(':'));
    Ok(line.unwrap_or_default().trim().trim_end_matches(" kB").parse()?)
}

async fn fill_plans(plans: &Arc<dyn Bucket>, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let put = |number| async move {
        let value = format!(
            r#"{{"plan":"plan-{number}","since":"2026-01-01T00:00:00Z","seen":"2026-01-01T00:00:00Z"}}"#
        );
        plans.create(&format!("plan-{number}"), value.as_bytes()).await.map(drop)
    };
    Ok(futures_util::stream::iter(numbers).map(put).buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Asks that have just been asked, of some size.
async fn fill_asks(queue: &Arc<dyn Queue>, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let body = vec![b' '; 2048];
    let put = |_| async { queue.put(&body).await.map(drop) };
    Ok(futures_util::stream::iter(numbers).map(put).buffer_unordered(AT_ONCE).try_collect().await?)
}

async fn median(builder: &Builder, decisions: usize) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..decisions + decisions / 10 {
        let began = Instant::now();
        anyhow::ensure!(builder.try_next().await.is_none(), "a check was let through");
        times.push(began.elapsed());
    }
    times.drain(..decisions / 10);
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
