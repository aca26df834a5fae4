//! What is told of workers, and to them: names, events, their time in office, their places in the interval.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use incumbent::lease::step_down;
use incumbent::workers::{Duty, Event};
use incumbent_tests::crew::{INTERVAL, Instance, Post, comes};
use incumbent_tests::faulty::Kind;
use incumbent_tests::world::{LEASE, RENEW, TTL, World, policy};

#[tokio::test(start_paused = true)]
async fn those_that_have_not_ended_are_named_each_once() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    let slow = Post::that_ends_in(2 * TTL);
    alice.workers.spawn("first", slow.clone());
    alice.workers.spawn("second", slow.clone());
    // The first of two of one name ends, and the other is there still.
    let once = alice.workers.run("second", |_: Duty| async { Ok(()) });
    comes(&world, TTL, || alice.starts() == 2).await;
    drop(once);

    let (left, _) = world.until(TTL, alice.workers.wait(Duration::from_secs(1))).await;
    assert_eq!(left, ["first", "second"]);
    assert_eq!(format!("{:?}", alice.workers), r#"Workers(leases, ["first", "second"])"#);
    let (left, _) = world.until(3 * TTL, alice.workers.wait(3 * TTL)).await;
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_told_that_its_time_is_over() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    let duties = Arc::<Mutex<Vec<Duty>>>::default();
    let seen = duties.clone();
    alice.workers.spawn(LEASE, move |duty: Duty| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(duty.clone());
        async move {
            duty.over().await;
            Ok(())
        }
    });
    comes(&world, TTL, || alice.starts() == 1).await;
    world.settle().await;
    let duty = duties.lock().unwrap_or_else(PoisonError::into_inner)[0].clone();
    assert!(!duty.is_over() && !duty.token().is_cancelled());

    world.until(TTL, alice.workers.wait(TTL)).await;

    assert!(duty.is_over() && duty.token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_by_itself_when_asked_to_give_way_rests_before_it_stands_again() -> Result<()> {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    alice.workers.spawn(LEASE, |duty: Duty| async move {
        while duty.epoch().is_ok() {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    });
    comes(&world, TTL, || alice.starts() == 1).await;
    let bucket = world.faulty.bare().await?;
    step_down(policy().await, &bucket, &world.clock, LEASE, "ops").await?;
    let asked = world.clock.now();

    comes(&world, 2 * TTL + INTERVAL, || alice.starts() == 2).await;

    let took = world.clock.now().since(asked);
    assert!(took >= INTERVAL * 3 / 4, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_taken_at_once_are_renewed_in_turn() {
    const MANY: usize = 10;
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    for n in 0..MANY {
        alice.workers.spawn(format!("worker-{n}"), Post::default());
    }
    world.settle().await;
    assert_eq!(alice.starts(), MANY);
    let mut renewals = Vec::new();
    for _ in 0..MANY {
        let before = alice.line.ops_of(Kind::Update).len();
        world.pass(RENEW / 10).await;
        renewals.push(alice.line.ops_of(Kind::Update).len() - before);
    }
    // By steps of the golden ratio no tenth has more than two of ten.
    assert!(renewals.iter().all(|&in_a_tenth| in_a_tenth <= 2), "{renewals:?}");
    assert!(renewals.iter().sum::<usize>() >= MANY - 1, "{renewals:?}");
}

#[test]
fn every_event_has_its_words() {
    let why = || String::from("no table");
    let second = Duration::from_secs(1);
    for (event, words) in [
        (Event::NotStanding { why: why() }, "cannot stand, trying again: no table"),
        (Event::Started { epoch: Some(7) }, "works at epoch 7"),
        (Event::Started { epoch: None }, "works, without election"),
        (Event::Finished, "finished"),
        (Event::Failed { why: why(), again_in: second }, "failed, again in 1s: no table"),
        (Event::Lost, "ended because its lease was lost, stands again"),
        (Event::SteppingDown { why: why() }, "steps down: no table"),
        (Event::Stopped, "stopped"),
        (
            Event::Abandoned { after: second },
            "abandoned: it did not end within 1s, its lease is left to expire",
        ),
    ] {
        assert_eq!(event.to_string(), words);
    }
}
