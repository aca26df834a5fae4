//! The one check let through while a delivery builds: which one, when, and under whose key.

use std::time::Duration;

use incumbent::holds::{Job, Kind, LET_THROUGH, RUNNING};
use incumbent::store::queue::QueueConfig;
use incumbent::store::{Fault, Reading, Store as _};
use incumbent_tests::site::{AFTER, CHECKS, DELIVERIES, Fate, GROUPS, Seat, Stand, What, away, found};
use tokio::sync::oneshot;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A seat on which plan-12 builds.
async fn held() -> Seat {
    let seat = Seat::new().await;
    seat.builds("plan-12").await;
    seat
}

async fn job(stand: &Stand) -> Job {
    stand.builder.try_next().await.expect("a job that may run")
}

fn is_let_through(job: &Job) -> bool {
    matches!(job.kind(), Kind::LetThrough { .. })
}

#[tokio::test(start_paused = true)]
async fn a_check_is_let_through_at_half_an_hour_and_not_a_millisecond_earlier() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER - MS).await;
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!((seat.key().await, alice.wire.count(What::Take, CHECKS)), (Reading::Absent, 0));
    seat.pass(MS).await;
    let job = job(&alice).await;
    assert_eq!((job.kind().to_string().as_str(), job.queue()), ("let-through", CHECKS));
    assert_eq!(alice.said.troubles(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_key_holds_the_builder_and_since_when_in_these_very_bytes() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let job = job(&alice).await;
    let since = "2027-01-15T09:00:00Z";
    assert_eq!(job.kind(), &Kind::LetThrough { since: since.into() });
    let key = found(seat.key().await).value;
    assert_eq!(String::from_utf8_lossy(&key), format!(r#"{{"builder":"alice","since":"{since}"}}"#));
}

/// A quarter of the shortest ack wait, of which what it brings has most left then.
#[tokio::test(start_paused = true)]
async fn one_that_was_snatched_away_is_waited_for_a_quarter_of_its_ack_wait() -> anyhow::Result<()> {
    let seat = held().await;
    let quick = QueueConfig { ack_wait: 4 * SECOND, replicas: 1 };
    seat.memory.create_queue("quick", &quick).await?;
    let alice = seat.builder_with("alice", |options| options.checks = vec!["quick".into()]).await?;
    seat.ask("quick", AFTER).await;
    let queue = seat.queue("quick").await;
    alice.wire.before(What::Take, "quick", async move {
        std::mem::forget(queue.take(Duration::ZERO).await);
    });
    let (job, took) = seat.until(10 * SECOND, alice.builder.try_next()).await;
    assert_eq!((job.is_none(), took), (true, SECOND));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_the_queues_is_the_one_let_through() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER + SECOND).await;
    let oldest = seat.ask(GROUPS, AFTER + SECOND + MS).await;
    let job = job(&alice).await;
    assert_eq!((job.queue(), job.ask().sequence), (GROUPS, oldest));
    assert_eq!(alice.wire.count(What::Take, CHECKS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_goes_before_a_check_that_may_be_let_through() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, 2 * AFTER).await;
    seat.ask(DELIVERIES, Duration::ZERO).await;
    assert_eq!(job(&alice).await.kind(), &Kind::Delivery);
    assert_eq!(seat.key().await, Reading::Absent);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_is_let_through() -> anyhow::Result<()> {
    let seat = held().await;
    let (alice, bob) = (seat.builder("alice").await, seat.builder("bob").await);
    for queue in [CHECKS, CHECKS, GROUPS] {
        seat.ask(queue, AFTER).await;
    }
    let first = job(&alice).await;
    let key = found(seat.key().await);
    for stand in [&alice, &bob] {
        assert!(stand.builder.try_next().await.is_none());
        assert_eq!(stand.said.troubles(), [""; 0]);
    }
    assert_eq!(found(seat.key().await), key);
    first.done().await?;
    assert_eq!(seat.key().await, Reading::Deleted(key.revision + 1));
    assert!(is_let_through(&job(&bob).await));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_when_the_check_is_done() -> anyhow::Result<()> {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let job = job(&alice).await;
    let key = found(seat.key().await);
    job.done().await?;
    assert_eq!(seat.key().await, Reading::Deleted(key.revision + 1));
    assert_eq!(seat.left(CHECKS).await, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_when_the_check_is_handed_back() -> anyhow::Result<()> {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    job(&alice).await.hand_back(10 * SECOND).await?;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    seat.pass(10 * SECOND - MS).await;
    assert!(alice.builder.try_next().await.is_none());
    seat.pass(MS).await;
    let again = job(&alice).await;
    assert_eq!((is_let_through(&again), again.deliveries()), (true, 2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_and_the_check_is_handed_back_when_its_job_is_dropped_or_panics() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    drop(job(&alice).await);
    seat.settle().await;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    let second = job(&alice).await;
    assert_eq!((is_let_through(&second), second.deliveries()), (true, 2));
    let run = tokio::spawn(async move {
        let _job = second;
        panic!("the check's runner has a bug");
    });
    assert!(run.await.is_err_and(|why| why.is_panic()));
    seat.settle().await;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    assert_eq!(job(&alice).await.deliveries(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_younger_check_that_came_instead_is_handed_back_and_the_key_goes() -> anyhow::Result<()> {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    let oldest = seat.ask(CHECKS, AFTER).await;
    let younger = seat.ask(CHECKS, AFTER - MS).await;
    // Another taker is faster between the look and the fetch.
    let (queue, (tell, told)) = (seat.queue(CHECKS).await, oneshot::channel());
    alice.wire.before(What::Take, CHECKS, async move {
        drop(tell.send(queue.take(Duration::ZERO).await));
    });
    assert!(alice.builder.try_next().await.is_none());
    let faster = told.await??.expect("the oldest waited");
    assert_eq!(faster.ask().sequence, oldest);
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    assert_eq!(alice.wire.count(What::HandBack, CHECKS), 1);
    // It stays away for a moment, so that an older one behind it would be reached.
    assert!(!seat.waits(CHECKS).await);
    seat.pass(5 * SECOND).await;
    faster.done().await?;
    let job = job(&alice).await;
    assert_eq!((is_let_through(&job), job.ask().sequence, job.deliveries()), (true, younger, 2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_when_somebody_was_faster_and_nothing_came() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let queue = seat.queue(CHECKS).await;
    alice.wire.before(What::Take, CHECKS, async move { drop(queue.take(Duration::ZERO).await) });
    let (none, took) = seat.until(5 * SECOND, alice.builder.try_next()).await;
    assert!(none.is_none() && took <= 2 * SECOND, "{took:?}");
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_when_the_queue_cannot_be_taken_from() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    alice.wire.always(What::Take, CHECKS, Fate::Fails(away()));
    for _ in 0..3 {
        assert!(alice.builder.try_next().await.is_none());
        assert!(matches!(seat.key().await, Reading::Deleted(_)));
    }
    assert_eq!(alice.said.troubles(), ["no check can be let through: no connection"]);
    alice.wire.heal();
    assert!(is_let_through(&job(&alice).await));
}

#[tokio::test(start_paused = true)]
async fn a_creation_whose_answer_was_lost_is_found_again() -> anyhow::Result<()> {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    alice.wire.once(What::Create, RUNNING, Fate::AnswerLost);
    let job = job(&alice).await;
    assert!(is_let_through(&job));
    job.done().await?;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    assert_eq!(alice.said.troubles(), [""; 0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_stays_unknown_lets_nothing_through_until_it_ages_out() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    alice.wire.once(What::Create, RUNNING, Fate::AnswerLost);
    alice.wire.once(What::Get, RUNNING, Fate::Fails(away()));
    assert!(alice.builder.try_next().await.is_none());
    let key = found(seat.key().await);
    assert_eq!(alice.wire.count(What::Take, CHECKS), 0);
    assert_eq!(alice.said.troubles().len(), 1);
    seat.pass(119 * SECOND).await;
    seat.has_built("plan-12").await;
    seat.builds("plan-13").await;
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(found(seat.key().await), key);
    seat.pass(SECOND).await;
    assert!(is_let_through(&job(&alice).await));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_unknown_making_is_left_alone() -> anyhow::Result<()> {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let running = seat.bucket(RUNNING).await;
    running.create(LET_THROUGH, b"hello").await?;
    let key = found(seat.key().await);
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(found(seat.key().await), key);
    assert_eq!((alice.wire.count(What::Take, CHECKS), alice.said.troubles().len()), (0, 0));
    running.delete(LET_THROUGH, key.revision, None).await?;
    assert!(is_let_through(&job(&alice).await));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_next_that_is_dropped_under_the_key_leaves_neither_key_nor_ask_behind() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let (go_on, gone_on) = oneshot::channel::<()>();
    alice.wire.before(What::Take, CHECKS, async move { drop(gone_on.await) });
    let builder = alice.builder.clone();
    let next = tokio::spawn(async move { builder.next().await });
    seat.settle().await;
    assert!(matches!(seat.key().await, Reading::Found(_)) && !next.is_finished());
    next.abort();
    seat.settle().await;
    go_on.send(()).expect("it is waited for");
    seat.settle().await;
    assert!(matches!(seat.key().await, Reading::Deleted(_)), "{:?}", seat.key().await);
    assert!(seat.waits(CHECKS).await);
}

#[tokio::test(start_paused = true)]
async fn a_builder_without_access_to_the_key_lets_nothing_through_and_says_so_once() {
    let seat = held().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, AFTER).await;
    let denied = Fault::Denied("no permission".into());
    for what in [What::Open, What::Info, What::Create] {
        alice.wire.always(what, RUNNING, Fate::Fails(denied.clone()));
        for _ in 0..3 {
            assert!(alice.builder.try_next().await.is_none());
        }
        assert_eq!(alice.said.troubles(), ["no check can be let through: no permission"], "{what:?}");
        // Deliveries go on.
        seat.ask(DELIVERIES, Duration::ZERO).await;
        job(&alice).await.done().await.expect("it is alice's");
        if what != What::Create {
            alice.wire.heal();
        }
    }
    assert_eq!((alice.wire.count(What::Take, CHECKS), seat.key().await), (0, Reading::Absent));
    alice.wire.heal();
    let first = job(&alice).await;
    // It recovered, so it is said again when it fails anew.
    drop(first);
    seat.settle().await;
    alice.wire.always(What::Create, RUNNING, Fate::Fails(denied));
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(alice.said.troubles().len(), 2);
}
