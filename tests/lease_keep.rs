//! Keeping a lease: until when the gate is open, and how a tenure ends that its holder did not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use incumbent::clock::Steady;
use incumbent::floor::MemoryFloor;
use incumbent::lease::{Ended, Event, LeaseError, NotHeld, Released};
use incumbent::store::{Fault, Reading};
use incumbent::{Loss, Vacancy};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{LEASE, MARGIN, RENEW, Stand, TTL, World};

const A_NANOSECOND: Duration = Duration::from_nanos(1);
/// Long enough for a look at why a renewal was refused.
const LOOKED: Duration = Duration::from_millis(500);

fn unavailable() -> Fate {
    Fate::Fails(Fault::Unavailable("the store is away".into()))
}

fn lost(loss: Loss) -> Option<Ended> {
    Some(Ended::Lost(loss))
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_it() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    for n in 1..=12 {
        world.pass(RENEW).await;
        assert_eq!(alice.lease.epoch(), Ok(epoch), "after {n} intervals");
    }
    let updates = alice.line.ops_of(Kind::Update);
    assert!((11..=12).contains(&updates.len()), "one an interval: {}", updates.len());
    assert!(updates.iter().all(|op| op.won.is_some()));
    let holder = world.holder().await.expect("held");
    assert_eq!(holder.epoch, epoch, "the first revision, whatever the record's own");
    assert!(holder.renewed > holder.taken);
    assert!(matches!(bob.lease.try_take().await, Err(LeaseError::Taken(_))));
    Ok(())
}

/// At the instant itself the gate is shut, and not one nanosecond earlier, whatever becomes of renewals.
async fn shuts_at_until(befalls: Fate) -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    world.pass(3 * RENEW).await;
    alice.line.always(&Kind::ALL, &befalls);
    let until = alice.lease.until().expect("open");
    let sent = alice.lease.renewed().expect("renewed");
    assert_eq!(until, sent.plus(TTL - MARGIN));

    world.pass_until(Steady(until.0 - 1)).await;
    assert_eq!(alice.lease.epoch(), Ok(epoch));
    assert_eq!(alice.lease.until(), Some(until), "nothing prolonged it");
    // Without a turn for anybody: the gate is not shut by a task, but by the clock.
    world.clock.advance(A_NANOSECOND);
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Overdue { by: Duration::ZERO }));

    let failed = |event: &Event| matches!(event, Event::RenewalFailed { .. });
    let before = alice.events.count(failed);
    world.pass(LOOKED).await;
    assert_eq!(alice.lease.ended(), lost(Loss::Overdue));
    assert_eq!(alice.events.count(failed), before, "nobody tries again");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_gate_shuts_in_time_when_the_store_hangs() -> anyhow::Result<()> {
    shuts_at_until(Fate::Hangs).await
}

#[tokio::test(start_paused = true)]
async fn the_gate_shuts_in_time_when_renewals_fail() -> anyhow::Result<()> {
    shuts_at_until(unavailable()).await
}

#[tokio::test(start_paused = true)]
async fn the_gate_shuts_in_time_when_nothing_arrives() -> anyhow::Result<()> {
    shuts_at_until(Fate::RequestLost).await
}

