//! One build site: builders, deliveries and checks on a store in memory, in time that only the test moves.

mod wire;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use incumbent::clock::{Clock, Steady};
use incumbent::holds::{
    Authority, Buckets, Builder, BuilderOptions, Event, HoldsError, LET_THROUGH, NotInOffice, PLANS, Plans,
    RUNNING, TTL,
};
use incumbent::store::memory::Memory;
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::{Bucket, BucketConfig, Entry, Fault, Reading, Store};
use tokio::sync::oneshot;

use crate::world::policy;

pub use wire::{Fate, What, Wire};

/// The queue of the deliveries.
pub const DELIVERIES: &str = "deliveries";
/// One queue of checks.
pub const CHECKS: &str = "checks";
/// Another one.
pub const GROUPS: &str = "group-checks";
/// How long what is taken stays its taker's unless heard of.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long a check waits before it is let through.
pub const AFTER: Duration = Duration::from_secs(30 * 60);

/// The grain in which time passes.
const STEP: Duration = Duration::from_millis(50);

/// Turns that every task gets after each step: more than the longest chain of tasks that wake one another.
const TURNS: usize = 32;

/// The buckets, the queues and the clock.
///
/// Time stands still but for [`pass`](Self::pass) and [`until`](Self::until), which move the seat's clock and
/// tokio's together.
pub struct Seat {
    /// The clock of the store and of everybody.
    pub clock: Clock,
    /// The store, without any fault.
    pub memory: Memory,
    /// While a blocking task runs, tokio does not move its paused time by itself.
    _standstill: oneshot::Sender<()>,
}

impl Seat {
    /// A seat at 2027-01-15T09:00:00Z with nothing to do. Needs tokio's time paused, on one thread.
    ///
    /// # Panics
    /// The store cannot be made.
    pub async fn new() -> Self {
        policy().await;
        let (standstill, moves) = oneshot::channel::<()>();
        drop(tokio::task::spawn_blocking(|| moves.blocking_recv()));
        let clock = Clock::by_hand(Steady(3_600_000_000_000));
        let memory = Memory::new(clock.clone());
        for name in [PLANS, RUNNING] {
            let config = BucketConfig { ttl: TTL, replicas: 1 };
            memory.create_bucket(name, &config).await.expect("a bucket in memory");
        }
        for name in [DELIVERIES, CHECKS, GROUPS] {
            let config = QueueConfig { ack_wait: ACK_WAIT, replicas: 1 };
            memory.create_queue(name, &config).await.expect("a queue in memory");
        }
        Self { clock, memory, _standstill: standstill }
    }

    /// A line to the store.
    #[must_use]
    pub fn wire(&self) -> Wire {
        Wire::new(Arc::new(self.memory.clone()))
    }

    /// A builder of this name at work on all three queues.
    ///
    /// # Panics
    /// It may not.
    pub async fn builder(&self, who: &str) -> Stand {
        self.builder_with(who, |_| ()).await.expect("a builder")
    }

    /// A builder of this name, with other options.
    ///
    /// # Errors
    /// It may not.
    pub async fn builder_with(
        &self,
        who: &str,
        change: impl FnOnce(&mut BuilderOptions),
    ) -> Result<Stand, HoldsError> {
        let (wire, said) = (self.wire(), Said::default());
        let told = said.clone();
        let mut options = BuilderOptions::new(who);
        options.deliveries = Some(DELIVERIES.into());
        options.checks = vec![CHECKS.into(), GROUPS.into()];
        options.clock = self.clock.clone();
        options.on_event = Arc::new(move |event| told.push(event));
        change(&mut options);
        let store: Arc<dyn Store> = Arc::new(wire.clone());
        let builder = Arc::new(Builder::open(policy().await, &store, options).await?);
        Ok(Stand { builder, wire, said })
    }

    /// The delivery's side, over this line, in office as `authority` says.
    pub async fn plans(&self, wire: &Wire, authority: &Arc<dyn Authority>) -> (Plans, Said) {
        let said = Said::default();
        let told = said.clone();
        let store: Arc<dyn Store> = Arc::new(wire.clone());
        let on_event = Arc::new(move |event: &_| told.push(event));
        let (buckets, authority) = (Buckets::default(), authority.clone());
        (Plans::new(policy().await, &store, &buckets, &self.clock, authority, on_event), said)
    }

    /// A queue, without any fault.
    ///
    /// # Panics
    /// There is none.
    pub async fn queue(&self, name: &str) -> Arc<dyn Queue> {
        self.memory.queue(name).await.expect("a queue in memory")
    }

    /// A bucket, without any fault.
    ///
    /// # Panics
    /// There is none.
    pub async fn bucket(&self, name: &str) -> Arc<dyn Bucket> {
        self.memory.bucket(name).await.expect("a bucket in memory")
    }

