//! What operators do: a holder asked to give way, and a record that is no holder cleared away.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use incumbent::lease::{Cleared, Ended, Event, LeaseError, NotHeld, Released, clear, list, step_down};
use incumbent::store::{Bucket, Fault, Reading, Store, Write};
use incumbent::{Loss, Policy, Request};
use incumbent_policy::imports::{self, Role};
use incumbent_policy::lease::Trouble;
use incumbent_policy::{Decisions, Imports};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{BUCKET, LEASE, MARGIN, RENEW, TTL, World, policy};

async fn ask(world: &World, by: &str) -> Result<Request, LeaseError> {
    let bucket = world.faulty.bare().await.expect("there is a bucket");
    step_down(policy().await, &bucket, &world.clock, LEASE, by).await
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_asked_shuts_its_gate_and_gives_the_lease_back() -> Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;
    let taking = bob.take();
    world.settle().await;

    // Never renewed so far: the record does not say its epoch.
    let Request::Asked(holder) = ask(&world, "ops").await? else { panic!("alice holds it") };
    assert_eq!((holder.instance.as_str(), holder.epoch), ("alice", epoch));
    assert_eq!(world.holder().await.expect("still").epoch, epoch, "the mark does not change the epoch");
    assert!(matches!(ask(&world, "ops").await?, Request::AskedBefore(_)));
    assert_eq!(alice.lease.epoch(), Ok(epoch), "until its next renewal it does not know");

    let (by, took) = world.until(RENEW + Duration::from_secs(1), alice.lease.asked()).await;
    assert_eq!(&*by, "ops");
    assert!(took >= RENEW - Duration::from_millis(50), "{took:?}");
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Asked));
    assert_eq!(alice.lease.permit().map(drop), Err(NotHeld::Asked));
    assert!(!taking.is_finished() && alice.lease.ended().is_none());
    let sent = alice.line.ops().len();
    assert_eq!(alice.lease.renew().await, Err(NotHeld::Asked), "not renewed any more");
    assert_eq!(alice.line.ops().len(), sent, "not even tried");

    assert_eq!(alice.lease.release().await, Released::GivenBack);
    let (taken, took) = world.until(TTL, taking).await;
    assert!(taken?? > epoch && took < Duration::from_millis(50), "{took:?}");
    assert_eq!(alice.events.count(|event| matches!(event, Event::Asked { by, .. } if by == "ops")), 1);
    assert_eq!(alice.lease.ended(), Some(Ended::GivenBack));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_was_renewed_is_asked_too_and_lost_by_its_time_unless_given_back() -> Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    world.pass(3 * RENEW + RENEW / 2).await;
    let (epoch, until) = (alice.lease.epoch()?, alice.lease.until().expect("held"));
    let asked = world.clock.now();
    assert!(matches!(ask(&world, "ops").await?, Request::Asked(_)));
    let taking = bob.take();

    world.until(TTL, alice.lease.lost()).await;
    assert_eq!(world.clock.now().since(until), Duration::ZERO, "at the last renewal's time");
    assert_eq!(alice.lease.ended(), Some(Ended::Lost(Loss::Overdue)));
    // The mark made the record live a whole ttl longer.
    let (taken, _) = world.until(TTL, taking).await;
    assert!(taken?? > epoch);
    assert!(world.clock.now().since(asked) >= TTL);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_of_it_after_a_renewal_that_failed_shuts_its_gate_too() -> Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    alice.line.once(Kind::Update, Fate::Fails(Fault::Unavailable("the store is away".into())));
    assert!(matches!(ask(&world, "ops").await?, Request::Asked(_)));

    let (by, _) = world.until(2 * RENEW, alice.lease.asked()).await;
    assert_eq!(&*by, "ops");
    let updates = alice.line.ops_of(Kind::Update);
    assert_eq!(updates.len(), 1, "no renewal was refused: {updates:?}");
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Asked));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nobody_and_what_is_no_holder_are_not_asked() -> Result<()> {
    let world = World::new().await;
    assert_eq!(ask(&world, "ops").await?, Request::Nobody);
    let bucket = world.faulty.bare().await?;
    bucket.create(LEASE, b"garbage").await?;
    assert!(matches!(ask(&world, "ops").await, Err(LeaseError::NotAHolder(_))));
    let Reading::Found(entry) = bucket.get(LEASE).await? else { panic!("it stands there") };
    assert_eq!(entry.value, b"garbage");
    for by in ["", "two\nlines", &"x".repeat(201)] {
        assert!(matches!(ask(&world, by).await, Err(LeaseError::Misfit(_))), "{by:?}");
    }
    bucket.delete(LEASE, entry.revision, None).await?;
    assert_eq!(ask(&world, &"x".repeat(200)).await?, Request::Nobody, "as long as a name may be");
    Ok(())
}

