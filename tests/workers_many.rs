//! Very many leases in one process, while one answer in a hundred is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use incumbent::LeaseOptions;
use incumbent::clock::Steady;
use incumbent::lease::Event as LeaseEvent;
use incumbent::store::Store;
use incumbent::workers::{Duty, Event, Workers, WorkersOptions};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{BUCKET, World, policy};

const MANY: usize = 1000;
const A_WHILE: Duration = Duration::from_secs(600);
const TTL: Duration = Duration::from_secs(60);
const RENEW: Duration = Duration::from_secs(20);
/// In which no more than three times the average may fall.
const WINDOW: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_are_kept_for_ten_minutes_and_renewed_in_turn() {
    let world = World::with_ttl(TTL).await;
    let line = world.faulty.line("alice");
    let (renewed, started, ended) =
        (Arc::<Mutex<Vec<Steady>>>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (clock, at, up, down) = (world.clock.clone(), renewed.clone(), started.clone(), ended.clone());
    let options = WorkersOptions {
        lease: Arc::new(move |name| {
            let (clock, at) = (clock.clone(), at.clone());
            let mut options = LeaseOptions::new(name);
            options.clock = clock.clone();
            options.on_event = Arc::new(move |event| {
                if matches!(event, LeaseEvent::Renewed { .. }) {
                    at.lock().unwrap_or_else(PoisonError::into_inner).push(clock.now());
                }
            });
            options
        }),
        on_event: Arc::new(move |_, event| {
            let count = if matches!(event, Event::Started { .. }) { &up } else { &down };
            count.fetch_add(1, Ordering::SeqCst);
        }),
        ..WorkersOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(line.clone());
    let workers = Workers::new(policy().await, &store, BUCKET, options);
    for n in 0..MANY {
        workers.spawn(format!("labeler:did:plc:{n}"), |duty: Duty| async move {
            duty.over().await;
            Ok(())
        });
    }
    let all_work = async {
        while started.load(Ordering::SeqCst) < MANY {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    world.until(RENEW, all_work).await;
    // One in a hundred, at places that have no order.
    let renewals = MANY * usize::try_from(A_WHILE.as_secs() / RENEW.as_secs()).expect("fits");
    for n in (0..renewals).step_by(100) {
        line.nth(Kind::Update, n + 1 + n * 37 % 100, Fate::AnswerLost);
    }
    renewed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    world.pass(A_WHILE).await;
    assert_eq!(ended.load(Ordering::SeqCst), 0, "none was lost");

    let mut renewed = renewed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(renewed.len() >= renewals * 9 / 10, "{} renewals", renewed.len());
    renewed.sort_unstable();
    let average = renewed.len() as f64 * WINDOW.as_secs_f64() / A_WHILE.as_secs_f64();
    let most = (0..renewed.len())
        .map(|from| renewed[from..].partition_point(|at| at.since(renewed[from]) < WINDOW))
        .max()
        .expect("there are some");
    assert!((most as f64) <= 3.0 * average, "{most} within {WINDOW:?}, {average:.1} on the average");
}
