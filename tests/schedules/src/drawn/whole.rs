//! The whole lease: taken, kept, renewed when asked, gated and given back while versions of the policy come and go,
//! others act and read, and somebody else stands for it.

mod host;
mod time;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use incumbent::floor::MemoryFloor;
use incumbent::policy::Version;
use incumbent::store::memory::Memory;
use incumbent::store::{BucketConfig, Reading, Store as _};
use shuttle::future::block_on;
use shuttle::rand::{self, Rng as _, RngCore as _};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{self, JoinHandle};

use host::chance::Chance;
use host::lease::{Ended, Event, Lease, LeaseOptions, Released};
use host::policy::Policy;
use wire::Wire;

const BUCKET: &str = "leases";
const LEASE: &str = "office";
const TTL: Duration = Duration::from_secs(15);
/// For how long a record lets one act, from its sending: the ttl less the margin.
const VALIDITY: Duration = Duration::from_secs(12);

/// In how many orders one held it after another.
pub(super) static FOLLOWED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// How many acts are under way.
#[derive(Debug, Default)]
struct Acting(AtomicU64);

impl Acting {
    fn none(&self, when: &str) {
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "acts are under way when {when}");
    }
}

/// A pass of a gate: begun and ended at these places in the order of everything.
#[derive(Clone, Debug)]
struct Pass {
    who: String,
    epoch: u64,
    begun: u64,
    ended: u64,
}

/// What all share. Its locks are held for no step.
struct World {
    store: Memory,
    policy: Policy,
    versions: [Version; 2],
    floor: Arc<MemoryFloor>,
    passes: Mutex<Vec<Pass>>,
    order: std::sync::atomic::AtomicU64,
    over: AtomicU64,
}

/// One who stands.
struct Candidate {
    world: Arc<World>,
    lease: Lease,
    wire: Wire,
    ends: Arc<Mutex<Vec<Event>>>,
    /// Set once it is over for whoever told it to end.
    done: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        let versions = incumbent_native::built_in();
        let store = Memory::new(time::clock());
        block_on(store.create_bucket(BUCKET, &BucketConfig { ttl: TTL, replicas: 1 })).expect("it is made");
        Arc::new(Self {
            store,
            policy: Policy::of(versions[0].clone()),
            versions,
            floor: Arc::default(),
            passes: Mutex::default(),
            order: 0.into(),
            over: AtomicU64::new(0),
        })
    }

    fn stand(self: &Arc<Self>, name: &str) -> Arc<Candidate> {
        let ends: Arc<Mutex<Vec<Event>>> = Arc::default();
        let heard = ends.clone();
        let mut options = LeaseOptions::new(LEASE);
        options.instance = name.into();
        options.floor = self.floor.clone();
        options.clock = time::clock();
        options.chance = Chance::seeded(rand::thread_rng().next_u64());
        options.on_event = Arc::new(move |event| {
            if matches!(event, Event::Taken { .. } | Event::Lost { .. } | Event::Released { .. }) {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
            }
        });
        let wire = Wire {
            store: self.store.clone(),
            acting: Arc::default(),
            cut: Arc::default(),
            allowed: Arc::default(),
        };
        let lease = block_on(Lease::open(&self.policy, &wire, BUCKET, options)).expect("it may stand");
        Arc::new(Candidate { world: self.clone(), lease, wire, ends, done: AtomicU64::new(0) })
    }

    fn next(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed)
    }

    /// Time goes on until the end.
    fn time(self: &Arc<Self>) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            while world.over.load(Ordering::SeqCst) == 0 {
                time::goes_on();
                thread::yield_now();
            }
        })
    }

    /// Time stops. Nobody has passed at an epoch once somebody had passed at a higher one, and no two at the same.
    fn end(&self, time: JoinHandle<()>) {
        self.over.store(1, Ordering::SeqCst);
        everybody([time]);
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        for late in passes.iter() {
            let other = passes.iter().find(|pass| {
                pass.epoch > late.epoch && pass.ended < late.begun
                    || pass.epoch == late.epoch && pass.who != late.who
            });
            assert!(other.is_none(), "two gates were open: {late:?} after {other:?}");
        }
        let is_others = |pass: &Pass| passes.first().is_some_and(|first| first.who != pass.who);
        if passes.iter().any(is_others) {
            FOLLOWED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Candidate {
    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        let candidate = self.clone();
        thread::spawn(move || body(&candidate))
    }

    /// Asks a gate. A pass is noted, and must be before the end and in its time.
    fn ask<T>(&self, gate: impl FnOnce() -> Option<T>, epoch: impl FnOnce(&T) -> Option<u64>) -> Option<T> {
        let done = self.done.load(Ordering::SeqCst) == 1;
        let (begun, at) = (self.world.next(), time::clock().now().0);
        let passed = gate()?;
        let ended = self.world.next();
        assert!(!done, "passed after the end");
        assert!(at < self.wire.allowed.load(Ordering::Relaxed), "passed after its time");
        if let Some(epoch) = epoch(&passed) {
            let pass = Pass { who: self.lease.identity().instance.clone(), epoch, begun, ended };
            self.world.passes.lock().unwrap_or_else(PoisonError::into_inner).push(pass);
        }
        Some(passed)
    }

    fn read(&self) {
        self.ask(|| self.lease.epoch().ok(), |epoch| Some(*epoch));
    }

    /// One act, under a permit.
    fn act(&self) {
        let Some(permit) = self.ask(|| self.lease.permit().ok(), |_| None) else { return };
        self.wire.acting.0.fetch_add(1, Ordering::SeqCst);
        self.ask(|| permit.epoch().ok(), |epoch| Some(*epoch));
        self.wire.acting.0.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }

    fn give_back(&self) {
        let released = block_on(self.lease.release());
        self.done.store(1, Ordering::SeqCst);
        self.read();
        self.act();
        if released == Released::GivenBack {
            let bucket = block_on(self.world.store.bucket(BUCKET)).expect("it is there");
            let holder = self.lease.identity().instance.as_bytes();
            if let Ok(Reading::Found(entry)) = block_on(bucket.get(LEASE)) {
                let is_own = entry.value.windows(holder.len()).any(|part| part == holder);
                assert!(!is_own, "its record is there still");
            }
        }
    }

    /// It ended, once, and says how.
    fn check(&self) {
        block_on(self.lease.lost());
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let told: Vec<_> = ends.iter().filter(|event| !matches!(event, Event::Taken { .. })).collect();
        let taken = ends.len() - told.len();
        match (self.lease.ended(), told.as_slice()) {
            (Some(Ended::Lost(_)), [Event::Lost { .. }]) => assert_eq!(taken, 1),
            (Some(Ended::GivenBack), [Event::Released { .. }]) => assert_eq!(taken, 1),
            (Some(Ended::GivenBack), []) => assert_eq!(taken, 0),
            (ended, told) => panic!("{ended:?}, but {told:?} was told"),
        }
    }
}

/// What bob does: waits for it until he has it, acts, and gives it back. Nobody had it at his epoch or above, and alice
/// passes no more.
fn follow(bob: &Candidate, alice: &Candidate, first: Option<u64>) {
    let second = block_on(bob.lease.take()).ok();
    assert!(second.is_none() || second > first, "{second:?} was issued after {first:?}");
    bob.act();
    alice.read();
    later(3, || bob.read());
    bob.give_back();
}

/// Within so many seconds of everybody's time.
fn later<T>(seconds: u64, what: impl FnOnce() -> T) -> T {
    let pause = Duration::from_millis(rand::thread_rng().gen_range(0..=seconds * 1000));
    block_on(time::sleep(pause));
    what()
}

fn everybody(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("what it saw holds");
    }
}

