//! Ten thousand swaps under load: leases are renewed, gates read by two threads, holds decided, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use incumbent::clock::Clock;
use incumbent::holds::{self, Buckets};
use incumbent::lease::Event;
use incumbent::policy::{BUILT_IN, Probation, Version};
use incumbent::store::memory::Memory;
use incumbent::store::{BucketConfig, Store};
use incumbent::{Lease, LeaseOptions, Policy, Runtime};
use incumbent_tests::memory::resident;
use tokio::task::JoinHandle;

const SWAPS: usize = 10_000;
const LEASES: usize = 4;
/// Proven by the next call, and not at once.
const PROBATION: Probation = Probation { calls: 2, time: Duration::ZERO };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_swaps_drop_no_call_and_shut_no_gate() -> Result<()> {
    let runtime = Runtime::new()?;
    let mut twins = Vec::new();
    for n in 0..4 {
        twins.push(Version::load(&runtime, &[BUILT_IN, &[0, 2, 1, n]].concat()).await?);
    }
    let policy = Policy::of(twins[0].clone());
    let store: Arc<dyn Store> = Arc::new(Memory::new(Clock::machine()));
    let config = BucketConfig { ttl: Duration::from_secs(60), replicas: 1 };
    let buckets = Buckets::default();
    for bucket in ["leases", &buckets.plans, &buckets.running] {
        store.create_bucket(bucket, &config).await?;
    }
    let over = Arc::new(AtomicBool::new(false));
    let troubles = Arc::new(AtomicU64::new(0));
    let mut leases = Vec::new();
    for n in 0..LEASES {
        let told = troubles.clone();
        let mut options = LeaseOptions::new(format!("office-{n}"));
        options.on_event = Arc::new(move |event| {
            if !matches!(event, Event::Taken { .. } | Event::Renewed { .. } | Event::Released { .. }) {
                told.fetch_add(1, Ordering::SeqCst);
            }
        });
        let lease = Arc::new(Lease::open(&policy, &*store, "leases", options).await?);
        lease.try_take().await?;
        leases.push(lease);
    }
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (leases, over) = (leases.clone(), over.clone());
            std::thread::spawn(move || {
                let mut reads = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    for lease in &leases {
                        if let Err(why) = lease.epoch() {
                            return Err(format!("after {reads} reads a held gate refused: {why}"));
                        }
                        reads += 1;
                    }
                }
                Ok(reads)
            })
        })
        .collect();
    let renewals = Arc::new(AtomicU64::new(0));
    let renewing: Vec<_> = leases
        .iter()
        .map(|lease| {
            let (lease, over, renewals) = (lease.clone(), over.clone(), renewals.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    lease.renew().await?;
                    renewals.fetch_add(1, Ordering::SeqCst);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let deciding = {
        let (policy, store, over) = (policy.clone(), store.clone(), over.clone());
        tokio::spawn(async move {
            let mut decisions = 0_u64;
            while !over.load(Ordering::Relaxed) {
                holds::status(&policy, &store, &Buckets::default(), &Clock::machine()).await?;
                decisions += 1;
            }
            anyhow::Ok(decisions)
        })
    };
    let before = resident()?;
    for n in 0..SWAPS {
        policy.swap(twins[n % twins.len()].clone(), Some(PROBATION));
        // Each meets calls under way.
        let seen = renewals.load(Ordering::SeqCst);
        while renewals.load(Ordering::SeqCst) == seen && !renewing.iter().any(JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
    }
    let after = resident()?;
    over.store(true, Ordering::Relaxed);
    let mut reads = 0;
    for reader in readers {
        reads +=
            reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.map_err(anyhow::Error::msg)?;
    }
    for task in renewing {
        task.await??;
    }
    let renewals = renewals.load(Ordering::SeqCst);
    let decisions = deciding.await??;
    eprintln!(
        "{SWAPS} swaps under {renewals} renewals, {decisions} decisions on holds and {reads} reads of gates; \
         memory {before} kB before, {after} kB after"
    );
    ensure!(reads > 0 && renewals >= SWAPS as u64 && decisions > 0, "there was no load");
    ensure!(troubles.load(Ordering::SeqCst) == 0, "a lease was told of trouble");
    for lease in &leases {
        lease.epoch().context("held at the end")?;
        lease.release().await;
    }
    Ok(())
}
