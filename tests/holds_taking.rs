//! What a builder takes: deliveries first, checks while nothing builds, and nothing is lost or runs twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use incumbent::holds::{Event, Job, Kind, PLANS};
use incumbent::store::Reading;
use incumbent_tests::site::{ACK_WAIT, CHECKS, DELIVERIES, GROUPS, Seat, Stand, What, builds};
use tokio::sync::oneshot;

const MINUTE: Duration = Duration::from_secs(60);

/// The next job, which is there now.
async fn job(stand: &Stand) -> Job {
    stand.builder.try_next().await.expect("a job that may run")
}

#[tokio::test(start_paused = true)]
async fn deliveries_come_before_checks_that_waited_longer() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, 50 * MINUTE).await;
    let first = seat.ask(DELIVERIES, Duration::ZERO).await;
    let second = seat.ask(DELIVERIES, Duration::ZERO).await;
    for sequence in [first, second] {
        let delivery = job(&alice).await;
        assert_eq!((delivery.kind(), delivery.queue()), (&Kind::Delivery, DELIVERIES));
        assert_eq!((delivery.ask().sequence, delivery.deliveries()), (sequence, 1));
        delivery.done().await?;
    }
    let check = job(&alice).await;
    assert_eq!((check.kind(), check.queue()), (&Kind::Check, CHECKS));
    check.done().await?;
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(seat.left(DELIVERIES).await + seat.left(CHECKS).await, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn checks_are_taken_from_the_queues_in_turn() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    for queue in [CHECKS, CHECKS, CHECKS, CHECKS, GROUPS, GROUPS] {
        seat.ask(queue, MINUTE).await;
    }
    let mut order = Vec::new();
    while let Some(job) = alice.builder.try_next().await {
        order.push(job.queue().to_owned());
        job.done().await?;
    }
    assert_eq!(order, [CHECKS, GROUPS, CHECKS, GROUPS, CHECKS, CHECKS]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn while_a_plan_builds_deliveries_are_taken_and_checks_wait() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    seat.ask(GROUPS, MINUTE).await;
    seat.builds("plan-12").await;
    assert!(alice.builder.try_next().await.is_none());
    seat.ask(DELIVERIES, Duration::ZERO).await;
    let delivery = job(&alice).await;
    assert_eq!(delivery.kind(), &Kind::Delivery);
    assert!(alice.builder.try_next().await.is_none());
    // They were not so much as touched.
    assert_eq!((alice.wire.count(What::Take, CHECKS), alice.wire.count(What::Take, GROUPS)), (0, 0));
    delivery.done().await?;
    seat.has_built("plan-12").await;
    assert_eq!(job(&alice).await.deliveries(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_said_no_more_holds_checks_until_it_ages_out() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    seat.builds("plan-12").await;
    let (job, took) = seat.until(3 * MINUTE, alice.builder.next()).await;
    assert_eq!(job.kind(), &Kind::Check);
    let poll = Duration::from_secs(1);
    assert!(took >= 2 * MINUTE && took <= 2 * MINUTE + poll, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_no_plan_holds_no_check() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    let plans = seat.bucket(PLANS).await;
    for key in ["plan-", "plan-12x", "plan-١٢", "Plan-12", "plan 12", "12", "let-through", "plan-12.old"] {
        plans.create(key, b"{}").await.expect("memory takes it");
    }
    seat.ask(CHECKS, MINUTE).await;
    assert_eq!(job(&alice).await.kind(), &Kind::Check);
    assert_eq!(alice.said.all(), []);
}

#[tokio::test(start_paused = true)]
async fn a_check_taken_just_as_a_plan_begins_is_handed_back_and_not_run() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    let check = seat.ask(CHECKS, MINUTE).await;
    let memory = seat.memory.clone();
    alice.wire.before(What::Take, CHECKS, async move { builds(&memory, "plan-12").await });
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(alice.wire.count(What::Take, CHECKS), 1);
    // It waits as before, and may be taken at once when the plan has built.
    assert!(seat.waits(CHECKS).await);
    assert!(alice.builder.try_next().await.is_none());
    seat.has_built("plan-12").await;
    let job = job(&alice).await;
    assert_eq!((job.ask().sequence, job.deliveries()), (check, 2));
    assert_eq!(alice.said.troubles(), [""; 0]);
    job.done().await?;
    Ok(())
}

/// A word for an ask that may be the next taker's would take it from that one.
#[tokio::test(start_paused = true)]
async fn a_check_is_handed_back_only_while_it_is_surely_this_builders() {
    for (looking, handed_back) in [(SURE - Duration::from_millis(1), 1), (SURE, 0)] {
        let seat = Seat::new().await;
        let alice = seat.builder("alice").await;
        seat.ask(CHECKS, MINUTE).await;
        let (go_on, gone_on) = oneshot::channel::<()>();
        let (wire, memory) = (alice.wire.clone(), seat.memory.clone());
        alice.wire.before(What::Take, CHECKS, async move {
            builds(&memory, "plan-12").await;
            wire.before(What::Keys, PLANS, async move { drop(gone_on.await) });
        });
        let builder = alice.builder.clone();
        let look = tokio::spawn(async move { builder.try_next().await.is_none() });
        seat.pass(looking).await;
        assert!(!look.is_finished());
        go_on.send(()).expect("it is waited for");
        seat.settle().await;
        assert!(look.await.expect("no panic"));
        assert_eq!(alice.wire.count(What::HandBack, CHECKS), handed_back, "{looking:?}");
    }
}

/// For so long an ask is surely its taker's: a fifth less than its queue keeps it.
const SURE: Duration = Duration::from_secs(ACK_WAIT.as_secs() * 4 / 5);

#[tokio::test(start_paused = true)]
async fn while_a_delivery_is_waited_for_checks_are_looked_at_a_quarter_of_its_ack_wait_later() {
    let seat = Seat::new().await;
    let alice = seat.builder_with("alice", |options| options.poll = MINUTE).await.expect("it fits");
    let builder = alice.builder.clone();
    let next = tokio::spawn(async move { builder.next().await });
    seat.pass(Duration::from_millis(1)).await;
    seat.ask(CHECKS, Duration::ZERO).await;
    seat.pass(ACK_WAIT / 4 - Duration::from_millis(2)).await;
    assert!(!next.is_finished());
    seat.pass(Duration::from_millis(1)).await;
    assert!(next.is_finished());
}

#[tokio::test(start_paused = true)]
async fn held_and_free_are_said_when_they_change() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    let look = || alice.builder.try_next();
    for _ in 0..3 {
        assert!(look().await.is_none());
    }
    assert_eq!(alice.said.all(), []);
    seat.builds("plan-12").await;
    assert!(look().await.is_none());
    seat.builds("plan-13").await;
    assert!(look().await.is_none());
    let held = Event::Held { plans: vec!["plan-12".into()] };
    assert_eq!(alice.said.all(), std::slice::from_ref(&held));
    seat.has_built("plan-12").await;
    assert!(look().await.is_none());
    seat.has_built("plan-13").await;
    for _ in 0..3 {
        assert!(look().await.is_none());
    }
    assert_eq!(alice.said.all(), [held, Event::Free]);
    let words: Vec<_> = alice.said.all().iter().map(ToString::to_string).collect();
    assert_eq!(words, ["checks wait: plan-12 builds", "checks are taken as usual"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_handed_back_is_given_again_after_the_delay_and_not_before() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    job(&alice).await.hand_back(MINUTE).await?;
    seat.pass(MINUTE - Duration::from_millis(1)).await;
    assert!(alice.builder.try_next().await.is_none());
    seat.pass(Duration::from_millis(1)).await;
    assert_eq!(job(&alice).await.deliveries(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_dropped_or_panics_is_handed_back_at_once() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    drop(job(&alice).await);
    seat.settle().await;
    assert!(seat.waits(CHECKS).await);
    let second = job(&alice).await;
    assert_eq!(second.deliveries(), 2);
    let run = tokio::spawn(async move {
        let _job = second;
        panic!("the check's runner has a bug");
    });
    assert!(run.await.is_err_and(|why| why.is_panic()));
    seat.settle().await;
    assert_eq!(job(&alice).await.deliveries(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_comes_while_nothing_is_there_is_taken_at_once() {
    let seat = Seat::new().await;
    let alice = seat.builder_with("alice", |options| options.poll = MINUTE).await.expect("it fits");
    let builder = alice.builder.clone();
    let next = tokio::spawn(async move { builder.next().await });
    seat.pass(Duration::from_secs(1)).await;
    seat.ask(DELIVERIES, Duration::ZERO).await;
    seat.settle().await;
    assert!(next.is_finished());
}

/// The last thing that a look does before it has its job is to look for plans once more.
#[tokio::test(start_paused = true)]
async fn a_next_that_is_dropped_with_a_check_in_its_hands_hands_it_back() {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    seat.ask(CHECKS, MINUTE).await;
    let (go_on, gone_on) = oneshot::channel::<()>();
    let wire = alice.wire.clone();
    alice.wire.before(What::Take, CHECKS, async move {
        wire.before(What::Keys, PLANS, async move { drop(gone_on.await) });
    });
    let builder = alice.builder.clone();
    let next = tokio::spawn(async move { builder.next().await });
    seat.settle().await;
    assert!(!seat.waits(CHECKS).await && !next.is_finished());
    next.abort();
    seat.settle().await;
    go_on.send(()).expect("it is waited for");
    seat.settle().await;
    assert!(seat.waits(CHECKS).await);
    assert_eq!(job(&alice).await.deliveries(), 2);
}

#[tokio::test(start_paused = true)]
async fn builders_at_work_together_run_each_ask_once() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let ran = Arc::new(Mutex::new(BTreeMap::<(String, u64), Vec<u64>>::new()));
    let mut at_work = Vec::new();
    for who in ["alice", "bob", "carol"] {
        let (builder, ran) = (seat.builder(who).await.builder, ran.clone());
        at_work.push(tokio::spawn(async move {
            loop {
                let job = builder.next().await;
                let which = (job.queue().to_owned(), job.ask().sequence);
                ran.lock().expect("no panic").entry(which).or_default().push(job.deliveries());
                tokio::time::sleep(Duration::from_millis(300)).await;
                job.done().await.expect("it is this builder's");
            }
        }));
    }
    for round in 0..20 {
        for queue in [DELIVERIES, CHECKS, GROUPS] {
            seat.ask(queue, MINUTE).await;
        }
        // Plans come and go.
        if round % 3 == 0 {
            seat.builds("plan-12").await;
        } else {
            seat.has_built("plan-12").await;
        }
        seat.pass(Duration::from_millis(400)).await;
    }
    seat.has_built("plan-12").await;
    seat.pass(MINUTE).await;
    for task in &at_work {
        assert!(!task.is_finished());
        task.abort();
    }
    let ran = ran.lock().expect("no panic").clone();
    assert_eq!(ran.len(), 60);
    let twice: Vec<_> = ran.iter().filter(|(_, runs)| runs.len() != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(seat.left(DELIVERIES).await + seat.left(CHECKS).await + seat.left(GROUPS).await, 0);
    assert_eq!(seat.key().await, Reading::Absent);
    Ok(())
}
