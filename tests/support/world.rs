//! Instances that stand for one lease, on a store that may fail, in time that only the test moves.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use incumbent::clock::{Clock, Steady};
use incumbent::floor::{Floor, MemoryFloor};
use incumbent::lease::{Event, LeaseError};
use incumbent::store::memory::Memory;
use incumbent::store::{BucketConfig, Reading, Store};
use incumbent::{Holder, Lease, LeaseOptions, Policy, Runtime};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

use crate::faulty::{Faulty, Line};

/// The bucket.
pub const BUCKET: &str = "leases";
/// The lease.
pub const LEASE: &str = "controller";
/// How long a record lives unless renewed.
pub const TTL: Duration = Duration::from_secs(15);
/// How often it is renewed.
pub const RENEW: Duration = Duration::from_secs(5);
/// How long before the record could expire the gate shuts.
pub const MARGIN: Duration = Duration::from_secs(3);
/// How often a candidate looks when nothing woke it, give or take a quarter.
pub const POLL: Duration = Duration::from_secs(1);

/// The grain in which time passes.
const STEP: Duration = Duration::from_millis(10);

/// Turns that every task gets after each step. The longest chain of tasks that wake one another has some
/// five links.
const TURNS: usize = 16;

/// The built-in policy, compiled once for the whole test binary.
///
/// # Panics
/// It does not load.
pub async fn policy() -> &'static Policy {
    static POLICY: OnceCell<Policy> = OnceCell::const_new();
    let load = || async {
        let runtime = Runtime::new().expect("the engine runs here");
        Policy::built_in(&runtime).await.expect("the built-in policy loads")
    };
    POLICY.get_or_init(load).await
}

/// One bucket with one lease, and those who stand for it.
///
/// Time stands still but for [`pass`](Self::pass) and [`until`](Self::until), which move the leases' clock and
/// tokio's together, and see after each step that no two gates are open and that nobody wrote over another's
/// record.
pub struct World {
    /// The clock of every instance and of the store.
    pub clock: Clock,
    /// The store.
    pub faulty: Faulty,
    /// Who decides, for everybody who stands from now on.
    pub policy: Policy,
    /// The floor, shared by all instances unless they are given another.
    pub floor: Arc<dyn Floor>,
    stands: Mutex<Vec<Weak<Lease>>>,
    /// While a blocking task runs, tokio does not move its paused time by itself.
    _standstill: oneshot::Sender<()>,
}

impl World {
    /// A world in which nobody stands yet. Needs tokio's time paused, on one thread.
    ///
    /// # Panics
    /// The bucket cannot be made.
    pub async fn new() -> Self {
        Self::with_ttl(TTL).await
    }

    /// As [`new`](Self::new), with another ttl.
    ///
    /// # Panics
    /// The bucket cannot be made.
    pub async fn with_ttl(ttl: Duration) -> Self {
        let policy = policy().await.clone();
        let (standstill, moves) = oneshot::channel::<()>();
        drop(tokio::task::spawn_blocking(|| moves.blocking_recv()));
        let clock = Clock::by_hand(Steady(3_600_000_000_000));
        let memory = Memory::new(clock.clone());
        memory.create_bucket(BUCKET, &BucketConfig { ttl, replicas: 1 }).await.expect("a bucket in memory");
        let store = memory.clone();
        let faulty = Faulty::over(Arc::new(store), BUCKET, move |name| {
            memory.drop_bucket(name);
        });
        let floor: Arc<dyn Floor> = Arc::new(MemoryFloor::default());
        Self { clock, faulty, policy, floor, stands: Mutex::default(), _standstill: standstill }
    }

    /// An instance of this name stands for the lease.
    ///
    /// # Panics
    /// It may not.
    pub async fn stand(&self, who: &str) -> Stand {
        self.stand_with(who, |_| ()).await.expect("stands for the lease")
    }

