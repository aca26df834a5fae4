//! The gate under loom: its own source, with loom's atomics, in every order that the memory model allows.
//!
//! Threads of a model are one keeper at the most, who opens and shuts, one who seals, and those who act. Each model
//! answers in how many orders it was run.

use std::sync::Arc;
use std::sync::atomic::Ordering as Counting;

use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

mod gate {
    include!(concat!(env!("OUT_DIR"), "/gate_under_loom.rs"));
}

use gate::Gate;
use sync::{AtomicU64, Ordering};

/// How many preemptions an order may have; none for every order.
type Bound = Option<usize>;

/// How far it is looked.
#[derive(Clone, Copy, Debug)]
pub enum Depth {
    /// With few preemptions, which show every fault that was tried.
    Test,
    /// For a minute.
    Quick,
    /// For a night.
    Nightly,
}

/// A model, and what it shows.
#[derive(Debug)]
pub struct Model {
    /// What holds in every order.
    pub name: &'static str,
    run: fn(Bound) -> u64,
    /// One for each depth.
    bounds: [Bound; 3],
}

impl Model {
    /// In how many orders it was run, each of them once. Panics when one of them shows a fault.
    #[must_use]
    pub fn run(&self, depth: Depth) -> u64 {
        let [test, quick, nightly] = self.bounds;
        (self.run)(match depth {
            Depth::Test => test,
            Depth::Quick => quick,
            Depth::Nightly => nightly,
        })
    }
}

macro_rules! models {
    ($($name:ident $bounds:expr;)*) => {
        /// Every model.
        pub const MODELS: &[Model] =
            &[$(Model { name: stringify!($name), run: $name, bounds: $bounds }),*];
    };
}

const EVERY_ORDER: [Bound; 3] = [None; 3];

models! {
    a_reader_gets_the_tenures_epoch_or_none EVERY_ORDER;
    once_shut_nobody_passes_who_hears_of_it EVERY_ORDER;
    a_gate_opened_after_its_time_lets_nobody_pass EVERY_ORDER;
    after_a_seal_no_opening_and_no_pass_and_no_permit EVERY_ORDER;
    a_release_that_finds_no_keeper_has_sealed_the_gate_before_it_opened EVERY_ORDER;
    a_shutting_does_not_undo_a_seal EVERY_ORDER;
    an_opening_that_races_a_shutting_ends_as_one_of_the_two EVERY_ORDER;
    three_acts_and_one_who_waits_for_them [Some(2), Some(3), Some(6)];
    whoever_waits_for_quiet_sees_every_act_and_is_woken_by_the_last [Some(3), Some(5), None];
    two_who_seal_leave_no_permit_and_no_opening [Some(3), Some(5), Some(7)];
    nobody_passes_later_than_the_last_opening_allows [Some(1), Some(3), Some(4)];
}

/// Runs a model in every order within the bound, and counts them.
fn orders(bound: Bound, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = count.clone();
    builder.check(move || {
        counted.fetch_add(1, Counting::Relaxed);
        model();
    });
    count.load(Counting::Relaxed)
}

const EPOCH: u64 = 57;
/// Below every `until` that these models open with.
const EARLY: u64 = 2;
const UNTIL: u64 = 10;

fn a_reader_gets_the_tenures_epoch_or_none(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        let reader = {
            let gate = gate.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    assert!(gate.pass(|| EARLY).is_none_or(|epoch| epoch == EPOCH));
                }
            })
        };
        assert!(gate.open(EPOCH, UNTIL));
        gate.shut();
        assert!(gate.open(EPOCH, UNTIL + 1));
        assert_eq!(gate.pass(|| UNTIL), Some(EPOCH));
        assert_eq!(gate.pass(|| UNTIL + 1), None, "at `until` itself it is shut");
        reader.join().expect("the reader saw no other epoch");
    })
}

fn once_shut_nobody_passes_who_hears_of_it(bound: Bound) -> u64 {
    orders(bound, || {
        let (gate, shut) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(0)));
        assert!(gate.open(EPOCH, UNTIL));
        let reader = {
            let (gate, shut) = (gate.clone(), shut.clone());
            thread::spawn(move || {
                let heard = shut.load(Ordering::Acquire) == 1;
                assert!(!(heard && gate.pass(|| EARLY).is_some()));
            })
        };
        gate.shut();
        shut.store(1, Ordering::Release);
        reader.join().expect("the reader did not pass");
    })
}

