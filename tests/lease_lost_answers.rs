//! A write whose answer is lost, or that arrives late: looked up, never guessed.

use std::time::Duration;

use incumbent::Loss;
use incumbent::lease::{Event, LeaseError, NotHeld, Released};
use incumbent::store::{Fault, Reading, Write};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{LEASE, MARGIN, RENEW, Stand, TTL, World};

/// A renewal that failed is tried again within a second, give or take a quarter.
const RETRIED: Duration = Duration::from_millis(1300);

fn is_waiting(event: &Event) -> bool {
    matches!(event, Event::Waiting { .. })
}

/// Held, kept and given back, with one record and no waiting behind oneself.
async fn lives_on(world: &World, alice: &Stand) -> anyhow::Result<()> {
    let epoch = alice.lease.epoch()?;
    world.pass(4 * TTL).await;
    assert_eq!(alice.lease.epoch(), Ok(epoch));
    let holder = world.holder().await.expect("held");
    assert_eq!((holder.instance.as_str(), holder.epoch), ("alice", epoch));
    assert_eq!(alice.lease.release().await, Released::GivenBack);
    assert!(matches!(world.record().await, Reading::Deleted(_)));
    assert_eq!(alice.events.count(is_waiting), 0, "{:?}", alice.events.all());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_held_at_its_revision() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::AnswerLost);

    let epoch = alice.lease.try_take().await?;

    assert_eq!(alice.line.ops_of(Kind::Create)[0].won, Some(epoch));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_with_the_look_is_found_at_the_next() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::AnswerLost);
    // The first look is the one before the create.
    alice.line.nth(Kind::Get, 2, Fate::Fails(Fault::Unavailable("away".into())));

    let (epoch, _) = world.until(TTL, alice.lease.take()).await;

    assert_eq!(alice.line.ops_of(Kind::Create)[0].won, Some(epoch?));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn an_own_record_whose_renewal_got_no_answer_either_is_still_ones_own() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::AnswerLost);
    alice.line.once(Kind::Update, Fate::AnswerLost);
    let tried = alice.lease.try_take().await;
    assert!(matches!(tried, Err(LeaseError::Unsure(_))), "{tried:?}");
    assert!(!alice.lease.held());

    let epoch = alice.lease.try_take().await?;

    assert_eq!(alice.line.ops_of(Kind::Create)[0].won, Some(epoch));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_sent_again() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::RequestLost);

    let (epoch, _) = world.until(TTL, alice.lease.take()).await;

    assert_eq!(alice.line.ops_of(Kind::Create)[1].won, Some(epoch?));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_take_cut_off_after_its_create_is_found_by_the_next() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;
    taking.abort();
    world.settle().await;
    let landed = alice.line.deliver().await.expect("one was on its way")?;

    let epoch = alice.lease.try_take().await?;

    assert_eq!(landed, Write::Written(epoch));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_create_that_lands_late_does_not_disturb_the_one_after_it() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::HeldBack);
    let (epoch, _) = world.until(3 * TTL, alice.lease.take()).await;
    let epoch = epoch?;

    let landed = alice.line.deliver().await.expect("one was on its way")?;

    assert!(matches!(landed, Write::Stale(_)), "{landed:?}");
    assert_eq!(alice.lease.epoch(), Ok(epoch));
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_its_time_grants_nothing() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Create, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;
    // The record itself is fresh when it lands; what counts is when it was sent.
    world.pass(TTL - MARGIN).await;
    let first = alice.line.deliver().await.expect("one was on its way")?;
    world.settle().await;
    assert!(!alice.lease.held());
    assert_eq!(alice.line.ops_of(Kind::Delete), [], "its time is over: by now its revision may be another's");

    // It is her own all the same, and held once a write of hers has won at its revision in time.
    let (epoch, _) = world.until(TTL, taking).await;

    assert_eq!(first, Write::Written(epoch??));
    assert!(alice.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_found_and_the_gate_never_shuts() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    alice.line.once(Kind::Update, Fate::AnswerLost);
    world.until(TTL, alice.line.hits(1)).await;
    let before = alice.lease.until();

    world.pass(RETRIED).await;

    assert!(alice.lease.until() > before, "renewed at the revision that was found");
    let updates = alice.line.ops_of(Kind::Update);
    assert_eq!(updates[1].expected, updates[0].won);
    assert_eq!(alice.events.count(|event| matches!(event, Event::Refused { .. })), 0);
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_shuts_the_gate_until_ones_own_newer_record_is_adopted() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    // The renewal lands and its answer is lost; the look answers what was there before it.
    alice.line.once(Kind::Update, Fate::AnswerLost);
    alice.line.freeze(LEASE).await?;
    world.until(TTL, alice.line.hits(1)).await;
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    let doubted = async {
        while alice.lease.epoch() != Err(NotHeld::Doubted) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    world.until(RETRIED, doubted).await;
    assert_eq!(alice.events.count(refused), 1, "{:?}", alice.events.all());
    world.pass(RETRIED).await;
    assert_eq!(alice.events.count(refused), 1, "{:?}", alice.events.all());
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));
    assert_eq!(alice.lease.until(), None);

    alice.line.heal();
    world.pass(RETRIED).await;

    assert_eq!(alice.lease.epoch(), Ok(epoch));
    assert_eq!(alice.events.count(refused), 1, "said once");
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_lands_after_it_was_given_up_is_ones_own() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    alice.line.once(Kind::Update, Fate::HeldBack);
    world.until(TTL, alice.line.hits(1)).await;
    // Given up after a renew interval, and not tried again yet.
    world.pass(RENEW + Duration::from_millis(100)).await;
    assert_eq!(alice.line.ops_of(Kind::Update).len(), 1);

    let landed = alice.line.deliver().await.expect("one was on its way")?;
    world.pass(RETRIED).await;

    assert!(matches!(landed, Write::Written(_)), "{landed:?}");
    assert_eq!(alice.events.count(|event| matches!(event, Event::Refused { .. })), 0);
    lives_on(&world, &alice).await
}