    /// An instance of this name stands for the lease, with other options.
    ///
    /// # Errors
    /// It may not.
    pub async fn stand_with(
        &self,
        who: &str,
        change: impl FnOnce(&mut LeaseOptions),
    ) -> Result<Stand, LeaseError> {
        let events = Events::default();
        let told = events.clone();
        let mut options = LeaseOptions::new(LEASE);
        options.instance = who.into();
        options.host = format!("{who}.example");
        options.floor = self.floor.clone();
        options.clock = self.clock.clone();
        options.on_event = Arc::new(move |event| told.push(event));
        change(&mut options);
        let line = self.faulty.line(who);
        let lease = Arc::new(Lease::open(&self.policy, &line, BUCKET, options).await?);
        self.stands.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&lease));
        Ok(Stand { lease, line, events })
    }

    /// Two that stand for the lease; the first has it.
    ///
    /// # Panics
    /// It cannot be taken.
    pub async fn alice_holds(&self) -> (Stand, Stand) {
        let (alice, bob) = (self.stand("alice").await, self.stand("bob").await);
        alice.lease.try_take().await.expect("the lease is free");
        (alice, bob)
    }

    /// Let time pass, in small steps, in which everybody does what is due.
    ///
    /// # Panics
    /// An invariant broke.
    pub async fn pass(&self, time: Duration) {
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
    ///
    /// # Panics
    /// An invariant broke.
    pub async fn settle(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            self.check();
        }
    }

    /// Let time pass until this is done. Answers also how long it took.
    ///
    /// # Panics
    /// It is not done within `limit`, or an invariant broke.
    pub async fn until<T>(&self, limit: Duration, done: impl Future<Output = T>) -> (T, Duration) {
        let begun = self.clock.now();
        let mut done = pin!(done);
        self.settle().await;
        loop {
            tokio::select! {
                biased;
                answer = &mut done => return (answer, self.clock.now().since(begun)),
                () = self.pass(STEP) => {}
            }
            assert!(self.clock.now().since(begun) <= limit, "not done within {limit:?}");
        }
    }

    /// Let time pass up to this instant of the leases' clock.
    ///
    /// # Panics
    /// An invariant broke.
    pub async fn pass_until(&self, instant: Steady) {
        self.pass(instant.since(self.clock.now())).await;
    }

    /// Who holds the lease, as the record that is really there says.
    ///
    /// # Panics
    /// The record is no holder.
    pub async fn holder(&self) -> Option<Holder> {
        let bucket = self.faulty.bare().await.expect("there is a bucket");
        incumbent::lease::current(policy().await, &bucket, &self.clock, LEASE)
            .await
            .expect("a holder or nobody")
    }

    /// What is really there.
    ///
    /// # Panics
    /// The store does not say.
    pub async fn record(&self) -> Reading {
        self.faulty.bare().await.expect("there is a bucket").get(LEASE).await.expect("memory answers")
    }

    /// One incumbent, and only your own.
    fn check(&self) {
        let stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<_> = stands.iter().filter_map(Weak::upgrade).filter(|lease| lease.held()).collect();
        assert!(open.len() <= 1, "two gates are open: {open:?}");
        let foreign = self.faulty.foreign();
        assert!(foreign.is_empty(), "somebody wrote over another's record: {foreign:?}");
    }
}

/// One instance.
pub struct Stand {
    /// Its lease object.
    pub lease: Arc<Lease>,
    /// Its line to the store.
    pub line: Line,
    /// What it was told.
    pub events: Events,
}

impl Stand {
    /// Wait for the lease in the background.
    #[must_use]
    pub fn take(&self) -> JoinHandle<Result<u64, LeaseError>> {
        let lease = self.lease.clone();
        tokio::spawn(async move { lease.take().await })
    }
}

/// The events of one lease object, in order.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    fn push(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }

    /// All so far.
    #[must_use]
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many so far are of this kind.
    #[must_use]
    pub fn count(&self, kind: impl Fn(&Event) -> bool) -> usize {
        self.all().iter().filter(|event| kind(event)).count()
    }
}
