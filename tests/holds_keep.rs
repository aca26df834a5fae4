//! A job while it runs: kept in time, told when it is not, and nobody else's key is ever touched.

use std::time::Duration;

use incumbent::clock::Steady;
use incumbent::holds::{Job, Kind, LET_THROUGH, Lost, RUNNING, TTL};
use incumbent::store::{Fault, Reading};
use incumbent_tests::site::{ACK_WAIT, AFTER, CHECKS, DELIVERIES, Fate, Seat, Stand, What, away, found};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// How long something is surely kept after the last word: a fifth less than its store keeps it.
fn sure(ttl: Duration) -> Duration {
    ttl - ttl / 5
}

/// Alice runs a check that was let through; the plan that held it is gone by the time a minute passed.
async fn let_through(seat: &Seat) -> (Stand, Job) {
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    seat.ask(CHECKS, AFTER).await;
    let job = alice.builder.try_next().await.expect("it is old enough");
    assert!(matches!(job.kind(), Kind::LetThrough { .. }));
    seat.has_built("plan-12").await;
    (alice, job)
}

/// Bob lets another check through.
async fn bobs(seat: &Seat) -> (Stand, Job) {
    let bob = seat.builder("bob").await;
    seat.builds("plan-13").await;
    seat.ask(CHECKS, AFTER).await;
    let job = bob.builder.try_next().await.expect("the key is free");
    assert!(matches!(job.kind(), Kind::LetThrough { .. }));
    (bob, job)
}

