//! What people are told of a lease, and what passes by itself.

use std::time::Duration;

use incumbent::clock::Steady;
use incumbent::lease::{Ended, Event, LeaseError, Released};
use incumbent::policy::{Lie, Misdeed, PolicyError};
use incumbent::store::Fault;
use incumbent::{Holder, Loss};

const UNTIL: Steady = Steady(112_000_000_000);

fn bob() -> Holder {
    let text = |text: &str| text.to_owned();
    Holder {
        instance: text("bob"),
        host: text("b.example"),
        build: String::new(),
        epoch: 57,
        taken: text("2026-01-02T03:04:05Z"),
        renewed: text("2026-01-02T03:04:10Z"),
        nonce: text("b1"),
        revision: 58,
    }
}

#[test]
fn each_event_is_told_in_its_words() {
    let why = || "the store is away".to_owned();
    let released = |outcome| Event::Released { epoch: 41, outcome };
    let lost = |loss| Event::Lost { epoch: 41, loss };
    for (event, words) in [
        (Event::InLine, "waiting behind another candidate of this process"),
        (Event::Waiting { holder: Some(bob()) }, "waiting for bob (epoch 57, taken 2026-01-02T03:04:05Z)"),
        (Event::Waiting { holder: None }, "waiting until the lease is surely free"),
        (Event::Retrying { why: why() }, "trying again: the store is away"),
        (
            Event::Moved { was: 3, floor: 57 },
            "the bucket was at revision 3 though epoch 57 had been issued; moved past it, so that no epoch is issued twice",
        ),
        (Event::Taken { epoch: 41, until: UNTIL }, "taken at epoch 41"),
        (Event::Renewed { until: UNTIL }, "renewed"),
        (
            Event::RenewalFailed { why: why(), until: UNTIL },
            "renewal failed, trying again: the store is away",
        ),
        (Event::Refused { why: why() }, "gate shut, looking why: the store is away"),
        (Event::Shut { why: why() }, "gate shut: the store is away"),
        (Event::Asked { by: "ops".into(), until: UNTIL }, "asked to give way by ops: gate shut"),
        (lost(Loss::Overdue), "lost (epoch 41): no renewal was acknowledged in time"),
        (lost(Loss::Superseded(bob())), "lost (epoch 41): bob holds it at epoch 57"),
        (lost(Loss::Overwritten("not JSON".into())), "lost (epoch 41): not JSON"),
        (lost(Loss::Gone), "lost (epoch 41): its record is gone"),
        (lost(Loss::RaisedAgain), "lost (epoch 41): the bucket was raised again from nothing"),
        (released(Released::GivenBack), "given back (epoch 41)"),
        (released(Released::NotOurs), "not given back (epoch 41): it was no longer this instance's"),
        (released(Released::Left(why())), "left to expire (epoch 41): the store is away"),
        (released(Released::NeverHeld), "nothing to give back"),
    ] {
        assert_eq!(event.to_string(), words);
    }
    assert_eq!(Ended::Lost(Loss::Gone).to_string(), "lost: its record is gone");
    assert_eq!(Ended::GivenBack.to_string(), "given back");
}

#[test]
fn what_passes_by_itself_is_tried_again() {
    let (away, unknown) = (Fault::Unavailable("away".into()), Fault::Unknown("lost".into()));
    let denied = Fault::Denied("no".into());
    for passes in [
        LeaseError::Taken(Box::new(bob())),
        LeaseError::NotYetFree,
        LeaseError::TooSlow,
        LeaseError::Unsure(unknown.clone()),
        LeaseError::Unreadable(away.clone()),
        LeaseError::Unreadable(unknown.clone()),
        LeaseError::FloorUnmoved(away.clone()),
        LeaseError::Store(away),
        LeaseError::Store(unknown),
        LeaseError::Lied(Lie::BelowFloor { said: 41, floor: 57 }),
    ] {
        assert!(passes.passes(), "{passes:?}");
    }
    for stays in [
        LeaseError::Unreadable(denied.clone()),
        LeaseError::FloorUnmoved(denied.clone()),
        LeaseError::Store(denied.clone()),
        LeaseError::Unwritable(denied),
        LeaseError::Misfit("the margin".into()),
        LeaseError::NotAHolder("not JSON".into()),
        LeaseError::FloorUnreadable("a bad sector".into()),
        LeaseError::FloorTooHigh(u64::MAX),
        LeaseError::FloorBlocked(vec!["another".into()]),
        LeaseError::Lied(Lie::NotOurs(57)),
        LeaseError::Lied(Lie::TooLong { by: Duration::from_secs(1) }),
        LeaseError::Over(Ended::GivenBack),
    ] {
        assert!(!stays.passes(), "{stays:?}");
    }
}

#[test]
fn a_policy_that_lied_is_not_one_that_failed() {
    let error = |what| LeaseError::from(PolicyError { policy: "p 1".into(), export: "lease.take", what });
    assert!(matches!(error(Misdeed::Lied(Lie::NotOurs(57))), LeaseError::Lied(Lie::NotOurs(57))));
    assert!(matches!(error(Misdeed::Broke("b".into())), LeaseError::Policy(_)));
}
