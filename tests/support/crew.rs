//! Instances of a service with workers, in time that only the test moves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use incumbent::LeaseOptions;
use incumbent::store::Store;
use incumbent::workers::{Duty, Event, Worker, Workers, WorkersOptions};

use crate::faulty::Line;
use crate::world::{BUCKET, World, policy};

/// How long one rests that failed once, or gave way.
pub const INTERVAL: Duration = Duration::from_secs(20);

/// One instance of the service.
pub struct Instance {
    /// Its workers.
    pub workers: Workers,
    /// Its line to the store.
    pub line: Line,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Instance {
    /// Of this name.
    pub async fn new(world: &World, who: &str) -> Self {
        Self::with(world, who, |_| ()).await
    }

    /// Of this name, with other options.
    pub async fn with(world: &World, who: &str, change: impl FnOnce(&mut WorkersOptions)) -> Self {
        let line = world.faulty.line(who);
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let (told, who, clock, floor) =
            (events.clone(), who.to_owned(), world.clock.clone(), world.floor.clone());
        let mut options = WorkersOptions {
            lease: Arc::new(move |name| {
                let mut options = LeaseOptions::new(name);
                options.instance.clone_from(&who);
                options.clock = clock.clone();
                options.floor = floor.clone();
                options
            }),
            interval: INTERVAL,
            on_event: Arc::new(move |_, event| {
                told.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
            }),
            ..WorkersOptions::default()
        };
        change(&mut options);
        let store: Arc<dyn Store> = Arc::new(line.clone());
        Self { workers: Workers::new(policy().await, &store, BUCKET, options), line, events }
    }

    /// What its workers were told so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many of these are of this kind.
    #[must_use]
    pub fn count(&self, kind: impl Fn(&Event) -> bool) -> usize {
        self.events().iter().filter(|event| kind(event)).count()
    }

    /// How often a worker of it began to work.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.count(|event| matches!(event, Event::Started { .. }))
    }
}

/// Works until its time is over, and counts how many do so at once.
#[derive(Clone, Default)]
pub struct Post {
    at_once: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    ends_in: Duration,
}

impl Post {
    /// One that takes so long to end.
    #[must_use]
    pub fn that_ends_in(ends_in: Duration) -> Self {
        Self { ends_in, ..Self::default() }
    }

    /// How many worked at once at the most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Worker for Post {
    async fn work(&self, duty: Duty) -> Result<()> {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        duty.over().await;
        tokio::time::sleep(self.ends_in).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Let time pass until this is so.
///
/// # Panics
/// It is not within `limit`.
pub async fn comes(world: &World, limit: Duration, so: impl Fn() -> bool) {
    let so = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    world.until(limit, so).await;
}