#[tokio::test(start_paused = true)]
async fn the_gate_shuts_in_time_when_the_keeper_does_not_run() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let permit = alice.lease.permit()?;
    assert!(permit.until().is_some() && permit.until() == alice.lease.until());
    let until = alice.lease.until().expect("open");
    world.clock.advance(until.since(world.clock.now()) - A_NANOSECOND);
    assert!(alice.lease.held() && permit.epoch().is_ok());
    world.clock.advance(A_NANOSECOND);
    assert!(!alice.lease.held() && permit.epoch().is_err());
    assert!(alice.lease.permit().is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_the_gate_is_shut_at_the_first_look_and_nothing_is_renewed() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    world.pass(RENEW / 2).await;
    let sent = alice.line.ops().len();

    // The machine slept: its steady clock went on, its timers did not.
    world.clock.advance(Duration::from_secs(3600));
    assert!(matches!(alice.lease.epoch(), Err(NotHeld::Overdue { .. })));
    world.pass(RENEW).await;

    assert_eq!(alice.lease.ended(), lost(Loss::Overdue));
    assert_eq!(alice.line.ops().len(), sent, "nothing was sent after waking up");
    bob.lease.try_take().await?;
    world.pass(TTL).await;
    assert!(bob.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_before_the_time_is_up_costs_nothing() -> anyhow::Result<()> {
    for befalls in [unavailable(), Fate::Hangs, Fate::RequestLost] {
        let world = World::new().await;
        let (alice, _bob) = world.alice_holds().await;
        let epoch = alice.lease.epoch()?;
        alice.line.always(&Kind::ALL, &befalls);
        // The first try, in case it hangs, is given up by then, and the next one not begun.
        world.pass(2 * RENEW + LOOKED).await;
        assert!(alice.lease.held());
        assert!(alice.events.count(|event| matches!(event, Event::RenewalFailed { .. })) > 0, "{befalls:?}");

        alice.line.heal();
        world.pass(TTL).await;

        assert_eq!(alice.lease.epoch(), Ok(epoch), "{befalls:?}");
        assert_eq!(alice.events.count(|event| matches!(event, Event::Refused { .. })), 0);
    }
    Ok(())
}

/// A panic in what the lease is given to ask or to tell ends the task that keeps it.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_keeper_panicked_is_told_at_once() -> anyhow::Result<()> {
    let world = World::new().await;
    let poisoned = || panic!("the worker's lock is poisoned");
    let alice = world.stand_with("alice", |options| options.healthy = Arc::new(poisoned)).await?;
    alice.lease.try_take().await?;
    world.until(RENEW, alice.lease.lost_token().cancelled()).await;
    assert_eq!(alice.lease.ended(), lost(Loss::Overdue));
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Lost(Box::new(Loss::Overdue))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_not_well_is_not_renewed() -> anyhow::Result<()> {
    let world = World::new().await;
    let stuck = Arc::new(AtomicBool::new(false));
    let seen = stuck.clone();
    let healthy = move || if seen.load(Ordering::Relaxed) { Err("it is stuck".to_owned()) } else { Ok(()) };
    let alice = world.stand_with("alice", |options| options.healthy = Arc::new(healthy)).await?;
    alice.lease.try_take().await?;
    world.pass(RENEW + RENEW / 2).await;
    let (renewed, until) = (alice.line.ops_of(Kind::Update).len(), alice.lease.until().expect("held"));
    assert_eq!(renewed, 1);

    stuck.store(true, Ordering::Relaxed);
    world.pass_until(until).await;

    assert_eq!(alice.line.ops_of(Kind::Update).len(), renewed);
    assert_eq!(alice.lease.ended(), lost(Loss::Overdue));
    let told =
        |event: &Event| matches!(event, Event::RenewalFailed { why, .. } if why.contains("it is stuck"));
    assert!(alice.events.count(told) > 0, "{:?}", alice.events.all());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_is_tried_again_after_a_fifth_of_the_interval() -> anyhow::Result<()> {
    let world = World::new().await;
    let every = Duration::from_secs(2);
    let alice = world.stand_with("alice", |options| options.timing.renew_every = Some(every)).await?;
    alice.lease.try_take().await?;
    alice.line.always(&[Kind::Update], &unavailable());
    world.until(TTL, alice.line.hits(1)).await;

    world.pass(every).await;

    // A fifth, give or take a quarter.
    let tries = alice.line.ops_of(Kind::Update).len();
    assert!((4..=8).contains(&tries), "{tries}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lost_is_lost_even_when_the_store_heals() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    alice.line.always(&Kind::ALL, &unavailable());
    let (token, lost_by) = (alice.lease.lost_token(), world.until(TTL, alice.lease.lost()).await.1);
    assert!(lost_by >= TTL - MARGIN && lost_by <= TTL - MARGIN + LOOKED, "{lost_by:?}");
    assert!(token.is_cancelled());
    let event = Event::Lost { epoch, loss: Loss::Overdue };
    assert_eq!(alice.events.count(|told| *told == event), 1);

    alice.line.heal();
    let sent = alice.line.ops().len();
    world.pass(3 * TTL).await;

    let shut = NotHeld::Lost(Box::new(Loss::Overdue));
    assert_eq!(alice.lease.epoch(), Err(shut.clone()));
    assert_eq!(alice.lease.permit().map(drop), Err(shut));
    assert_eq!(alice.lease.ended(), lost(Loss::Overdue));
    for again in [alice.lease.try_take().await, alice.lease.take().await] {
        assert!(matches!(again, Err(LeaseError::Over(Ended::Lost(Loss::Overdue)))), "{again:?}");
    }
    assert_eq!(alice.lease.release().await, Released::NeverHeld);
    assert_eq!(alice.line.ops().len(), sent, "nothing was sent after the loss");
    Ok(())
}

/// Somebody who keeps to no rule put this in place of alice's record.
async fn is_overwritten(world: &World, value: &[u8]) -> anyhow::Result<u64> {
    let bucket = world.faulty.bare().await?;
    let Reading::Found(entry) = bucket.get(LEASE).await? else { panic!("alice has a record") };
    bucket.update(LEASE, value, entry.revision).await?;
    let Reading::Found(entry) = bucket.get(LEASE).await? else { panic!("just written") };
    Ok(entry.revision)
}

#[tokio::test(start_paused = true)]
async fn anothers_record_is_the_loss_of_it_and_is_left_alone() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    world.pass(RENEW + LOOKED).await;
    let theirs =
        is_overwritten(&world, br#"{"instance":"mallory","epoch":2,"taken":"","renewed":""}"#).await?;
    assert!(alice.lease.held(), "she has not heard of it");

    world.pass(RENEW + LOOKED).await;

    let Some(Ended::Lost(Loss::Superseded(holder))) = alice.lease.ended() else {
        panic!("lost to another: {:?}", alice.lease.ended())
    };
    assert_eq!((holder.instance.as_str(), holder.revision), ("mallory", theirs));
    alice.lease.release().await;
    let Reading::Found(entry) = world.record().await else { panic!("mallory's record is gone") };
    assert_eq!(entry.revision, theirs);
    let touched = alice.line.ops().into_iter().find(|op| op.expected == Some(theirs));
    assert_eq!(touched, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn anothers_record_that_is_read_after_a_failure_shuts_the_gate_before_its_time() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let until = alice.lease.until().expect("held");
    alice.line.once(Kind::Update, unavailable());
    is_overwritten(&world, br#"{"instance":"mallory","epoch":2,"taken":"","renewed":""}"#).await?;

    world.until(TTL, alice.lease.lost()).await;

    assert!(world.clock.now() < until);
    assert_eq!(alice.line.ops_of(Kind::Update).len(), 1, "nothing was refused");
    assert!(matches!(alice.lease.epoch(), Err(NotHeld::Lost(_))), "{:?}", alice.lease.epoch());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_no_holder_is_the_loss_of_it_too() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let theirs = is_overwritten(&world, b"not a holder").await?;

    world.pass(RENEW + LOOKED).await;

    assert!(
        matches!(alice.lease.ended(), Some(Ended::Lost(Loss::Overwritten(_)))),
        "{:?}",
        alice.lease.ended()
    );
    assert!(matches!(bob.lease.try_take().await, Err(LeaseError::NotAHolder(_))));
    assert!(matches!(world.record().await, Reading::Found(entry) if entry.revision == theirs));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_shuts_the_gate_before_the_reason_is_known() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    is_overwritten(&world, b"not a holder").await?;
    alice.line.always(&[Kind::Get, Kind::Info], &Fate::Hangs);

    world.pass(RENEW + LOOKED).await;

    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));
    let doubted_for = world.until(TTL, alice.lease.lost()).await.1;
    assert!(doubted_for <= TTL - MARGIN - RENEW, "{doubted_for:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_record_is_lost_after_one_look_of_a_renew_interval() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    world.faulty.forget(LEASE).await?;

    world.pass(RENEW + LOOKED).await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted), "it may be a stale read");
    world.pass(RENEW).await;

    assert_eq!(alice.lease.ended(), lost(Loss::Gone));
    assert!(alice.line.ops_of(Kind::Create).len() == 1, "it is not created once more");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_own_record_older_than_the_last_renewal_grants_nothing() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    world.pass(3 * RENEW + LOOKED).await;
    let renewals = alice.line.ops_of(Kind::Update);
    let last = renewals.last().and_then(|op| op.won).expect("renewed");
    let sent = renewals.len();

    world.faulty.roll_back(last - 1).await?;
    let taking = bob.take();
    world.pass(RENEW).await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));
    world.pass(RENEW).await;

    assert_eq!(alice.lease.ended(), lost(Loss::Gone));
    let after = &alice.line.ops_of(Kind::Update)[sent..];
    assert!(after.iter().all(|op| op.expected == Some(last) && op.won.is_none()), "{after:?}");
    let (next, _) = world.until(2 * TTL, taking).await;
    assert!(next?? > epoch);
    Ok(())
}

/// The bucket is raised again from nothing under a holder; whoever stands next gets a higher epoch.
async fn is_wiped(world: &World, alice: &Stand, bob: &Stand) -> anyhow::Result<()> {
    let epoch = alice.lease.epoch()?;
    world.pass(4 * RENEW).await;
    world.faulty.wipe().await?;

    let (next, _) = world.until(2 * TTL, bob.lease.take()).await;

    assert_eq!(alice.lease.ended(), lost(Loss::RaisedAgain));
    let next = next?;
    assert!(next > epoch, "{next} above {epoch}");
    let moved = |event: &Event| matches!(event, Event::Moved { .. });
    assert_eq!(bob.events.count(moved), 1, "{:?}", bob.events.all());
    world.pass(2 * TTL).await;
    assert_eq!(bob.lease.epoch(), Ok(next));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wiped_bucket_is_lost_and_the_next_epoch_is_above_the_floor() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _) = world.alice_holds().await;
    let bob = world.stand_with("bob", |options| options.vacancy = Some(Vacancy::Watched)).await?;
    is_wiped(&world, &alice, &bob).await
}