    /// Ask for something in this queue, which its id says was asked this long ago.
    ///
    /// # Panics
    /// The queue does not take it.
    pub async fn ask(&self, queue: &str, ago: Duration) -> u64 {
        let now = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        self.put(queue, &format!(r#"{{"id":"build-{}-x"}}"#, (now - ago).as_millis())).await
    }

    /// Ask in these very words.
    ///
    /// # Panics
    /// The queue does not take it.
    pub async fn put(&self, queue: &str, body: &str) -> u64 {
        self.queue(queue).await.put(body.as_bytes()).await.expect("memory takes it")
    }

    /// Whether an ask of this queue waits now.
    ///
    /// # Panics
    /// The queue does not say.
    pub async fn waits(&self, queue: &str) -> bool {
        self.queue(queue).await.oldest_waiting().await.expect("memory answers").is_some()
    }

    /// How many asks of this queue are not done.
    ///
    /// # Panics
    /// The queue does not say.
    pub async fn left(&self, queue: &str) -> u64 {
        let info = self.queue(queue).await.info().await.expect("memory answers");
        info.waiting + info.taken
    }

    /// A plan builds, as another program says; it ages out unless said again.
    pub async fn builds(&self, plan: &str) {
        builds(&self.memory, plan).await;
    }

    /// It builds no more.
    ///
    /// # Panics
    /// The bucket does not take it.
    pub async fn has_built(&self, plan: &str) {
        let Reading::Found(entry) = self.plan(plan).await else { return };
        self.bucket(PLANS).await.delete(plan, entry.revision, None).await.expect("memory takes it");
    }

    /// A plan's key as it is.
    ///
    /// # Panics
    /// The bucket does not say.
    pub async fn plan(&self, plan: &str) -> Reading {
        self.bucket(PLANS).await.get(plan).await.expect("memory answers")
    }

    /// The let-through key as it is.
    ///
    /// # Panics
    /// The bucket does not say.
    pub async fn key(&self) -> Reading {
        self.bucket(RUNNING).await.get(LET_THROUGH).await.expect("memory answers")
    }

    /// Let time pass, in small steps, in which everybody does what is due.
    pub async fn pass(&self, time: Duration) {
        // What begins now begins to count its time now.
        self.settle().await;
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            left -= step;
            self.clock.advance(step);
            tokio::time::advance(step).await;
            self.settle().await;
        }
    }

    /// Let everybody do what is due now.
    pub async fn settle(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// Let time pass until this is done. Answers also how long it took.
    ///
    /// # Panics
    /// It is not done within `limit`.
    pub async fn until<T>(&self, limit: Duration, done: impl Future<Output = T>) -> (T, Duration) {
        let begun = self.clock.now();
        let mut done = pin!(done);
        loop {
            tokio::select! {
                biased;
                answer = &mut done => return (answer, self.clock.now().since(begun)),
                () = self.settle() => {}
            }
            tokio::select! {
                biased;
                answer = &mut done => return (answer, self.clock.now().since(begun)),
                () = self.pass(STEP) => {}
            }
            assert!(self.clock.now().since(begun) <= limit, "not done within {limit:?}");
        }
    }
}

/// A plan builds, as another program says in this store.
///
/// # Panics
/// The bucket does not take it.
pub async fn builds(store: &Memory, plan: &str) {
    let value = format!(
        r#"{{"plan":"{plan}","since":"2027-01-15T08:50:00.5Z","seen":"2027-01-15T08:59:50.123456789Z"}}"#
    );
    let bucket = store.bucket(PLANS).await.expect("a bucket in memory");
    bucket.create(plan, value.as_bytes()).await.expect("memory takes it");
}

/// What stands there, when something does.
///
/// # Panics
/// Nothing does.
#[must_use]
pub fn found(reading: Reading) -> Entry {
    match reading {
        Reading::Found(entry) => entry,
        other => panic!("nothing stands there: {other:?}"),
    }
}

/// One builder.
pub struct Stand {
    /// It.
    pub builder: Arc<Builder>,
    /// Its line to the store.
    pub wire: Wire,
    /// What it was told.
    pub said: Said,
}

/// What was said, in order.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<Event>>>);

impl Said {
    /// One more.
    pub fn push(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }

    /// All so far.
    #[must_use]
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The troubles so far, each as one text.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let is_trouble = |event: &Event| matches!(event, Event::Trouble { .. });
        self.all().into_iter().filter(is_trouble).map(|event| event.to_string()).collect()
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().iter().map(Event::to_string)).finish()
    }
}

/// An office that a test gives and takes.
#[derive(Debug)]
pub struct Office(Mutex<Result<u64, NotInOffice>>);

impl Office {
    /// In office from the start, or not.
    #[must_use]
    pub fn new(held: bool) -> Arc<Self> {
        let office = Arc::new(Self(Mutex::new(Ok(7))));
        office.set(held);
        office
    }

    /// In office from now, or not.
    pub fn set(&self, held: bool) {
        self.say(if held { Ok(7) } else { Err(NotInOffice::Over("bob holds it".into())) });
    }

    /// This is answered from now on.
    pub fn say(&self, answer: Result<u64, NotInOffice>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

#[async_trait]
impl Authority for Office {
    async fn in_office(&self) -> Result<u64, NotInOffice> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A store that says no for now.
#[must_use]
pub fn away() -> Fault {
    Fault::Unavailable("no connection".into())
}
