//! Very many leases kept by one process, and what became of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use incumbent::clock::{Clock, Steady};
use incumbent::lease::Event as LeaseEvent;
use incumbent::store::Store;
use incumbent::workers::{Duty, Event, Workers, WorkersOptions};
use incumbent::{LeaseOptions, Policy, Vacancy};

use crate::faulty::{Fate, Kind, Line};

/// In which no more renewals than three times the average may fall.
pub const WINDOW: Duration = Duration::from_millis(100);

/// Workers that work until they are told to stop.
pub struct Fleet {
    /// They.
    pub workers: Workers,
    renewed: Arc<Mutex<Vec<Steady>>>,
    started: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Fleet {
    /// None yet, in this bucket.
    #[must_use]
    pub fn new(policy: &Policy, store: &Arc<dyn Store>, bucket: &str, clock: &Clock) -> Self {
        let (renewed, started, ended) = (
            Arc::<Mutex<Vec<Steady>>>::default(),
            Arc::<AtomicUsize>::default(),
            Arc::<AtomicUsize>::default(),
        );
        let (clock, at, up, down) = (clock.clone(), renewed.clone(), started.clone(), ended.clone());
        let options = WorkersOptions {
            lease: Arc::new(move |name| {
                let (clock, at) = (clock.clone(), at.clone());
                let mut options = LeaseOptions::new(name);
                options.clock = clock.clone();
                // Nobody else is there, and a ttl is not to be watched first.
                options.vacancy = Some(Vacancy::Trusted);
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
        Self { workers: Workers::new(policy, store, bucket, options), renewed, started, ended }
    }

    /// More of them, until there are so many.
    pub fn spawn(&self, from: usize, to: usize) {
        for n in from..to {
            self.workers.spawn(format!("labeler:did:plc:{n}"), |duty: Duty| async move {
                duty.over().await;
                Ok(())
            });
        }
    }

    /// Until so many work.
    pub async fn work(&self, count: usize) {
        while self.started.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How often one of them ended, or could not stand.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// Count renewals from now on.
    pub fn count_from_now(&self) {
        self.renewals().clear();
    }

    /// How many renewals there were.
    #[must_use]
    pub fn renewed(&self) -> usize {
        self.renewals().len()
    }

    /// The most renewals within any [`WINDOW`] of this time, and the average.
    #[must_use]
    pub fn most_and_average(&self, time: Duration) -> (usize, f64) {
        let mut renewed = self.renewals().clone();
        renewed.sort_unstable();
        let within = |from: usize| renewed[from..].partition_point(|at| at.since(renewed[from]) < WINDOW);
        let most = (0..renewed.len()).map(within).max().unwrap_or(0);
        (most, renewed.len() as f64 * WINDOW.as_secs_f64() / time.as_secs_f64())
    }

    fn renewals(&self) -> std::sync::MutexGuard<'_, Vec<Steady>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of so many renewals on this line one answer in a hundred is lost, at places that have no order. How many that are.
pub fn lose_one_in_a_hundred(line: &Line, renewals: usize) -> usize {
    let places = (0..renewals).step_by(100);
    for n in places.clone() {
        line.nth(Kind::Update, n + 1 + n * 37 % 100, Fate::AnswerLost);
    }
    places.len()
}