/// Asked to mark a holder, it reaches for everything else.
struct Strays;

impl Decisions for Strays {
    const NAME: &'static str = "Strays";
    const VERSION: &'static str = "0.0.0";

    fn step_down(
        io: &mut impl Imports,
        lease: &str,
        _: &str,
    ) -> Result<incumbent_policy::lease::Request, Trouble> {
        let seen = match io.get(Role::Lease, lease) {
            Ok(imports::Reading::Found(entry)) => entry.revision,
            _ => 0,
        };
        let answers = [
            io.update(Role::Lease, lease, b"{}", seen).map(drop),
            io.get(Role::Plans, lease).map(drop),
            io.update(Role::Running, lease, b"{}", 1).map(drop),
            io.get(Role::Lease, "another").map(drop),
            io.update(Role::Lease, "another", b"{}", 1).map(drop),
        ];
        Err(Trouble::Misfit(format!("at {}: {answers:?}", io.now().steady_ns)))
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_reaches_that_lease_only() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let (_alice, _bob) = world.alice_holds().await;
    let strays = Policy::of(incumbent_native::version::<Strays>("Strays"));
    let asked = step_down(&strays, &bucket, &world.clock, LEASE, "ops").await;
    let Err(LeaseError::Misfit(answers)) = asked else { panic!("{asked:?}") };
    for refused in [&format!("at {}:", world.clock.now().0), "for the bucket Plans", "for the bucket Running"]
    {
        assert_eq!(answers.matches(refused).count(), 1, "{answers}");
    }
    assert_eq!(answers.matches("is asked to give way").count(), 2, "{answers}");
    assert_eq!(answers.matches("than the mark").count(), 1, "{answers}");
    let nameless = step_down(&strays, &bucket, &world.clock, "", "ops").await;
    assert!(matches!(&nameless, Err(LeaseError::Store(Fault::Denied(_)))), "{nameless:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_leases_are_told_by_their_names() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let (alice, _bob) = world.alice_holds().await;
    bucket.create("a broken one", b"garbage").await?;
    bucket.create("z", b"garbage").await?;
    let told = list(policy().await, &bucket, &world.clock, None, 2).await?;
    let [broken, held] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((broken.name.as_str(), held.name.as_str()), ("a broken one", LEASE));
    assert!(broken.holder.is_err(), "{broken:?}");
    let epoch = alice.lease.epoch()?;
    assert!(held.holder.as_ref().is_ok_and(|holder| holder.epoch == epoch), "{held:?}");
    let after = list(policy().await, &bucket, &world.clock, Some(LEASE), 2).await?;
    assert!(matches!(after.as_slice(), [z] if z.name == "z"), "{after:?}");
    Ok(())
}

/// A lease's bucket and store of their own.
async fn bucket() -> Result<(World, Arc<dyn Bucket>)> {
    let world = World::new().await;
    let bucket = world.faulty.bare().await?;
    Ok((world, bucket))
}

#[tokio::test(start_paused = true)]
async fn what_is_no_holder_is_cleared_only_after_no_gate_can_be_open() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let (alice, bob) = world.alice_holds().await;
    world.pass(RENEW / 2).await;
    // Somebody writes over it; alice's gate is open, and she does not know yet.
    let Reading::Found(entry) = bucket.get(LEASE).await? else { panic!("alice holds it") };
    assert!(matches!(bucket.update(LEASE, b"garbage", entry.revision).await?, Write::Written(_)));
    assert!(alice.lease.held());

    let cleared = clear(policy().await, &bucket, &world.clock, LEASE);
    // World sees in every step that no two gates are open.
    let taking = bob.take();
    let (cleared, took) = world.until(TTL + MARGIN, cleared).await;
    assert!(matches!(cleared?, Cleared::Deleted | Cleared::AgedOut));
    assert!(took >= TTL - Duration::from_millis(20), "{took:?}");
    assert!(!alice.lease.held());
    drop(taking);
    bob.lease.release().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_time_on_the_way_to_the_first_look_does_not_count_for_a_clearing() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let line = world.faulty.line("operator");
    line.once(Kind::Get, Fate::Slow(TTL / 2));
    let slow = line.bucket(BUCKET).await?;
    let clearing = {
        let clock = world.clock.clone();
        tokio::spawn(async move { clear(policy().await, &slow, &clock, LEASE).await })
    };
    // Written just before the look arrives, as if over a holder's record.
    world.pass(TTL / 2 - RENEW / 2).await;
    bucket.create(LEASE, b"garbage").await?;

    let (cleared, took) = world.until(TTL * 2, clearing).await;

    assert!(matches!(cleared??, Cleared::Deleted | Cleared::AgedOut));
    assert!(took >= TTL, "cleared {took:?} after it was written");
    let looks = line.ops_of(Kind::Get).len();
    assert!(looks <= 80, "twice a second, and some: {looks}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn in_a_bucket_without_age_it_is_deleted_at_once() -> Result<()> {
    let world = World::new().await;
    let line = world.faulty.line("ops");
    world.faulty.claim_ttl(Duration::ZERO);
    let ageless = line.bucket(BUCKET).await?;
    ageless.create(LEASE, b"garbage").await?;
    let cleared = clear(policy().await, &ageless, &world.clock, LEASE).await?;
    assert_eq!(cleared, Cleared::Deleted);
    assert!(matches!(ageless.get(LEASE).await?, Reading::Deleted(_)));
    // In another bucket, raised again meanwhile, it would free nothing.
    let meant_for: Vec<_> = line.ops_of(Kind::Delete).iter().map(|op| op.meant_for).collect();
    assert_eq!(meant_for, [Some(ageless.info().await?.created)]);
    assert_eq!(clear(policy().await, &ageless, &world.clock, LEASE).await?, Cleared::Nothing);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_never_cleared() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let (alice, _bob) = world.alice_holds().await;
    let refused = clear(policy().await, &bucket, &world.clock, LEASE).await;
    assert!(matches!(&refused, Err(LeaseError::Taken(holder)) if holder.instance == "alice"), "{refused:?}");
    assert!(alice.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_written_anew_while_it_is_watched_is_left_alone() -> Result<()> {
    let (world, bucket) = bucket().await?;
    let Write::Written(revision) = bucket.create(LEASE, b"garbage").await? else { panic!("free") };
    let clearing = {
        let (bucket, clock) = (bucket.clone(), world.clock.clone());
        tokio::spawn(async move { clear(policy().await, &bucket, &clock, LEASE).await })
    };
    world.pass(TTL / 2).await;
    bucket.update(LEASE, b"more garbage", revision).await?;
    let (cleared, took) = world.until(TTL, clearing).await;
    assert!(matches!(cleared?, Err(LeaseError::Unsure(Fault::Unavailable(why))) if why.contains("anew")));
    assert!(took < RENEW, "said at the next look: {took:?}");
    assert!(matches!(bucket.get(LEASE).await?, Reading::Found(_)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_written_in_a_bucket_raised_again_is_left_alone() -> Result<()> {
    let bob = br#"{"instance":"bob","epoch":1,"nonce":"b1"}"#.as_slice();
    for written in [b"garbage".as_slice(), bob] {
        let (world, bucket) = bucket().await?;
        bucket.create(LEASE, b"garbage").await?;
        let clearing = {
            let (bucket, clock) = (bucket.clone(), world.clock.clone());
            tokio::spawn(async move { clear(policy().await, &bucket, &clock, LEASE).await })
        };
        // Between two looks: at the same revision.
        world.pass(TTL / 2).await;
        world.faulty.wipe().await?;
        assert_eq!(bucket.create(LEASE, written).await?, Write::Written(1));

        let (cleared, _) = world.until(TTL, clearing).await;

        let cleared = cleared?;
        assert!(matches!(&cleared, Err(LeaseError::Unsure(_))), "{cleared:?}");
        assert!(matches!(bucket.get(LEASE).await?, Reading::Found(entry) if entry.value == written));
    }
    Ok(())
}