fn a_gate_opened_after_its_time_lets_nobody_pass(bound: Bound) -> u64 {
    orders(bound, || {
        let (gate, clock) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(EARLY)));
        let reader = {
            let (gate, clock) = (gate.clone(), clock.clone());
            // The clock is read after `until`: the other way round, the reading may be from before the opening.
            thread::spawn(move || assert_eq!(gate.pass(|| clock.load(Ordering::Acquire)), None))
        };
        clock.store(UNTIL, Ordering::Release);
        gate.open(EPOCH, UNTIL);
        reader.join().expect("the reader did not pass");
    })
}

fn after_a_seal_no_opening_and_no_pass_and_no_permit(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        let keeper = {
            let gate = gate.clone();
            thread::spawn(move || {
                let first = gate.open(EPOCH, UNTIL);
                let second = gate.open(EPOCH, UNTIL + 5);
                assert!(first || !second, "sealed is for good");
            })
        };
        gate.seal();
        assert_eq!(gate.pass(|| EARLY), None);
        assert_eq!(gate.enter(|| EARLY), None);
        keeper.join().expect("the keeper was told");
        assert!(gate.is_sealed() && gate.is_quiet());
        assert_eq!(gate.until(), None);
        assert_eq!(gate.pass(|| EARLY), None);
        assert_eq!(gate.enter(|| EARLY), None);
    })
}

fn a_release_that_finds_no_keeper_has_sealed_the_gate_before_it_opened(bound: Bound) -> u64 {
    orders(bound, || {
        let (gate, keeper) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(0)));
        let takes = {
            let (gate, keeper) = (gate.clone(), keeper.clone());
            thread::spawn(move || {
                keeper.store(1, Ordering::Release);
                gate.open(EPOCH, UNTIL)
            })
        };
        gate.seal();
        let found = keeper.load(Ordering::Acquire) == 1;
        let opened = takes.join().expect("the take came to an end");
        assert!(found || !opened, "a tenure that nobody gives back");
    })
}

fn a_shutting_does_not_undo_a_seal(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        assert!(gate.open(EPOCH, UNTIL));
        let keeper = {
            let gate = gate.clone();
            thread::spawn(move || gate.shut())
        };
        gate.seal();
        keeper.join().expect("the keeper shut it");
        assert!(gate.is_sealed());
        assert!(!gate.open(EPOCH, UNTIL));
        assert_eq!(gate.pass(|| EARLY), None);
    })
}

fn an_opening_that_races_a_shutting_ends_as_one_of_the_two(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        let opens = {
            let gate = gate.clone();
            thread::spawn(move || assert!(gate.open(EPOCH, UNTIL), "nobody seals"))
        };
        gate.shut();
        opens.join().expect("the opening went through");
        match gate.until() {
            Some(until) => assert_eq!((until, gate.pass(|| EARLY)), (UNTIL, Some(EPOCH))),
            None => assert_eq!(gate.pass(|| EARLY), None),
        }
        gate.shut();
        assert_eq!(gate.until(), None);
    })
}

fn whoever_waits_for_quiet_sees_every_act_and_is_woken_by_the_last(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        let (quiet, woken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        assert!(gate.open(EPOCH, UNTIL));
        let actors = [(), ()].map(|()| {
            let (gate, quiet, woken) = (gate.clone(), quiet.clone(), woken.clone());
            let act = Arc::new(AtomicU64::new(0));
            let done = act.clone();
            let acts = thread::spawn(move || {
                let entered = gate.enter(|| EARLY).is_some();
                // What a permit does: it wakes the waiter when it was refused, or was the last.
                let last = !entered || {
                    assert_eq!(quiet.load(Ordering::Relaxed), 0, "an act in the quiet");
                    act.store(1, Ordering::Relaxed);
                    gate.leave()
                };
                if last {
                    woken.store(1, Ordering::Relaxed);
                }
                entered
            });
            (acts, done)
        });
        gate.seal();
        let at_once = gate.is_quiet();
        let seen = actors.each_ref().map(|(_, done)| done.load(Ordering::Relaxed) == 1);
        if at_once {
            quiet.store(1, Ordering::Relaxed);
        }
        for ((acts, _), seen) in actors.into_iter().zip(seen) {
            let entered = acts.join().expect("no act in the quiet");
            assert!(!(at_once && entered) || seen, "an act that was not over");
        }
        assert!(at_once || woken.load(Ordering::Relaxed) == 1, "nobody wakes the one who waits");
        assert!(gate.is_quiet());
    })
}

