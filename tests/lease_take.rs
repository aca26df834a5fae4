//! Who gets the lease, when, and at which epoch.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use incumbent::lease::{Event, LeaseError, NotHeld};
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::{Bucket, BucketConfig, Fault, Reading, Store};
use incumbent::{Lease, LeaseOptions, Vacancy};
use incumbent_tests::faulty::{Fate, Kind, Line};
use incumbent_tests::world::{BUCKET, LEASE, MARGIN, POLL, TTL, World, policy};

/// What a wake-up takes at the most.
const AT_ONCE: Duration = Duration::from_millis(50);
/// The longest pause between two looks, and the step of the world's time.
const LOOK: Duration = POLL.saturating_mul(5).checked_div(4).unwrap().saturating_add(AT_ONCE);

fn unavailable() -> Fate {
    Fate::Fails(Fault::Unavailable("the store is away".into()))
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_at_its_records_revision() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::NotTaken));
    assert_eq!((alice.lease.until(), alice.lease.renewed()), (None, None));

    let epoch = alice.lease.try_take().await?;

    let Reading::Found(entry) = world.record().await else { panic!("there is a record") };
    assert_eq!(entry.revision, epoch);
    assert_eq!(alice.lease.epoch(), Ok(epoch));
    let holder = world.holder().await.expect("it names a holder");
    assert_eq!((holder.instance.as_str(), holder.epoch), ("alice", epoch));
    assert_eq!(holder.nonce, alice.lease.identity().nonce);
    let until = world.clock.now().plus(TTL - MARGIN);
    assert_eq!(alice.events.all(), [Event::Taken { epoch, until }]);
    assert_eq!((alice.lease.until(), alice.lease.renewed()), (Some(until), Some(world.clock.now())));

    assert_eq!(alice.lease.try_take().await?, epoch, "taken already");
    assert_eq!(alice.line.ops_of(Kind::Create).len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_at_a_held_lease_names_its_holder() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;

    let Err(LeaseError::Taken(holder)) = bob.lease.try_take().await else { panic!("alice holds it") };

    assert_eq!((holder.instance.as_str(), holder.epoch), ("alice", alice.lease.epoch()?));
    assert_eq!(bob.lease.current().await?.map(|holder| holder.instance), Some("alice".into()));
    assert_eq!(bob.line.ops_of(Kind::Create), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiting_candidate_is_woken_by_the_release() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let first = alice.lease.epoch()?;
    let taking = bob.take();
    world.pass(RENEWED_TWICE).await;

    alice.lease.release().await;
    let (epoch, took) = world.until(TTL, taking).await;

    assert!(epoch?? > first);
    assert!(took <= AT_ONCE, "{took:?}");
    let waited =
        |event: &Event| matches!(event, Event::Waiting { holder: Some(alice) } if alice.instance == "alice");
    assert_eq!(bob.events.count(waited), 1, "said once, whatever alice renews: {:?}", bob.events.all());
    Ok(())
}

const RENEWED_TWICE: Duration = Duration::from_secs(11);

#[tokio::test(start_paused = true)]
async fn a_candidate_that_may_not_watch_polls() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    bob.line.always(&[Kind::Watch], &Fate::Fails(Fault::Denied("no watching".into())));
    let taking = bob.take();
    world.settle().await;

    alice.lease.release().await;
    let (epoch, took) = world.until(TTL, taking).await;

    epoch??;
    assert!(took > AT_ONCE && took <= LOOK, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hears_nothing_costs_no_more_than_a_poll() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    bob.line.always(&[Kind::Watch], &Fate::Hangs);
    let taking = bob.take();
    world.settle().await;

    alice.lease.release().await;
    let (epoch, took) = world.until(TTL, taking).await;

    epoch??;
    assert!(took <= LOOK, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_as_it_begins_is_not_begun_in_a_hot_loop() {
    let world = World::new().await;
    let (_alice, bob) = world.alice_holds().await;
    bob.line.always(&[Kind::Watch], &Fate::RequestLost);
    let taking = bob.take();
    world.pass(10 * POLL).await;

    let begun = bob.line.ops_of(Kind::Watch).len();
    assert!((2..=15).contains(&begun), "one a poll, give or take a quarter: {begun}");
    taking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_with_its_bucket_is_begun_anew() -> anyhow::Result<()> {
    let world = World::new().await;
    let bob = world.stand_with("bob", |options| options.vacancy = Some(Vacancy::Watched)).await?;
    let taking = bob.take();
    world.pass(3 * POLL).await;
    assert_eq!(bob.line.ops_of(Kind::Watch).len(), 1, "it lives");

    world.faulty.wipe().await?;
    world.pass(3 * POLL).await;

    assert_eq!(bob.line.ops_of(Kind::Watch).len(), 2);
    taking.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_succeeded_after_its_records_life_and_no_earlier() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let first = alice.lease.epoch()?;
    let taking = bob.take();
    world.pass(RENEWED_TWICE).await;
    let written = alice.lease.renewed().expect("renewed");
    alice.line.always(&Kind::ALL, &Fate::Hangs);

    let (epoch, _) = world.until(2 * TTL, taking).await;

    assert!(epoch?? > first);
    let after = world.clock.now().since(written);
    assert!(after >= TTL && after <= TTL + LOOK, "{after:?}");
    assert!(matches!(alice.lease.epoch(), Err(NotHeld::Lost(_))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_twenty_candidates_one_succeeds() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.lease.try_take().await?;
    let mut candidates = Vec::new();
    for n in 0..20 {
        let stand = world.stand(&format!("bob-{n}")).await;
        let taking = stand.take();
        candidates.push((stand, taking));
    }
    world.settle().await;

    alice.lease.release().await;
    world.pass(Duration::from_secs(30)).await;

    let takers: Vec<_> = candidates.iter().filter(|(_, taking)| taking.is_finished()).collect();
    assert_eq!(takers.len(), 1);
    let (winner, _) = takers[0];
    assert_eq!(winner.lease.epoch()?, world.holder().await.expect("held").epoch);
    let waits = |event: &Event| matches!(event, Event::Waiting { holder: Some(holder) } if holder.instance == winner.lease.identity().instance);
    let waiting = candidates.iter().filter(|(stand, _)| stand.events.count(waits) == 1).count();
    assert_eq!(waiting, 19, "each of the others says once for whom it waits");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_lease_objects_of_one_instance_are_two_candidates() -> anyhow::Result<()> {
    let world = World::new().await;
    let (first, second) = (world.stand("alice").await, world.stand("alice").await);
    first.lease.try_take().await?;

    let tried = second.lease.try_take().await;

    assert!(matches!(&tried, Err(LeaseError::Taken(holder)) if holder.instance == "alice"), "{tried:?}");
    assert!(second.line.ops_of(Kind::Update).is_empty());
    let taking = second.take();
    first.lease.release().await;
    world.until(AT_ONCE, taking).await.0??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_waited_out_and_said_once_each_time() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = world.alice_holds().await;
    let retrying = |event: &Event| matches!(event, Event::Retrying { .. });
    bob.line.always(&[Kind::Get], &unavailable());
    let taking = bob.take();
    world.pass(5 * POLL).await;
    assert_eq!(bob.events.count(retrying), 1);

    bob.line.heal();
    world.pass(2 * POLL).await;
    bob.line.always(&[Kind::Info], &unavailable());
    world.pass(5 * POLL).await;
    assert_eq!(bob.events.count(retrying), 2);

    bob.line.heal();
    alice.lease.release().await;
    world.until(LOOK, taking).await.0??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_mend_ends_the_take() -> anyhow::Result<()> {
    let world = World::new().await;
    let bob = world.stand("bob").await;
    let denied = Fault::Denied("no writing".into());

    bob.line.once(Kind::Create, Fate::Fails(denied.clone()));
    let tried = bob.lease.take().await;
    assert!(matches!(&tried, Err(LeaseError::Unwritable(fault)) if *fault == denied), "{tried:?}");

    bob.line.once(Kind::Get, Fate::Fails(denied.clone()));
    let tried = bob.lease.take().await;
    assert!(matches!(&tried, Err(LeaseError::Unreadable(fault)) if *fault == denied), "{tried:?}");

    // Refused, and nobody knows whether somebody holds it: no reason to serve without it.
    bob.line.once(Kind::Create, Fate::Fails(denied));
    // The first look is the one before the create.
    bob.line.nth(Kind::Get, 2, unavailable());
    let (taking, _) = world.until(LOOK, bob.lease.take()).await;
    taking?;
    Ok(())
}

/// A store on servers, which may lose a bucket.
#[derive(Debug)]
struct Servers(Line);

#[async_trait]
impl Store for Servers {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        self.0.bucket(name).await
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        self.0.create_bucket(name, config).await
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        self.0.queue(name).await
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        self.0.create_queue(name, config).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_servers_lost_is_waited_for_and_one_of_this_machine_is_not() -> anyhow::Result<()> {
    let missing = Fate::Fails(Fault::MissingBucket("no bucket leases".into()));
    let world = World::new().await;
    let bob = world.stand("bob").await;
    bob.line.once(Kind::Get, missing.clone());
    let tried = bob.lease.take().await;
    assert!(tried.as_ref().is_err_and(LeaseError::is_missing_bucket), "{tried:?}");

    let line = world.faulty.line("carol");
    line.always(&[Kind::Get], &missing);
    let mut options = LeaseOptions::new(LEASE);
    options.clock = world.clock.clone();
    let carol = Arc::new(Lease::open(policy().await, &Servers(line.clone()), BUCKET, options).await?);
    let lease = carol.clone();
    let taking = tokio::spawn(async move { lease.take().await });
    world.pass(2 * TTL).await;
    assert!(!taking.is_finished());
    line.heal();
    world.until(2 * TTL, taking).await.0??;
    assert!(carol.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stale_absence_takes_nothing_from_a_holder() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    bob.line.freeze(LEASE).await?;
    alice.lease.try_take().await?;

    let tried = bob.lease.try_take().await;

    assert!(matches!(tried, Err(LeaseError::NotYetFree)), "{tried:?}");
    assert_eq!(bob.line.ops_of(Kind::Create)[0].won, None);
    assert!(alice.lease.held());
    Ok(())
}