/// Alice holds it: she is read, acts, is told to renew and to give it back, all at once, while the policy is swapped and
/// time goes on. Bob waits for it, acts, and gives it back.
pub(super) fn kept_and_followed() {
    let world = World::new();
    let time = world.time();
    let [alice, bob] = ["alice", "bob"].map(|name| world.stand(name));
    let first = block_on(alice.lease.take()).ok();
    let swapper = world.clone();
    let threads = [
        alice.spawn(|alice| (0..4).for_each(|_| later(3, || alice.read()))),
        alice.spawn(|alice| (0..4).for_each(|_| later(6, || alice.read()))),
        alice.spawn(|alice| (0..3).for_each(|_| later(4, || alice.act()))),
        alice.spawn(|alice| later(4, || drop(block_on(alice.lease.renew())))),
        alice.spawn(|alice| later(12, || alice.give_back())),
        bob.spawn({
            let alice = alice.clone();
            move |bob| follow(bob, &alice, first)
        }),
        thread::spawn(move || {
            for version in swapper.versions.iter().rev() {
                later(4, || swapper.policy.swap(version.clone()));
            }
        }),
    ];
    everybody(threads);
    alice.check();
    bob.check();
    world.end(time);
}

/// Three stand for it at once: one is told to give it back before she may have it, one tries and goes, one waits.
pub(super) fn contended_and_cut_short() {
    let world = World::new();
    let time = world.time();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.stand(name));
    let threads = [
        alice.spawn(|alice| {
            let _ = block_on(alice.lease.take());
            alice.act();
        }),
        alice.spawn(|alice| later(4, || alice.give_back())),
        alice.spawn(|alice| (0..3).for_each(|_| later(2, || alice.read()))),
        bob.spawn(|bob| {
            let _ = block_on(bob.lease.try_take());
            bob.act();
            bob.give_back();
        }),
        carol.spawn(|carol| {
            let _ = block_on(carol.lease.take());
            carol.read();
            carol.act();
            carol.give_back();
        }),
    ];
    everybody(threads);
    for candidate in [alice, bob, carol] {
        candidate.check();
    }
    world.end(time);
}

/// Alice holds it and is cut off from the store for a while, and goes on acting for as long as she may; bob waits for it,
/// acts, and gives it back.
pub(super) fn cut_off() {
    let world = World::new();
    let time = world.time();
    let [alice, bob] = ["alice", "bob"].map(|name| world.stand(name));
    let first = block_on(alice.lease.take()).ok();
    let threads = [
        alice.spawn(|alice| later(6, || alice.wire.cut(TTL * 2))),
        alice.spawn(|alice| (0..12).for_each(|_| later(3, || alice.read()))),
        alice.spawn(|alice| (0..6).for_each(|_| later(6, || alice.act()))),
        bob.spawn({
            let alice = alice.clone();
            move |bob| follow(bob, &alice, first)
        }),
    ];
    everybody(threads);
    alice.give_back();
    alice.check();
    bob.check();
    world.end(time);
}
