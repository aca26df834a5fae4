//! The gate under loom: its own source, with loom's atomics, in every order that the memory model allows.
//!
//! Threads of a model are one keeper at the most, who opens and shuts, one who seals, and those who act.

use std::sync::Arc;

use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../host/src/gate.rs"]
mod gate;

use gate::Gate;
use sync::{AtomicU64, Ordering};

const EPOCH: u64 = 57;
/// Below every `until` that these models open with.
const EARLY: u64 = 2;
const UNTIL: u64 = 10;

#[test]
fn a_reader_gets_the_tenures_epoch_or_none() {
    loom::model(|| {
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
    });
}

#[test]
fn once_shut_nobody_passes_who_hears_of_it() {
    loom::model(|| {
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
    });
}

#[test]
fn a_gate_opened_after_its_time_lets_nobody_pass() {
    loom::model(|| {
        let (gate, clock) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(EARLY)));
        let reader = {
            let (gate, clock) = (gate.clone(), clock.clone());
            // The clock is read after `until`: the other way round, the reading may be from before the opening.
            thread::spawn(move || assert_eq!(gate.pass(|| clock.load(Ordering::Acquire)), None))
        };
        clock.store(UNTIL, Ordering::Release);
        gate.open(EPOCH, UNTIL);
        reader.join().expect("the reader did not pass");
    });
}

#[test]
fn after_a_seal_no_opening_and_no_pass_and_no_permit() {
    loom::model(|| {
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
    });
}

#[test]
fn a_release_that_finds_no_keeper_has_sealed_the_gate_before_it_opened() {
    loom::model(|| {
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
    });
}

#[test]
fn a_shutting_does_not_undo_a_seal() {
    loom::model(|| {
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
    });
}

#[test]
fn an_opening_that_races_a_shutting_ends_as_one_of_the_two() {
    loom::model(|| {
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
    });
}

#[test]
fn whoever_waits_for_quiet_sees_every_act_and_is_woken_by_the_last() {
    let mut model = loom::model::Builder::new();
    // Every order of three threads takes two minutes; those with three preemptions show every fault that was
    // tried.
    model.preemption_bound = Some(3);
    model.check(|| {
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
    });
}
