//! What it costs to change a policy while it serves: from a file replaced to another version serving, from bytes to a
//! policy with and without a cache of compiled code, and how much longer a renewal takes while versions are swapped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use incumbent::clock::Clock;
use incumbent::policies::source::{FileSource, Offers};
use incumbent::policies::{Cache, Event, Policies, PoliciesOptions};
use incumbent::policy::{BUILT_IN, Probation, Version};
use incumbent::store::memory::Memory;
use incumbent::store::{BucketConfig, Store};
use incumbent::{Lease, LeaseOptions, Policy, Runtime};
use incumbent_tests::memory::resident;
use tokio::sync::mpsc::unbounded_channel;

/// How often each is done.
struct Rounds {
    loads: usize,
    replacements: usize,
    renewals: usize,
}

const FULL: Rounds = Rounds { loads: 20, replacements: 20, renewals: 20_000 };
/// `cargo test` runs benches once for whether they run at all.
const SMALL: Rounds = Rounds { loads: 1, replacements: 2, renewals: 100 };

fn main() -> Result<()> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let rounds = if full { FULL } else { SMALL };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        loads(&rounds).await?;
        replacements(&rounds).await?;
        renewals(&rounds).await
    })
}

/// The built-in decisions under another digest.
fn twin(n: usize) -> Vec<u8> {
    let tag = u8::try_from(n % 256).unwrap_or(0);
    [BUILT_IN, &[0, 2, 1, tag]].concat()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn loads(rounds: &Rounds) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = Runtime::with_cache(Cache::open(folder.path().join("compiled"))?)?;
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for n in 0..rounds.loads {
        for times in [&mut cold, &mut warm] {
            let began = Instant::now();
            Version::load(&runtime, &twin(n)).await?;
            times.push(began.elapsed());
        }
    }
    let (cold, warm) = (median(cold), median(warm));
    println!("a policy loaded: {cold:?} cold, {warm:?} from the cache, {:.0} times", ratio(cold, warm));
    Ok(())
}

async fn replacements(rounds: &Rounds) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, next) = (folder.path().join("policy.wasm"), folder.path().join("next.wasm"));
    let (tell, mut told) = unbounded_channel();
    let options = PoliciesOptions {
        on_event: Arc::new(move |event| drop(tell.send(event.clone()))),
        ..PoliciesOptions::default()
    };
    let policies = Policies::open(&Runtime::new()?, options).await?;
    std::fs::write(&file, BUILT_IN)?;
    let _following = policies.follow(Offers::File(FileSource::new(&file)));
    let mut times = Vec::new();
    for n in 0..rounds.replacements {
        std::fs::write(&next, twin(n))?;
        let began = Instant::now();
        std::fs::rename(&next, &file)?;
        while !matches!(told.recv().await.context("it says more")?, Event::Published { .. }) {}
        times.push(began.elapsed());
    }
    println!("from a file replaced to its policy serving, the rehearsal with it: {:?}", median(times));
    Ok(())
}

async fn renewals(rounds: &Rounds) -> Result<()> {
    let runtime = Runtime::new()?;
    let versions = [Version::load(&runtime, &twin(0)).await?, Version::load(&runtime, &twin(1)).await?];
    let policy = Policy::of(versions[0].clone());
    let store = Memory::new(Clock::machine());
    store.create_bucket("leases", &BucketConfig { ttl: Duration::from_secs(60), replicas: 1 }).await?;
    let lease = Lease::open(&policy, &store, "leases", LeaseOptions::new("office")).await?;
    lease.try_take().await?;
    let before = resident()?;
    let (mut plain, mut swapped) = (Vec::new(), Vec::new());
    for n in 0..rounds.renewals {
        let began = Instant::now();
        lease.renew().await?;
        plain.push(began.elapsed());
        policy.swap(versions[n % 2].clone(), Some(Probation::default()));
        let began = Instant::now();
        lease.renew().await?;
        swapped.push(began.elapsed());
    }
    let longest = swapped.iter().max().copied().unwrap_or_default();
    let (plain, swapped) = (median(plain), median(swapped));
    println!(
        "a renewal in memory: {plain:?}, just after a swap {swapped:?} = {:.2}, the longest of {} {longest:?}; memory {} kB \
         before, {} kB after",
        ratio(swapped, plain),
        rounds.renewals,
        before,
        resident()?
    );
    Ok(())
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(f64::MIN_POSITIVE)
}
