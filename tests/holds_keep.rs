//! A job while it runs: kept in time, told when it is not, and nobody else's key is ever touched.

use std::sync::Arc;
use std::time::Duration;

use incumbent::clock::Steady;
use incumbent::holds::{Job, Kind, LET_THROUGH, Lost, RUNNING, TTL};
use incumbent::store::{BucketConfig, Fault, Reading, Store as _};
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
        let (before, until) = (writes(), job.until());
        assert!(job.lost_token().is_cancelled());
        // It takes its time to end, and does not so much as try to write. Nor may it run for longer, though its ask is
        // kept meanwhile.
        seat.pass(ACK_WAIT).await;
        assert_eq!(job.until(), until);
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
    // No other builder has it yet, and from this very instant on one may: nothing is said of it any more.
    assert!(!seat.waits(CHECKS).await);
    alice.wire.heal();
    assert!(matches!(job.hand_back(Duration::ZERO).await, Err(Fault::Denied(_))));
    assert_eq!(alice.wire.count(What::HandBack, CHECKS), 0);
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

/// A delivery that runs on alice's builder.
async fn delivery(seat: &Seat) -> (Stand, Job) {
    let alice = seat.builder("alice").await;
    seat.ask(DELIVERIES, Duration::ZERO).await;
    let job = alice.builder.try_next().await.expect("a delivery");
    (alice, job)
}

/// The next of these takes this long on its way there.
fn slow(stand: &Stand, what: What, place: &str, by: Duration) {
    // From then on, and not from now.
    stand.wire.before(what, place, async move { tokio::time::sleep(by).await });
}

#[tokio::test(start_paused = true)]
async fn an_ask_is_kept_from_when_its_queue_was_asked_or_told_and_not_from_the_answer() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    for (queue, kind) in [(DELIVERIES, Kind::Delivery), (CHECKS, Kind::Check)] {
        seat.ask(queue, Duration::ZERO).await;
        slow(&alice, What::Take, queue, 3 * SECOND);
        let began = seat.clock.now();
        let (job, took) = seat.until(MINUTE, alice.builder.try_next()).await;
        let job = job.expect("one waits");
        assert_eq!((job.kind(), took), (&kind, 3 * SECOND));
        assert_eq!(job.until(), began.plus(sure(ACK_WAIT)));

        slow(&alice, What::Working, queue, 3 * SECOND);
        let told = seat.clock.now().plus(ACK_WAIT / 4);
        seat.pass(ACK_WAIT / 4 + 3 * SECOND).await;
        assert_eq!(job.until(), told.plus(sure(ACK_WAIT)));
        job.done().await.expect("it is this builder's");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_let_through_is_kept_from_when_its_queue_was_asked() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.builds("plan-12").await;
    seat.ask(CHECKS, AFTER).await;
    slow(&alice, What::Take, CHECKS, SECOND);
    let began = seat.clock.now();
    let (job, _) = seat.until(MINUTE, alice.builder.try_next()).await;
    assert_eq!(job.expect("it is old enough").until(), began.plus(sure(ACK_WAIT)));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_lives_shorter_than_an_ask_is_written_in_its_own_time() -> anyhow::Result<()> {
    let ttl = 20 * SECOND;
    let seat = Seat::new().await;
    seat.memory.drop_bucket(RUNNING);
    seat.memory.create_bucket(RUNNING, &BucketConfig { ttl, replicas: 1 }).await?;
    let (alice, job) = let_through(&seat).await;
    seat.pass(MINUTE).await;
    assert_eq!((job.why_lost(), alice.wire.count(What::Update, RUNNING)), (None, 12));
    // From when it was sent.
    slow(&alice, What::Update, RUNNING, 3 * SECOND);
    let sent = seat.clock.now().plus(ttl / 4);
    seat.pass(ttl / 4 + 3 * SECOND).await;
    assert_eq!(job.until(), sent.plus(sure(ttl)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_never_answered_does_not_keep_the_queue_from_being_told() {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    alice.wire.always(What::Update, RUNNING, Fate::Hangs);
    seat.pass(MINUTE).await;
    assert_eq!(job.why_lost(), None);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_could_not_be_written_is_written_again_sooner_though_the_queue_was_told() {
    let seat = Seat::new().await;
    let (alice, _job) = let_through(&seat).await;
    alice.wire.always(What::Update, RUNNING, Fate::Fails(away()));
    let every = ACK_WAIT / 4;
    seat.pass(every + every / 5).await;
    assert_eq!(alice.wire.count(What::Update, RUNNING), 2);
}

/// Its queue does not know whose word it hears.
#[tokio::test(start_paused = true)]
async fn of_an_ask_that_may_be_anothers_its_queue_is_told_nothing() {
    let seat = Seat::new().await;
    let (alice, job) = delivery(&seat).await;
    alice.wire.always(What::Working, DELIVERIES, Fate::Fails(away()));
    let mut untils = job.untils();
    untils.mark_unchanged();
    seat.until(ACK_WAIT, job.lost()).await;
    // What does not move is not told: a guardian would cut the grace by it.
    assert_eq!((seat.clock.now(), untils.has_changed().ok()), (job.until(), Some(false)));
    alice.wire.heal();
    let told = || [What::Working, What::HandBack].map(|what| alice.wire.count(what, DELIVERIES));
    let before = told();
    seat.pass(3 * SECOND).await;
    drop(job);
    seat.settle().await;
    assert_eq!(told(), before);
}

#[tokio::test(start_paused = true)]
async fn of_a_job_that_is_left_nobody_is_told() {
    let seat = Seat::new().await;
    let (alice, job) = let_through(&seat).await;
    job.leave();
    seat.pass(ACK_WAIT - SECOND).await;
    assert_eq!((alice.wire.count(What::HandBack, CHECKS), alice.wire.count(What::Delete, RUNNING)), (0, 0));
    assert!(!seat.waits(CHECKS).await);
    seat.pass(SECOND).await;
    assert!(seat.waits(CHECKS).await && matches!(seat.key().await, Reading::Found(_)));
    seat.pass(TTL).await;
    assert!(matches!(seat.key().await, Reading::Aged(_)));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_keeper_panicked_is_lost() {
    let seat = Seat::new().await;
    let told = |_: &_| panic!("whoever is told of events has a bug");
    let alice = seat.builder_with("alice", |options| options.on_event = Arc::new(told)).await;
    let alice = alice.expect("it fits");
    seat.ask(DELIVERIES, Duration::ZERO).await;
    let job = alice.builder.try_next().await.expect("a delivery");
    alice.wire.always(What::Working, DELIVERIES, Fate::Fails(away()));
    let (_, took) = seat.until(ACK_WAIT, job.lost()).await;
    assert!(took < ACK_WAIT / 2, "{took:?}");
    assert_eq!(job.why_lost(), Some(Lost::Overdue("its keeper panicked".into())));
}

#[tokio::test(start_paused = true)]
async fn a_builder_is_closed_once_what_a_look_took_is_handed_back() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, Duration::ZERO).await;
    slow(&alice, What::Take, CHECKS, SECOND);
    slow(&alice, What::HandBack, CHECKS, SECOND);
    let builder = Arc::into_inner(alice.builder).expect("nobody else has it");
    assert!(tokio::time::timeout(Duration::ZERO, builder.try_next()).await.is_err());
    let ((), took) = seat.until(MINUTE, builder.close()).await;
    assert_eq!((took, seat.waits(CHECKS).await), (2 * SECOND, true));
}