#[tokio::test(start_paused = true)]
async fn a_check_let_through_is_kept_for_as_long_as_it_runs() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    let bob = seat.builder("bob").await;
    let key = found(seat.key().await);
    let began = seat.clock.now();
    let (mut until, mut revision) = (job.until(), key.revision);
    assert_eq!(until, began.plus(sure(ACK_WAIT)));
    for _ in 0..6 {
        seat.pass(MINUTE).await;
        let now = found(seat.key().await);
        assert!(now.revision > revision && job.until() > until && job.until() > seat.clock.now());
        // `since` stays, and with it every byte.
        assert_eq!(now.value, key.value);
        (until, revision) = (job.until(), now.revision);
        assert!(bob.builder.try_next().await.is_none());
    }
    assert!(seat.clock.now().since(began) > 2 * TTL);
    assert_eq!(job.why_lost(), None);
    job.done().await?;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    assert_eq!(seat.left(CHECKS).await, 0);
    assert_eq!(alice.said.troubles(), [""; 0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_kept_for_as_long_as_it_runs() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, bob) = (seat.builder("alice").await, seat.builder("bob").await);
    seat.ask(DELIVERIES, Duration::ZERO).await;
    let job = alice.builder.try_next().await.expect("a delivery");
    for _ in 0..4 {
        seat.pass(ACK_WAIT).await;
        assert!(bob.builder.try_next().await.is_none());
        assert!(job.until() > seat.clock.now());
    }
    job.done().await?;
    assert_eq!(seat.left(DELIVERIES).await, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_check_whose_key_is_anothers_is_told_and_leaves_that_key_alone() -> anyhow::Result<()> {
    for ending in ["done", "hand_back", "dropped"] {
        let seat = Seat::new().await;
        let (alice, job) = let_through(&seat).await;
        let mine = found(seat.key().await);
        seat.bucket(RUNNING).await.delete(LET_THROUGH, mine.revision, None).await?;
        let (_bob, bobs_job) = bobs(&seat).await;
        // At the next beat.
        seat.until(ACK_WAIT / 4 + SECOND, job.lost()).await;
        assert_eq!(job.why_lost(), Some(Lost::Key));
        let bobs = found(seat.key().await);
        assert_ne!(bobs.value, mine.value);
        let writes = || [What::Update, What::Delete].map(|what| alice.wire.count(what, RUNNING));
        let before = writes();
        // It takes its time to end, and does not so much as try to write.
        seat.pass(ACK_WAIT).await;
        let bobs = found(seat.key().await);
        match ending {
            "done" => job.done().await?,
            "hand_back" => job.hand_back(Duration::ZERO).await?,
            _ => drop(job),
        }
        seat.settle().await;
        assert_eq!(found(seat.key().await), bobs, "{ending}");
        assert_eq!(writes(), before);
        assert_eq!(alice.said.troubles(), [""; 0]);
        seat.pass(TTL).await;
        assert_eq!(bobs_job.why_lost(), None);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_check_whose_key_is_gone_is_told_and_does_not_make_it_again() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (_alice, job) = let_through(&seat).await;
    let mine = found(seat.key().await);
    seat.bucket(RUNNING).await.delete(LET_THROUGH, mine.revision, None).await?;
    seat.until(ACK_WAIT / 4 + SECOND, job.lost()).await;
    assert_eq!(job.why_lost(), Some(Lost::Key));
    seat.pass(2 * MINUTE).await;
    assert_eq!(seat.key().await, Reading::Deleted(mine.revision + 1));
    // Its ask is kept all the same, until it has ended.
    job.done().await?;
    assert_eq!(seat.left(CHECKS).await, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_kept_ages_out_and_the_next_holder_is_left_alone() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    alice.wire.always(What::Update, RUNNING, Fate::Fails(away()));
    let until = seat.clock.now().plus(sure(TTL));
    let (_, took) = seat.until(TTL, job.lost()).await;
    // In time, though its queue was told all along; and not earlier.
    assert_eq!((seat.clock.now(), took), (until, sure(TTL)));
    let why = Lost::Overdue("the let-through key was not written in time".into());
    assert_eq!(job.why_lost(), Some(why.clone()));
    seat.pass(TTL - sure(TTL)).await;
    assert!(matches!(seat.key().await, Reading::Aged(_)));
    let (_bob, bobs_job) = bobs(&seat).await;
    let value = found(seat.key().await).value;
    // Alice reaches the store again; the first reason stays the one that is told.
    alice.wire.heal();
    seat.pass(ACK_WAIT).await;
    assert_eq!(job.why_lost(), Some(why));
    let bobs = found(seat.key().await);
    job.done().await?;
    assert_eq!(found(seat.key().await), bobs);
    assert_eq!((bobs.value, bobs_job.why_lost()), (value, None));
    assert_eq!(alice.said.troubles(), ["the let-through key cannot be kept: no connection"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_builder_that_slept_past_its_key_neither_writes_nor_deletes_the_next_ones() {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    let updates = alice.wire.count(What::Update, RUNNING);
    // The clock goes on, alice does not.
    seat.clock.advance(TTL);
    let (bob, bobs_job) = bobs(&seat).await;
    let bobs = found(seat.key().await);
    assert_eq!(alice.wire.count(What::Update, RUNNING), updates);
    // Bob was given the ask too; she wakes to that, and to his key.
    assert!(job.done().await.is_err_and(|why| matches!(why, Fault::Denied(_))));
    assert_eq!(found(seat.key().await), bobs);
    assert_eq!(bobs_job.why_lost(), None);
    assert_eq!(bob.said.troubles(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_queue_cannot_be_told_is_overdue_at_its_until_and_not_later() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    let job = alice.builder.try_next().await.expect("a check");
    seat.pass(10 * SECOND).await;
    let until = job.until();
    assert_eq!(until, Steady(3_600_000_000_000).plus(ACK_WAIT / 4 + sure(ACK_WAIT)));
    for fate in [Fate::Fails(away()), Fate::Hangs] {
        alice.wire.always(What::Working, CHECKS, fate);
    }
    assert_eq!(job.why_lost(), None);
    seat.until(ACK_WAIT, job.lost()).await;
    assert_eq!((seat.clock.now(), job.until()), (until, until));
    assert_eq!(job.why_lost(), Some(Lost::Overdue("its queue was not told in time".into())));
    // No other builder has it yet.
    assert!(!seat.waits(CHECKS).await);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_reached_again_in_time_keeps_the_job() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    let job = alice.builder.try_next().await.expect("a check");
    alice.wire.always(What::Working, CHECKS, Fate::Fails(away()));
    seat.pass(sure(ACK_WAIT) - 2 * SECOND).await;
    alice.wire.heal();
    seat.pass(MINUTE).await;
    assert_eq!(job.why_lost(), None);
    assert_eq!(alice.said.troubles(), ["the queue cannot be told that a job runs: no connection"]);
}

#[tokio::test(start_paused = true)]
async fn a_keeping_whose_answer_was_lost_keeps_the_key() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    let first = found(seat.key().await);
    alice.wire.once(What::Update, RUNNING, Fate::AnswerLost);
    seat.pass(3 * MINUTE).await;
    assert_eq!(job.why_lost(), None);
    assert_eq!(found(seat.key().await).value, first.value);
    job.done().await?;
    assert!(matches!(seat.key().await, Reading::Deleted(_)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_at_the_end_though_the_last_keeping_was_not_answered() -> anyhow::Result<()> {
    for fate in [Fate::AnswerLost, Fate::Fails(away())] {
        let seat = Seat::new().await;
        let (alice, job) = let_through(&seat).await;
        alice.wire.once(What::Update, RUNNING, fate);
        seat.pass(ACK_WAIT / 4).await;
        assert_eq!(alice.wire.count(What::Update, RUNNING), 1);
        job.done().await?;
        assert!(matches!(seat.key().await, Reading::Deleted(_)));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_within_a_bound_on_a_store_that_never_answers() {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    alice.wire.always(What::Done, CHECKS, Fate::Hangs);
    alice.wire.always(What::Delete, RUNNING, Fate::Hangs);
    let (done, _) = seat.until(MINUTE, job.done()).await;
    assert!(done.is_err_and(|why| matches!(why, Fault::Unknown(_))));
    assert_eq!(
        alice.said.troubles(),
        ["the let-through key cannot be dropped, and ages out: no answer in time"]
    );
}