#[tokio::test(start_paused = true)]
async fn a_renewal_answered_after_its_time_does_not_revive_the_lease() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let taking = bob.take();
    alice.line.always(&[Kind::Update], &Fate::HeldBack);
    alice.line.always(&[Kind::Get], &Fate::Hangs);
    world.pass(TTL - MARGIN).await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Lost(Box::new(Loss::Overdue))));

    let landed = alice.line.deliver().await.expect("one was on its way")?;
    alice.line.heal();
    assert!(matches!(landed, Write::Written(_)), "the record lives on, though nobody acts on it: {landed:?}");
    let sent = alice.line.ops().len();

    let (epoch, took) = world.until(2 * TTL, taking).await;
    assert!(took >= TTL, "bob waits for the record: {took:?}");
    assert_eq!(bob.lease.epoch()?, epoch??);
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Lost(Box::new(Loss::Overdue))));
    assert_eq!(alice.line.ops().len(), sent, "alice sent nothing more");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_is_looked_up() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.once(Kind::Delete, Fate::AnswerLost);

    assert_eq!(alice.lease.release().await, Released::GivenBack);

    assert_eq!(alice.line.ops_of(Kind::Delete).len(), 1);
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_never_arrived_is_sent_again() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    alice.line.once(Kind::Delete, Fate::RequestLost);

    assert_eq!(alice.lease.release().await, Released::GivenBack);

    assert_eq!(alice.line.ops_of(Kind::Delete).len(), 2);
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_lands_late_leaves_the_next_holder_alone() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let taking = bob.take();
    alice.line.always(&[Kind::Delete], &Fate::HeldBack);
    let (outcome, _) = world.until(TTL, alice.lease.release()).await;
    assert!(matches!(outcome, Released::Left(_)), "{outcome:?}");
    let (epoch, _) = world.until(2 * TTL, taking).await;

    let landed = alice.line.deliver().await.expect("one was on its way")?;

    assert!(matches!(landed, Write::Stale(_)), "{landed:?}");
    assert_eq!(bob.lease.epoch()?, epoch??);
    Ok(())
}
