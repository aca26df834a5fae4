//! The gate against the bare clock read, with one thread and with two. Prints the ratios at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use incumbent::clock::Clock;
use incumbent::store::memory::Memory;
use incumbent::store::{BucketConfig, Store as _};
use incumbent::{Lease, LeaseOptions, Policy, Runtime};
use serde_json::Value;

fn main() {
    let threads = tokio::runtime::Runtime::new().expect("threads");
    let lease = Arc::new(threads.block_on(held()));
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("gate");
    for count in [1, 2] {
        group.bench_with_input(BenchmarkId::new("clock", count), &count, |bench, &count| {
            bench.iter_custom(|rounds| {
                on_threads(count, || {
                    let clock = Clock::machine();
                    move || {
                        for _ in 0..rounds {
                            std::hint::black_box(clock.now());
                        }
                    }
                })
            });
        });
        group.bench_with_input(BenchmarkId::new("epoch", count), &count, |bench, &count| {
            bench.iter_custom(|rounds| {
                on_threads(count, || {
                    let lease = lease.clone();
                    move || {
                        for _ in 0..rounds {
                            std::hint::black_box(lease.epoch().expect("held"));
                        }
                    }
                })
            });
        });
    }
    group.finish();
    criterion.final_summary();
    for count in [1, 2] {
        if let (Some(epoch), Some(clock)) = (median("epoch", count), median("clock", count)) {
            println!(
                "gate / clock read, {count} thread(s): {epoch:.1} ns / {clock:.1} ns = {:.2}",
                epoch / clock
            );
        }
    }
}

/// The time until all of these threads are through, from when all are there.
fn on_threads<F: FnOnce() + Send + 'static>(count: usize, make: impl Fn() -> F) -> Duration {
    let start = Arc::new(std::sync::Barrier::new(count + 1));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (start, run) = (start.clone(), make());
            std::thread::spawn(move || {
                start.wait();
                run();
            })
        })
        .collect();
    start.wait();
    let began = Instant::now();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    began.elapsed()
}

async fn held() -> Lease {
    let policy = Policy::built_in(&Runtime::new().expect("an engine")).await.expect("the policy");
    let store = Memory::new(Clock::machine());
    let config = BucketConfig { ttl: Duration::from_secs(3600), replicas: 1 };
    store.create_bucket("leases", &config).await.expect("a bucket");
    let lease = Lease::open(&policy, &store, "leases", LeaseOptions::new("bench")).await.expect("a lease");
    lease.take().await.expect("it is free");
    lease
}

/// The median that criterion measured last, nanoseconds.
fn median(what: &str, count: usize) -> Option<f64> {
    let target = std::env::var("CARGO_TARGET_DIR")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../target").into());
    let file = format!("{target}/criterion/gate/{what}/{count}/new/estimates.json");
    let estimates: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}
