//! Very many candidates of one process for one lease: a release wakes one of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::clock::Clock;
use incumbent::store::memory::Memory;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Store};
use incumbent::workers::{Duty, Workers, WorkersOptions};
use incumbent::{LeaseOptions, Vacancy};
use incumbent_tests::faulty::{Faulty, Kind};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::world::{BUCKET, LEASE, policy};
use tokio::sync::{Notify, mpsc};

const MANY: usize = 200;
/// In which so much at the most is asked of the store when the lease is given back.
const WINDOW: Duration = Duration::from_secs(1);
const ASKED: usize = 20;
const ROUNDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// A ttl that no test outlives.
const TTL: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_among_many_of_one_process_wakes_one_on_memory() -> Result<()> {
    wakes_one(Arc::new(Memory::new(Clock::machine()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_among_many_of_one_process_wakes_one_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = Sqlite::open(&folder.path().join("leases.db"), Clock::machine(), PATIENCE).await?;
    wakes_one(Arc::new(store)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_among_many_of_one_process_wakes_one_on_nats() -> Result<()> {
    let server = NatsServer::start()?;
    let mut options = NatsOptions::new(server.url());
    options.timeout = PATIENCE;
    wakes_one(Arc::new(Nats::connect(options).await?)).await
}

async fn wakes_one(store: Arc<dyn Store>) -> Result<()> {
    store.create_bucket(BUCKET, &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    let counting = Faulty::over(store, BUCKET, |_| ());
    let asked = |kinds: &[Kind]| counting.ops().iter().filter(|op| kinds.contains(&op.kind)).count();
    let (stop, at_once) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, mut told) = mpsc::unbounded_channel();
    let stand = Arc::new(AtomicUsize::new(0));
    let workers = Workers::new(policy().await, &line_to(&counting), BUCKET, options(&stand));
    for _ in 0..MANY {
        let (stop, at_once, tell) = (stop.clone(), at_once.clone(), tell.clone());
        workers.spawn(LEASE, move |duty: Duty| {
            let (stop, at_once, tell) = (stop.clone(), at_once.clone(), tell.clone());
            async move {
                tell.send((duty.epoch()?, at_once.fetch_add(1, Ordering::SeqCst)))?;
                tokio::select! {
                    () = stop.notified() => {}
                    () = duty.over() => {}
                }
                at_once.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        });
    }
    let mut next = async || -> Result<u64> {
        let (epoch, others) =
            tokio::time::timeout(PATIENCE, told.recv()).await?.expect("there is more to come");
        ensure!(others == 0, "{others} work beside the one at epoch {epoch}");
        Ok(epoch)
    };
    let mut last = next().await?;
    all_stand(&stand).await?;

    let (writes, reads) = (asked(&Kind::WRITES), asked(&[Kind::Get]));
    stop.notify_one();
    let winner = next().await?;
    ensure!(winner > last, "{winner} after {last}");
    last = winner;
    tokio::time::sleep(WINDOW).await;
    let (writes, reads) = (asked(&Kind::WRITES) - writes, asked(&[Kind::Get]) - reads);
    ensure!(writes <= ASKED && reads <= ASKED, "{writes} writes and {reads} reads for one release");

    for _ in 0..ROUNDS {
        stop.notify_one();
        let winner = next().await?;
        ensure!(winner > last, "{winner} after {last}");
        last = winner;
    }
    ensure!(workers.wait(PATIENCE).await.is_empty());
    let foreign = counting.foreign();
    ensure!(foreign.is_empty(), "{foreign:?}");
    Ok(())
}

fn line_to(counting: &Faulty) -> Arc<dyn Store> {
    Arc::new(counting.line("alice"))
}

/// Counts in `stand` the lease objects that have said anything: that they wait, or have it.
fn options(stand: &Arc<AtomicUsize>) -> WorkersOptions {
    let stand = stand.clone();
    WorkersOptions {
        lease: Arc::new(move |name| {
            let (stand, spoke) = (stand.clone(), AtomicBool::new(false));
            let mut options = LeaseOptions::new(name);
            options.vacancy = Some(Vacancy::Trusted);
            options.on_event = Arc::new(move |_| {
                if !spoke.swap(true, Ordering::SeqCst) {
                    stand.fetch_add(1, Ordering::SeqCst);
                }
            });
            options
        }),
        on_event: Arc::new(|_, _| ()),
        ..WorkersOptions::default()
    }
}

async fn all_stand(stand: &AtomicUsize) -> Result<()> {
    let all = async {
        while stand.load(Ordering::SeqCst) < MANY {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(tokio::time::timeout(PATIENCE, all).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_another_name_do_not_wait_in_the_same_line() -> Result<()> {
    let memory = Memory::new(Clock::machine());
    memory.create_bucket(BUCKET, &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    let store: Arc<dyn Store> = Arc::new(memory);
    let elsewhere = incumbent::Lease::open(policy().await, &*store, BUCKET, LeaseOptions::new(LEASE)).await?;
    elsewhere.try_take().await?;

    let stand = Arc::new(AtomicUsize::new(0));
    let workers = Workers::new(policy().await, &store, BUCKET, options(&stand));
    let (tell, mut told) = mpsc::unbounded_channel();
    let work = |name: &'static str| {
        let tell = Mutex::new(Some(tell.clone()));
        move |duty: Duty| {
            let tell = tell.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move {
                if let Some(tell) = tell {
                    tell.send(name)?;
                }
                duty.over().await;
                Ok(())
            }
        }
    };
    workers.spawn(LEASE, work(LEASE));
    while stand.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    workers.spawn("another", work("another"));
    ensure!(tokio::time::timeout(PATIENCE, told.recv()).await? == Some("another"));
    elsewhere.release().await;
    ensure!(tokio::time::timeout(PATIENCE, told.recv()).await? == Some(LEASE));
    ensure!(workers.wait(PATIENCE).await.is_empty());
    Ok(())
}
