//! Three background workers, each on exactly one of the instances that run this. Start it twice, in two
//! terminals, and end one of them. `cargo test --workspace` builds it:
//!
//! ```sh
//! target/debug/examples/workers workers.db
//! ```

use std::sync::Arc;
use std::time::Duration;

use incumbent::clock::Clock;
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Store};
use incumbent::workers::{self, Duty, Workers, WorkersOptions};
use incumbent::{Policy, Runtime};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "workers.db".into());
    let store: Arc<dyn Store> =
        Arc::new(Sqlite::open(path.as_ref(), Clock::machine(), Duration::from_secs(1)).await?);
    store.create_bucket("workers", &BucketConfig { ttl: workers::TTL, replicas: 1 }).await?;
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let options = WorkersOptions {
        on_event: Arc::new(|name, event| eprintln!("{name}: {event}")),
        ..WorkersOptions::default()
    };
    let workers = Workers::new(&policy, &store, "workers", options);

    for name in ["consumer", "cleanup", "labeler:did:plc:abc"] {
        workers.spawn(name, move |duty: Duty| async move {
            // Works in small steps, each of them an act that passes the gate, until its time is over.
            loop {
                if let Some(permit) = duty.permit()? {
                    println!("{name}: a step, at epoch {}", permit.epoch()?);
                }
                tokio::select! {
                    () = duty.over() => return Ok(()),
                    () = tokio::time::sleep(Duration::from_secs(5)) => {}
                }
            }
        });
    }

    tokio::signal::ctrl_c().await?;
    // Each lease is given back, so that the next instance works at once.
    let left = workers.wait(Duration::from_secs(15)).await;
    anyhow::ensure!(left.is_empty(), "did not end in time: {left:?}");
    Ok(())
}
