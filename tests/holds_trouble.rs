//! What cannot be read is said once, holds nobody up, and is said again when it recovered and failed anew.

use std::sync::Arc;
use std::time::Duration;

use incumbent::holds::{Buckets, HoldsError, Kind, PLANS, RUNNING, TTL, status};
use incumbent::store::{BucketConfig, Fault, Store};
use incumbent_tests::site::{AFTER, CHECKS, DELIVERIES, Fate, GROUPS, Seat, Stand, What, away};
use incumbent_tests::world::policy;

const MINUTE: Duration = Duration::from_secs(60);

/// The queue that the next job comes from, which is done at once.
async fn served(stand: &Stand) -> Option<String> {
    let job = stand.builder.try_next().await?;
    let queue = job.queue().to_owned();
    job.done().await.expect("it is this builder's");
    Some(queue)
}

#[tokio::test(start_paused = true)]
async fn plans_that_cannot_be_read_are_said_once_and_hold_no_check() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    for _ in 0..5 {
        seat.ask(CHECKS, MINUTE).await;
    }
    let says =
        "the plans that build cannot be read, and are read as none: no check waits for them: no connection";
    alice.wire.always(What::Keys, PLANS, Fate::Fails(away()));
    for _ in 0..2 {
        assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    }
    assert_eq!(alice.said.troubles(), [says]);
    alice.wire.heal();
    assert_eq!(served(&alice).await, None);
    alice.wire.always(What::Keys, PLANS, Fate::Fails(away()));
    for _ in 0..2 {
        assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    }
    assert_eq!(alice.said.troubles(), [says, says]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_plans_bucket_is_said_once_and_found_when_it_is_made() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    seat.memory.drop_bucket(PLANS);
    let alice = seat.builder("alice").await;
    for _ in 0..3 {
        seat.ask(CHECKS, MINUTE).await;
    }
    for _ in 0..2 {
        assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    }
    let [said] = &alice.said.troubles()[..] else { panic!("{:?}", alice.said) };
    assert!(said.contains("no check waits for them") && said.contains("incumbent bucket create"), "{said}");
    seat.memory.create_bucket(PLANS, &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    seat.builds("plan-12").await;
    assert_eq!(served(&alice).await, None);
    seat.memory.drop_bucket(PLANS);
    assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    assert_eq!(alice.said.troubles().len(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_taken_from_is_said_once_and_the_others_are_served() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    for queue in [DELIVERIES, CHECKS] {
        alice.wire.always(What::Take, queue, Fate::Fails(away()));
    }
    for queue in [DELIVERIES, CHECKS, GROUPS, GROUPS, GROUPS] {
        seat.ask(queue, MINUTE).await;
    }
    for _ in 0..3 {
        assert_eq!(served(&alice).await.as_deref(), Some(GROUPS));
    }
    assert_eq!(
        alice.said.troubles(),
        [
            "the queue deliveries cannot be taken from, and is passed over: no connection",
            "the queue checks cannot be taken from, and is passed over: no connection",
        ]
    );
    alice.wire.heal();
    assert_eq!(served(&alice).await.as_deref(), Some(DELIVERIES));
    assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    alice.wire.always(What::Take, DELIVERIES, Fate::Fails(away()));
    assert_eq!(served(&alice).await, None);
    assert_eq!(alice.said.troubles().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_looked_at_is_said_once_and_the_other_ones_check_is_let_through() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    alice.wire.always(What::Oldest, CHECKS, Fate::Fails(away()));
    seat.ask(CHECKS, 2 * AFTER).await;
    for _ in 0..2 {
        seat.ask(GROUPS, AFTER).await;
    }
    for _ in 0..2 {
        assert_eq!(served(&alice).await.as_deref(), Some(GROUPS));
    }
    let says =
        "the oldest check of the queue checks cannot be read, so the queue is passed over: no connection";
    assert_eq!(alice.said.troubles(), [says]);
    alice.wire.heal();
    assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
    alice.wire.always(What::Oldest, CHECKS, Fate::Fails(away()));
    assert_eq!(served(&alice).await, None);
    assert_eq!(alice.said.troubles(), [says, says]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_running_bucket_lets_nothing_through_and_takes_nothing_else_away() {
    let seat = Seat::new().await;
    seat.memory.drop_bucket(RUNNING);
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    seat.ask(CHECKS, AFTER).await;
    for _ in 0..3 {
        assert_eq!(served(&alice).await, None);
    }
    let [said] = &alice.said.troubles()[..] else { panic!("{:?}", alice.said) };
    assert!(said.starts_with("no check can be let through: there is no bucket"), "{said}");
    seat.has_built("plan-12").await;
    assert_eq!(served(&alice).await.as_deref(), Some(CHECKS));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_be_handed_back_is_said_and_given_again_after_the_ack_wait() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    alice.wire.always(What::HandBack, CHECKS, Fate::Fails(away()));
    drop(alice.builder.try_next().await.expect("a check"));
    seat.settle().await;
    let [said] = &alice.said.troubles()[..] else { panic!("{:?}", alice.said) };
    assert_eq!(said, "a job that was dropped cannot be handed back, and is given again later: no connection");
    assert!(!seat.waits(CHECKS).await);
    let (job, _) = seat.until(MINUTE, alice.builder.next()).await;
    assert_eq!((job.kind(), job.deliveries()), (&Kind::Check, 2));
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_of_the_plans_and_the_check_or_of_the_fault() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    seat.builds("plan-7").await;
    seat.ask(CHECKS, AFTER).await;
    let _job = alice.builder.try_next().await.expect("it is old enough");
    let wire = seat.wire();
    let store: Arc<dyn Store> = Arc::new(wire.clone());
    let (buckets, policy) = (Buckets::default(), policy().await);
    let read = || status(policy, &store, &buckets, &seat.clock);
    let report = read().await?;
    assert_eq!(report.plans, ["plan-12", "plan-7"]);
    let check = report.let_through.expect("one is let through");
    assert_eq!((check.builder.as_str(), check.since.as_str()), ("alice", "2027-01-15T09:00:00Z"));
    for (what, bucket) in [(What::Keys, PLANS), (What::Get, RUNNING), (What::Open, RUNNING)] {
        wire.always(what, bucket, Fate::Fails(away()));
        let why = read().await.expect_err("it cannot be read");
        assert!(matches!(why, HoldsError::Store(Fault::Unavailable(_))), "{what:?}: {why}");
        wire.heal();
    }
    Ok(())
}