fn nobody_passes_later_than_the_last_opening_allows(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        let (clock, allowed) = (Arc::new(AtomicU64::new(EARLY)), Arc::new(AtomicU64::new(0)));
        let readers = [(), ()].map(|()| {
            let (gate, clock, allowed) = (gate.clone(), clock.clone(), allowed.clone());
            thread::spawn(move || {
                let mut read = 0;
                let passed = gate.pass(|| {
                    read = clock.load(Ordering::Acquire);
                    read
                });
                if let Some(epoch) = passed {
                    assert_eq!(epoch, EPOCH);
                    assert!(read < allowed.load(Ordering::Relaxed), "passed later than any opening allows");
                }
            })
        });
        let keeper = {
            let (gate, clock, allowed) = (gate.clone(), clock.clone(), allowed.clone());
            thread::spawn(move || {
                for until in [UNTIL, 2 * UNTIL] {
                    // Never renewed past its own time.
                    if clock.load(Ordering::Acquire) + UNTIL < until {
                        return gate.seal();
                    }
                    allowed.store(until, Ordering::Relaxed);
                    assert!(gate.open(EPOCH, until));
                }
            })
        };
        clock.store(UNTIL, Ordering::Release);
        clock.store(2 * UNTIL, Ordering::Release);
        assert_eq!(gate.pass(|| 2 * UNTIL), None);
        keeper.join().expect("the keeper renewed, or not");
        for reader in readers {
            reader.join().expect("no reader passed too late");
        }
    })
}

fn three_acts_and_one_who_waits_for_them(bound: Bound) -> u64 {
    orders(bound, || {
        let (gate, quiet) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(0)));
        assert!(gate.open(EPOCH, UNTIL));
        let actors = [(), (), ()].map(|()| {
            let (gate, quiet) = (gate.clone(), quiet.clone());
            thread::spawn(move || {
                let Some(epoch) = gate.enter(|| EARLY) else { return };
                assert_eq!(epoch, EPOCH);
                assert_eq!(quiet.load(Ordering::Relaxed), 0, "an act in the quiet");
                gate.leave();
            })
        });
        gate.seal();
        if gate.is_quiet() {
            quiet.store(1, Ordering::Relaxed);
        }
        for acts in actors {
            acts.join().expect("no act in the quiet");
        }
        assert!(gate.is_quiet());
    })
}

fn two_who_seal_leave_no_permit_and_no_opening(bound: Bound) -> u64 {
    orders(bound, || {
        let gate = Arc::new(Gate::new());
        assert!(gate.open(EPOCH, UNTIL));
        assert!(!gate.is_sealed() && !gate.is_quiet(), "nobody waits for the quiet of an open gate");
        assert_eq!(gate.until(), Some(UNTIL));
        let acts = {
            let gate = gate.clone();
            thread::spawn(move || gate.enter(|| EARLY).map(|_| gate.leave()))
        };
        let keeper = {
            let gate = gate.clone();
            thread::spawn(move || {
                gate.open(EPOCH, UNTIL + 5);
                gate.shut();
                let opened = gate.open(EPOCH, UNTIL + 9);
                // Lost: the other one gives it back.
                gate.seal();
                opened
            })
        };
        gate.seal();
        assert_eq!((gate.pass(|| EARLY), gate.enter(|| EARLY)), (None, None));
        acts.join().expect("the act ended");
        keeper.join().expect("the keeper ended");
        assert!(gate.is_sealed() && gate.is_quiet());
        assert!(!gate.open(EPOCH, UNTIL));
    })
}
