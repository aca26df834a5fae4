//! Gate, permits and the quiet that a release waits for, with many who act.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::stage::lease::{Permit, Shared, quiet};

const EPOCH: u64 = 57;

/// When it is taken, and for how long each write counts.
const TAKEN: u64 = 100;
const VALIDITY: u64 = 12;

/// What is true of the lease, beside what its gate says.
struct World {
    shared: Arc<Shared>,
    /// The highest instant until which a write that was acknowledged lets the gate be open.
    allowed: AtomicU64,
    /// How many acts are under way.
    acting: AtomicU64,
    /// Set once nobody may act any more.
    over: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shared: Shared::new(TAKEN),
            allowed: AtomicU64::new(0),
            acting: AtomicU64::new(0),
            over: AtomicU64::new(0),
        })
    }

    /// The keeper's: a write sent at this instant was acknowledged.
    fn open(&self, sent: u64) -> bool {
        self.allowed.fetch_max(sent + VALIDITY, Ordering::SeqCst);
        self.shared.gate.open(EPOCH, sent + VALIDITY)
    }

    /// What a reader asks, as `Lease::epoch` does.
    fn read(&self) {
        let over = self.over.load(Ordering::SeqCst) == 1;
        let mut read = 0;
        let passed = self.shared.gate.pass(|| {
            read = self.shared.clock.now().0;
            read
        });
        if let Some(epoch) = passed {
            assert_eq!(epoch, EPOCH, "another tenure's epoch");
            assert!(!over, "passed after the end");
            assert!(read < self.allowed.load(Ordering::SeqCst), "passed after its time");
        }
    }

    /// One act, under a permit.
    fn act(&self) {
        let over = self.over.load(Ordering::SeqCst) == 1;
        let Ok(permit) = Permit::enter(&self.shared) else { return };
        assert!(!over, "a permit after the end");
        self.acting.fetch_add(1, Ordering::SeqCst);
        assert_ne!(self.over.load(Ordering::SeqCst), 2, "an act in the quiet");
        let _ = permit.epoch().map(|epoch| assert_eq!(epoch, EPOCH));
        self.acting.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }

    /// Giving it back: sealed, and quiet.
    fn give_back(&self) {
        self.shared.gate.seal();
        self.over.store(1, Ordering::SeqCst);
        block_on(quiet(&self.shared));
        assert_eq!(self.acting.load(Ordering::SeqCst), 0, "given back while acts are under way");
        self.over.store(2, Ordering::SeqCst);
    }
}

fn spawn(world: &Arc<World>, body: impl FnOnce(&World) + Send + 'static) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

fn everybody(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("what it saw holds");
    }
}

/// Taken, renewed twice, in doubt between, and given back; three act, one reads, time goes on.
pub(super) fn kept_and_given_back() {
    let world = World::new();
    assert!(world.open(TAKEN));
    let keeper = spawn(&world, |world| {
        for renewal in 1..3 {
            let now = world.shared.clock.now().0;
            if now >= world.allowed.load(Ordering::SeqCst) {
                return;
            }
            if renewal == 2 {
                world.shared.gate.shut();
            }
            if !world.open(now) {
                return;
            }
        }
    });
    let time = spawn(&world, |world| [105, 111, 113, 130].iter().for_each(|at| world.shared.clock.set(*at)));
    let reader = spawn(&world, |world| (0..2).for_each(|_| world.read()));
    let actors = [0; 3].map(|_| spawn(&world, World::act));
    world.give_back();
    world.read();
    world.act();
    everybody(actors.into_iter().chain([keeper, time, reader]));
    assert!(world.shared.gate.is_quiet());
}

/// The keeper finds it lost while acts are under way, and a caller gives it back at the same time.
pub(super) fn lost() {
    let world = World::new();
    let keeper = spawn(&world, |world| {
        world.open(TAKEN);
        world.shared.gate.shut();
        world.shared.gate.seal();
        assert!(!world.open(TAKEN + 1), "opened again after it was lost");
    });
    let readers = [0; 2].map(|_| spawn(&world, World::read));
    let actors = [0; 2].map(|_| spawn(&world, World::act));
    world.give_back();
    everybody(actors.into_iter().chain(readers).chain([keeper]));
    assert!(world.shared.gate.is_quiet() && world.shared.gate.until().is_none());
}

/// A write whose answer came too late: the gate is opened when its time is over.
pub(super) fn opened_too_late() {
    let world = World::new();
    let readers = [0; 2].map(|_| {
        spawn(&world, |world| {
            let passed = world.shared.gate.pass(|| world.shared.clock.now().0);
            assert_eq!(passed, None, "passed a gate that was never open in its time");
            assert!(Permit::enter(&world.shared).is_err());
        })
    });
    world.shared.clock.set(TAKEN + VALIDITY);
    world.open(TAKEN);
    everybody(readers);
    world.give_back();
}
