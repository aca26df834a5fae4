//! Workers stopped in the middle of a take, of a renewal, of giving back; and a store that is away for longer than
//! a lease lives: the state at the end is right, and the next instance works.

use std::time::Duration;

use incumbent::store::{Fault, Reading};
use incumbent::workers::Event;
use incumbent_tests::crew::{Instance, Post, comes};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{LEASE, POLL, TTL, World};

/// How long shutting down may take: the worker's end, and the bound on giving back.
const SHUTDOWN: Duration = Duration::from_secs(6);

/// Alice's so manieth operation of this kind meets this fate, and she is stopped while it does. Bob then works, at
/// the latest when her record has expired.
async fn stopped_while(kind: Kind, nth: usize, fate: Fate, held_before: bool) {
    let what = format!("{kind:?} {nth} {fate:?}");
    let world = World::new().await;
    let post = Post::default();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    if held_before {
        alice.workers.spawn(LEASE, post.clone());
        comes(&world, TTL, || alice.starts() == 1).await;
    }
    let before = alice.line.ops_of(kind).len();
    alice.line.nth(kind, nth, fate);
    if !held_before {
        alice.workers.spawn(LEASE, post.clone());
    }
    // A deletion comes only once she is stopped.
    if kind != Kind::Delete {
        comes(&world, TTL, || alice.line.ops_of(kind).len() >= before + nth).await;
    }
    let (left, took) = world.until(TTL, alice.workers.wait(TTL)).await;
    assert_eq!(left, Vec::<String>::new(), "{what}");
    assert!(took <= SHUTDOWN, "{what}: {took:?}");
    let sent = alice.line.ops().len();
    // A write that was on its way all that time arrives now.
    let _ = alice.line.deliver().await;

    bob.workers.spawn(LEASE, post.clone());
    comes(&world, 2 * TTL, || bob.starts() == 1).await;
    world.pass(2 * TTL).await;
    assert_eq!((bob.starts(), post.most()), (1, 1), "{what}");
    assert_eq!(alice.line.ops().len(), sent, "{what}: nothing is sent after the end");
    assert_eq!(alice.events().last(), Some(&Event::Stopped), "{what}");
}

fn fates() -> [Fate; 5] {
    let away = Fate::Fails(Fault::Unavailable("no connection".into()));
    [Fate::AnswerLost, Fate::RequestLost, Fate::Hangs, Fate::HeldBack, away]
}

#[tokio::test(start_paused = true)]
async fn stopped_while_the_lease_is_taken() {
    for fate in fates() {
        stopped_while(Kind::Create, 1, fate.clone(), false).await;
    }
    for kind in [Kind::Get, Kind::Info] {
        stopped_while(kind, 1, Fate::Hangs, false).await;
    }
    // After the record was written, before it was confirmed.
    stopped_while(Kind::Info, 3, Fate::Hangs, false).await;
}

#[tokio::test(start_paused = true)]
async fn stopped_while_the_lease_is_renewed() {
    for fate in fates() {
        stopped_while(Kind::Update, 1, fate, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_while_the_store_does_not_let_the_lease_be_given_back() {
    for fate in fates() {
        stopped_while(Kind::Delete, 1, fate, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_away_for_longer_than_the_ttl_ends_the_worker_in_time_and_it_works_again() {
    let world = World::new().await;
    let post = Post::default();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    for instance in [&alice, &bob] {
        instance.workers.spawn(LEASE, post.clone());
    }
    comes(&world, TTL, || alice.starts() + bob.starts() == 1).await;
    for round in 1..=3 {
        let away = Fate::Fails(Fault::Unavailable("no connection".into()));
        for instance in [&alice, &bob] {
            instance.line.always(&Kind::ALL, &away);
        }
        world.pass(2 * TTL).await;
        let lost = alice.count(|event| *event == Event::Lost) + bob.count(|event| *event == Event::Lost);
        assert_eq!(lost, round, "the one that worked has ended");
        for instance in [&alice, &bob] {
            instance.line.heal();
        }
        comes(&world, 2 * TTL, || alice.starts() + bob.starts() == round + 1).await;
        world.pass(2 * TTL).await;
        assert_eq!((alice.starts() + bob.starts(), post.most()), (round + 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_many_are_given_back_at_once_so_that_the_next_instance_starts_at_once() {
    let world = World::new().await;
    let names: Vec<String> = (0..50).map(|n| format!("labeler:did:plc:{n}")).collect();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    for name in &names {
        alice.workers.spawn(name.as_str(), Post::default());
    }
    comes(&world, TTL, || alice.starts() == names.len()).await;
    for name in &names {
        bob.workers.spawn(name.as_str(), Post::default());
    }
    world.pass(TTL).await;
    let (left, _) = world.until(TTL, alice.workers.wait(TTL)).await;
    assert_eq!(left, Vec::<String>::new());
    let ((), took) = world
        .until(TTL, async {
            while bob.starts() < names.len() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    assert!(took < POLL, "{took:?}");
    assert!(matches!(world.record().await, Reading::Absent), "the lease of another test");
}
