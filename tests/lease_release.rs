//! Giving a lease back.

use std::sync::Arc;
use std::time::Duration;

use incumbent::lease::{Ended, Event, LeaseError, NotHeld, Released};
use incumbent::limits::RELEASE;
use incumbent::store::{Fault, Reading};
use incumbent::{Lease, LeaseOptions, Vacancy};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{LEASE, RENEW, TTL, World};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What a wake-up takes at the most.
const AT_ONCE: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_finished() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;

    assert_eq!(alice.lease.release().await, Released::GivenBack);

    assert!(matches!(world.record().await, Reading::Deleted(_)));
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Released));
    assert_eq!(alice.lease.permit().map(drop), Err(NotHeld::Released));
    assert_eq!(alice.lease.ended(), Some(Ended::GivenBack));
    alice.lease.lost().await;
    assert_eq!(alice.events.all().last(), Some(&Event::Released { epoch, outcome: Released::GivenBack }));
    for again in [alice.lease.try_take().await, alice.lease.take().await] {
        assert!(matches!(again, Err(LeaseError::Over(Ended::GivenBack))), "{again:?}");
    }
    assert_eq!(alice.lease.release().await, Released::NeverHeld, "once");
    let sent = alice.line.ops().len();
    bob.lease.try_take().await?;
    world.pass(2 * TTL).await;
    assert_eq!(alice.line.ops().len(), sent);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_never_held_has_nothing_to_give_back() {
    let world = World::new().await;
    let bob = world.stand("bob").await;
    assert_eq!(bob.lease.release().await, Released::NeverHeld);
    assert!(matches!(bob.lease.take().await, Err(LeaseError::Over(Ended::GivenBack))));
    assert_eq!(bob.line.ops_of(Kind::Create), []);
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_released_in_its_middle_writes_nothing_more() -> anyhow::Result<()> {
    let world = World::new().await;
    let bob = world.stand("bob").await;
    bob.line.dawdle();
    let before = bob.line.ops().len();
    let lease = bob.lease.clone();
    let taking = tokio::spawn(async move { lease.try_take().await });
    while bob.line.ops().len() == before {
        tokio::task::yield_now().await;
    }

    assert_eq!(bob.lease.release().await, Released::NeverHeld);
    assert!(taking.await?.is_err());
    assert_eq!(bob.line.ops_of(Kind::Create), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_acts_under_way_and_admits_no_more() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let taking = bob.take();
    let permits = [alice.lease.permit()?, alice.lease.permit()?];
    let lease = alice.lease.clone();
    let releasing = tokio::spawn(async move { lease.release().await });
    world.settle().await;
    assert_eq!(alice.lease.permit().map(drop), Err(NotHeld::Released));
    assert_eq!(permits[0].epoch(), Err(NotHeld::Released), "a long act is told at its next look");

    let [first, last] = permits;
    drop(first);
    world.pass(RELEASE / 2).await;
    assert!(!releasing.is_finished() && !taking.is_finished());
    assert_eq!(alice.line.ops_of(Kind::Delete), []);
    drop(last);

    assert_eq!(world.until(AT_ONCE, releasing).await.0?, Released::GivenBack);
    world.until(AT_ONCE, taking).await.0??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_act_that_does_not_end_leaves_the_record_to_expire() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let written = alice.lease.renewed().expect("taken");
    let taking = bob.take();
    let permit = alice.lease.permit()?;

    let (outcome, took) = world.until(TTL, alice.lease.release()).await;

    assert!(matches!(outcome, Released::Left(_)), "{outcome:?}");
    assert!(took >= RELEASE && took <= RELEASE + AT_ONCE, "{took:?}");
    drop(permit);
    world.until(2 * TTL, taking).await.0??;
    assert!(world.clock.now().since(written) >= TTL);
    assert_eq!(alice.line.ops_of(Kind::Delete), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_when_its_caller_is_gone() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let permit = alice.lease.permit()?;
    let lease = alice.lease.clone();
    let releasing = tokio::spawn(async move { lease.release().await });
    world.settle().await;
    releasing.abort();
    world.settle().await;

    drop(permit);
    world.settle().await;

    assert!(matches!(world.record().await, Reading::Deleted(_)));
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_when_the_lease_object_is_dropped_after_it_began() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.once(Kind::Delete, Fate::HeldBack);
    let lease = alice.lease.clone();
    let releasing = tokio::spawn(async move { lease.release().await });
    alice.line.hits(1).await;
    releasing.abort();
    drop(alice.lease);
    world.settle().await;

    alice.line.deliver().await.expect("one was on its way")?;
    world.settle().await;

    let released = |event: &Event| matches!(event, Event::Released { outcome: Released::GivenBack, .. });
    assert_eq!(alice.events.count(released), 1);
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_that_lands_first_is_found_and_deleted() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.once(Kind::Update, Fate::HeldBack);
    world.until(TTL, alice.line.hits(1)).await;
    let permit = alice.lease.permit()?;
    let lease = alice.lease.clone();
    let releasing = tokio::spawn(async move { lease.release().await });
    world.settle().await;

    alice.line.deliver().await.expect("one was on its way")?;
    drop(permit);

    assert_eq!(world.until(AT_ONCE, releasing).await.0?, Released::GivenBack);
    let deletes = alice.line.ops_of(Kind::Delete);
    assert_eq!(deletes.iter().map(|op| op.won.is_some()).collect::<Vec<_>>(), [false, true]);
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_that_lands_after_the_deletion_revives_nothing() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.once(Kind::Update, Fate::HeldBack);
    world.until(TTL, alice.line.hits(1)).await;
    assert_eq!(alice.lease.release().await, Released::GivenBack);
    let epoch = bob.lease.try_take().await?;

    alice.line.deliver().await.expect("one was on its way")?;

    world.pass(2 * TTL).await;
    assert_eq!(bob.lease.epoch(), Ok(epoch));
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Released));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_that_gets_no_answer_is_bounded() -> anyhow::Result<()> {
    for befalls in [Fate::Hangs, Fate::Fails(Fault::Denied("no deleting".into()))] {
        let world = World::new().await;
        let (alice, bob) = world.alice_holds().await;
        let written = alice.lease.renewed().expect("taken");
        let taking = bob.take();
        alice.line.always(&[Kind::Delete], &befalls);

        let (outcome, took) = world.until(TTL, alice.lease.release()).await;

        assert!(matches!(outcome, Released::Left(_)), "{outcome:?}");
        assert!(took <= RELEASE + AT_ONCE, "{took:?}");
        world.until(2 * TTL, taking).await.0??;
        assert!(world.clock.now().since(written) >= TTL);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn anothers_record_is_not_given_back() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let bucket = world.faulty.bare().await?;
    let Reading::Found(entry) = bucket.get(LEASE).await? else { panic!("alice has a record") };
    bucket.update(LEASE, br#"{"instance":"mallory"}"#, entry.revision).await?;

    assert_eq!(alice.lease.release().await, Released::NotOurs);

    assert_eq!(world.holder().await.map(|holder| holder.instance), Some("mallory".into()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_does_not_reach_for_the_next_holder() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let taking = bob.take();
    alice.line.once(Kind::Delete, Fate::AnswerLost);
    // Bob takes it before alice can look.
    alice.line.once(Kind::Get, Fate::Hangs);
    world.until(2 * RELEASE, alice.lease.release()).await;

    world.until(AT_ONCE, taking).await.0??;

    assert_eq!(alice.line.ops_of(Kind::Delete).len(), 1);
    world.pass(RENEW).await;
    assert!(bob.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_queue_behind_renewals_even_when_its_caller_is_gone() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.always(&[Kind::Update], &Fate::Hangs);
    let renewing = [alice.lease.clone(), alice.lease.clone(), alice.lease.clone()]
        .map(|lease| tokio::spawn(async move { lease.renew().await }));
    world.settle().await;
    let lease = alice.lease.clone();
    let releasing = tokio::spawn(async move { lease.release().await });
    tokio::task::yield_now().await;
    releasing.abort();
    world.settle().await;

    assert!(matches!(world.record().await, Reading::Deleted(_)));
    for renewed in renewing {
        assert_eq!(renewed.await?, Err(NotHeld::Released));
    }
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_gives_back_what_a_take_cut_off_had_won() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    // Won, and cut off at the look that follows.
    alice.line.nth(Kind::Info, 2, Fate::Hangs);
    let taking = alice.take();
    alice.line.hits(1).await;
    taking.abort();
    world.settle().await;

    assert_eq!(alice.lease.release().await, Released::NeverHeld);

    assert!(matches!(world.record().await, Reading::Deleted(_)));
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_gives_back_what_a_take_cut_off_had_written_unheard() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    alice.line.once(Kind::Create, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;
    taking.abort();
    world.settle().await;
    alice.line.deliver().await.expect("one was on its way")?;

    assert_eq!(alice.lease.release().await, Released::NeverHeld);

    assert!(matches!(world.record().await, Reading::Deleted(_)));
    bob.lease.try_take().await?;
    Ok(())
}

/// A take until the answer's sender says so.
fn take_until(lease: &Arc<Lease>) -> (oneshot::Sender<()>, JoinHandle<Result<Option<u64>, LeaseError>>) {
    let (stop, stopped) = oneshot::channel();
    let lease = lease.clone();
    (stop, tokio::spawn(async move { lease.take_until(async { drop(stopped.await) }).await }))
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_stopped_waits_for_its_write_and_gives_back_what_it_won() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    alice.line.once(Kind::Create, Fate::HeldBack);
    let (stop, taking) = take_until(&alice.lease);
    alice.line.hits(1).await;
    drop(stop);
    world.pass(RELEASE / 2).await;
    assert!(!taking.is_finished());

    alice.line.deliver().await.expect("one was on its way")?;
    let (taken, _) = world.until(AT_ONCE, taking).await;

    assert!(matches!(taken?, Ok(None)));
    assert_eq!(alice.events.count(|event| matches!(event, Event::Taken { .. })), 0);
    assert!(matches!(world.record().await, Reading::Deleted(_)));
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_stopped_waits_no_longer_than_a_release_may() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::Hangs);
    let (stop, taking) = take_until(&alice.lease);
    alice.line.hits(1).await;
    drop(stop);

    let (taken, took) = world.until(RELEASE + AT_ONCE, taking).await;

    assert!(matches!(taken?, Ok(None)) && took >= RELEASE - AT_ONCE, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_stopped_before_it_writes_ends_at_once() -> anyhow::Result<()> {
    let world = World::new().await;
    let (_alice, bob) = world.alice_holds().await;
    let (stop, waiting) = take_until(&bob.lease);
    world.settle().await;
    drop(stop);
    assert!(matches!(world.until(AT_ONCE, waiting).await.0?, Ok(None)), "while it waits");

    let carol = world.stand("carol").await;
    carol.line.once(Kind::Get, Fate::Hangs);
    let (stop, looking) = take_until(&carol.lease);
    carol.line.hits(1).await;
    drop(stop);
    assert!(matches!(world.until(AT_ONCE, looking).await.0?, Ok(None)), "while it looks");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_stopped_at_rest_gives_back_what_it_wrote_before() -> anyhow::Result<()> {
    // Announced: written, and not acted on yet.
    let world = World::new().await;
    let alice = world.stand_with("alice", |options| options.vacancy = Some(Vacancy::Delayed)).await?;
    let (stop, taking) = take_until(&alice.lease);
    while alice.line.ops_of(Kind::Create).is_empty() {
        world.pass(AT_ONCE).await;
    }
    world.settle().await;
    assert!(!taking.is_finished() && matches!(world.record().await, Reading::Found(_)));
    drop(stop);
    assert!(matches!(world.until(AT_ONCE, taking).await.0?, Ok(None)));
    assert!(matches!(world.record().await, Reading::Deleted(_)), "announced");

    // Its answer was lost, and so was the look that followed.
    let (stop, taking) = {
        let bob = world.stand("bob").await;
        bob.line.once(Kind::Create, Fate::AnswerLost);
        bob.line.nth(Kind::Get, 2, Fate::Fails(Fault::Unavailable("no connection".into())));
        let stopping = take_until(&bob.lease);
        bob.line.hits(2).await;
        world.settle().await;
        assert!(!stopping.1.is_finished() && matches!(world.record().await, Reading::Found(_)));
        stopping
    };
    drop(stop);
    assert!(matches!(world.until(AT_ONCE, taking).await.0?, Ok(None)));
    assert!(matches!(world.record().await, Reading::Deleted(_)), "unheard");
    Ok(())
}

/// An act may be under way still: the record stands for as long as it was written for.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_before_its_time_touches_its_record_no_more() -> anyhow::Result<()> {
    let world = World::new().await;
    let unwell = |options: &mut LeaseOptions| options.healthy = Arc::new(|| panic!("no such table"));
    let alice = world.stand_with("alice", unwell).await?;
    alice.lease.try_take().await?;
    // Its keeper panics at the first renewal.
    world.until(TTL, alice.lease.lost()).await;
    let sent = alice.line.ops().len();

    assert!(matches!(alice.lease.try_take().await, Err(LeaseError::Over(Ended::Lost(_)))));

    assert_eq!(alice.line.ops().len(), sent);
    assert!(matches!(world.record().await, Reading::Found(_)));
    Ok(())
}

/// It must find nobody else's record, should it arrive yet.
#[tokio::test(start_paused = true)]
async fn a_record_below_a_purge_that_was_not_answered_is_left_to_expire() -> anyhow::Result<()> {
    for answered in [false, true] {
        let world = World::new().await;
        world.floor.raise(57).await?;
        let alice = world.stand("alice").await;
        let (kind, nth) = if answered { (Kind::Update, 2) } else { (Kind::Purge, 1) };
        alice.line.nth(kind, nth, Fate::Hangs);
        let taking = alice.take();
        alice.line.hits(1).await;
        taking.abort();
        world.settle().await;

        assert_eq!(alice.lease.release().await, Released::NeverHeld);

        let deleted = alice.line.ops_of(Kind::Delete).len();
        assert_eq!(deleted > 0, answered, "answered: {answered}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_during_a_take_gives_back_what_the_take_wins() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    alice.line.once(Kind::Create, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;

    assert_eq!(alice.lease.release().await, Released::NeverHeld);
    alice.line.deliver().await.expect("one was on its way")?;
    let (taken, _) = world.until(AT_ONCE, taking).await;

    assert!(matches!(taken?, Err(LeaseError::Over(Ended::GivenBack))));
    assert_eq!(alice.events.count(|event| matches!(event, Event::Taken { .. })), 0);
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_a_take_that_waits() -> anyhow::Result<()> {
    let world = World::new().await;
    let (_alice, bob) = world.alice_holds().await;
    let taking = bob.take();
    world.settle().await;

    assert_eq!(bob.lease.release().await, Released::NeverHeld);

    let (taken, _) = world.until(AT_ONCE, taking).await;
    assert!(matches!(taken?, Err(LeaseError::Over(Ended::GivenBack))));
    Ok(())
}