#[tokio::test(start_paused = true)]
async fn a_wiped_bucket_is_lost_and_the_next_epoch_is_above_even_where_floors_differ() -> anyhow::Result<()> {
    let world = World::new().await;
    // Bob held it once, at an epoch on his own floor; alice's later one is on hers.
    let floor = Arc::new(MemoryFloor::default());
    let bobs = |options: &mut incumbent::LeaseOptions| {
        options.floor = floor.clone();
        options.vacancy = Some(Vacancy::Watched);
    };
    let earlier = world.stand_with("bob", bobs).await?;
    world.until(2 * TTL, earlier.lease.take()).await.0?;
    earlier.lease.release().await;
    let (alice, _) = world.alice_holds().await;
    let bob = world.stand_with("bob", bobs).await?;
    is_wiped(&world, &alice, &bob).await
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_shuts_its_gate_and_leaves_its_record() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let (permit, token) = (alice.lease.permit()?, alice.lease.lost_token());
    let Stand { lease, line, .. } = alice;

    drop(lease);

    assert_eq!(permit.epoch(), Err(NotHeld::Released));
    assert!(token.is_cancelled());
    let sent = line.ops().len();
    let (epoch, took) = world.until(2 * TTL, bob.lease.take()).await;
    epoch?;
    assert!(took >= TTL, "{took:?}");
    assert_eq!(line.ops().len(), sent, "neither renewed nor deleted");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_asked_for_waits_for_the_one_under_way_and_the_gate_stays_open() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    world.pass(LOOKED).await;
    let before = alice.lease.until();
    assert_eq!(alice.lease.renew().await, Ok(epoch));
    assert!(alice.lease.until() > before);

    // It lands, and its answer takes its time.
    alice.line.once(Kind::Update, Fate::HeldBack);
    world.until(TTL, alice.line.hits(1)).await;
    let lease = alice.lease.clone();
    let renewing = tokio::spawn(async move { lease.renew().await });
    world.settle().await;
    alice.line.deliver().await.expect("one was on its way")?;

    assert_eq!(world.until(LOOKED, renewing).await.0?, Ok(epoch));
    assert_eq!(alice.events.count(|event| matches!(event, Event::Refused { .. })), 0);
    assert!(alice.line.ops_of(Kind::Update).iter().all(|op| op.won.is_some()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_asked_for_when_the_lease_is_lost_says_so() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    assert_eq!(bob.lease.renew().await, Err(NotHeld::NotTaken));
    alice.line.always(&Kind::ALL, &Fate::Hangs);
    let (renewed, _) = world.until(TTL, alice.lease.renew()).await;
    assert!(renewed.is_ok(), "it failed, and the last one still counts");
    world.until(TTL, alice.lease.lost()).await;
    assert_eq!(alice.lease.renew().await, Err(NotHeld::Lost(Box::new(Loss::Overdue))));
    Ok(())
}
