//! What an absence is worth: when a lease without a record is free.

use std::sync::Arc;
use std::time::Duration;

use incumbent::floor::MemoryFloor;
use incumbent::lease::{Ended, Event, LeaseError};
use incumbent::store::{Fault, Write};
use incumbent::{LeaseOptions, Loss, Vacancy};
use incumbent_tests::faulty::{Fate, Kind, Line};
use incumbent_tests::world::{LEASE, MARGIN, POLL, RENEW, TTL, World};

/// What a wake-up takes at the most.
const AT_ONCE: Duration = Duration::from_millis(50);
/// A poll, give or take a quarter, and a few steps.
const LOOK: Duration = Duration::from_millis(1300);

/// How long a record stands before it is acted on where the store may forget: two gaps of half a renew interval.
const ANNOUNCED: Duration = RENEW;

fn under(rule: Vacancy) -> impl FnOnce(&mut LeaseOptions) {
    move |options| options.vacancy = Some(rule)
}

#[tokio::test(start_paused = true)]
async fn a_key_never_seen_is_free_at_once_only_where_absence_is_trusted() -> anyhow::Result<()> {
    for (rule, waits) in
        [(Vacancy::Trusted, Duration::ZERO), (Vacancy::Watched, TTL), (Vacancy::Delayed, TTL + ANNOUNCED)]
    {
        let world = World::new().await;
        let bob = world.stand_with("bob", under(rule)).await?;

        let (epoch, took) = world.until(2 * TTL, bob.lease.take()).await;

        epoch?;
        assert!(took >= waits && took <= waits + AT_ONCE, "{rule:?}: {took:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_says_that_it_is_not_surely_free() -> anyhow::Result<()> {
    let world = World::new().await;
    let bob = world.stand_with("bob", under(Vacancy::Watched)).await?;
    for _ in 0..3 {
        let tried = bob.lease.try_take().await;
        assert!(matches!(tried, Err(LeaseError::NotYetFree)), "{tried:?}");
    }
    // What was seen is kept between tries.
    world.pass(TTL).await;
    bob.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_record_is_free_at_once_where_the_store_does_not_forget() -> anyhow::Result<()> {
    for rule in [Vacancy::Trusted, Vacancy::Watched] {
        let took = until_bob_has_what_alice_gave_back(rule).await?;
        assert!(took <= AT_ONCE, "{rule:?}: {took:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_is_waited_for_a_ttl_where_the_store_may_forget() -> anyhow::Result<()> {
    let took = until_bob_has_what_alice_gave_back(Vacancy::Delayed).await?;
    assert!(took >= TTL + ANNOUNCED && took <= TTL + ANNOUNCED + AT_ONCE, "{took:?}");
    Ok(())
}

async fn until_bob_has_what_alice_gave_back(rule: Vacancy) -> anyhow::Result<Duration> {
    let world = World::new().await;
    let (alice, _) = world.alice_holds().await;
    let bob = world.stand_with("bob", under(rule)).await?;
    let taking = bob.take();
    world.settle().await;

    alice.lease.release().await;
    let (epoch, took) = world.until(2 * TTL, taking).await;

    epoch??;
    Ok(took)
}

/// Nobody keeps his floor for the next: no revision is moved, so the bucket raised again gives them once more.
fn alone(options: &mut LeaseOptions) {
    options.vacancy = Some(Vacancy::Watched);
    options.floor = Arc::new(MemoryFloor::default());
}

/// Dave has the lease at the first revision and gives it back by a deletion that stays on its way; meanwhile the bucket is
/// raised again.
async fn dave_gives_it_back_over_a_wipe(world: &World) -> anyhow::Result<Line> {
    let dave = world.stand_with("dave", alone).await?;
    let (epoch, _) = world.until(2 * TTL, dave.lease.take()).await;
    assert_eq!(epoch?, 1);
    let line = dave.line.clone();
    line.once(Kind::Delete, Fate::HeldBack);
    tokio::spawn(async move { dave.lease.release().await });
    line.hits(1).await;
    world.faulty.wipe().await?;
    Ok(line)
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_comes_into_a_bucket_raised_again_frees_nothing() -> anyhow::Result<()> {
    // Whether carol saw that bob has it, or nothing but an absence before it and the deletion after it.
    for sees_bob in [true, false] {
        let world = World::new().await;
        let dave = dave_gives_it_back_over_a_wipe(&world).await?;
        let bob = world.stand_with("bob", alone).await?;
        let carol = world.stand_with("carol", alone).await?;
        let bob_taking = bob.take();
        world.pass(RENEW).await;
        let carol_taking = carol.take();
        world.settle().await;
        if !sees_bob {
            carol.line.freeze(LEASE).await?;
        }
        let (epoch, _) = world.until(2 * TTL, bob_taking).await;
        assert_eq!(epoch??, 1, "the revision is given once more");
        world.settle().await;

        // Two gates would be seen in whatever time passes now.
        let landed = dave.deliver().await.expect("one was on its way")?;
        carol.line.heal();
        let (took, since) = world.until(3 * TTL, carol_taking).await;

        took??;
        assert!(matches!(landed, Write::Written(_)), "{landed:?}");
        assert_eq!(bob.lease.ended(), Some(Ended::Lost(Loss::Gone)));
        assert!(since >= TTL && since <= TTL + LOOK, "{since:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_slow_does_not_win_over_what_was_erased_meanwhile() -> anyhow::Result<()> {
    let world = World::new().await;
    let dave = dave_gives_it_back_over_a_wipe(&world).await?;
    let (alice, bob) = (world.stand_with("alice", alone).await?, world.stand_with("bob", alone).await?);
    for stand in [&alice, &bob] {
        stand.line.once(Kind::Create, Fate::HeldBack);
    }
    let (alice_taking, bob_taking) = (alice.take(), bob.take());
    world.until(2 * TTL, alice.line.hits(1)).await;
    world.until(TTL, bob.line.hits(1)).await;
    bob.line.deliver().await.expect("one was on its way")?;
    world.until(TTL, bob_taking).await.0??;

    // Bob's record is taken away, which he does not know before he renews, when her create arrives.
    dave.deliver().await.expect("one was on its way")?;
    let landed = alice.line.deliver().await.expect("one was on its way")?;
    let (took, since) = world.until(3 * TTL, alice_taking).await;

    took??;
    assert_eq!(landed, Write::Stale(None));
    assert!(since >= TTL, "{since:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_of_ones_own_that_came_late_over_anothers_is_not_adopted() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand_with("alice", alone).await?;
    // Her record is found, and renewed to be sure of it, which lies on its way for longer than a ttl.
    alice.line.once(Kind::Create, Fate::AnswerLost);
    alice.line.once(Kind::Update, Fate::HeldBack);
    let taking = alice.take();
    world.until(2 * TTL, alice.line.hits(2)).await;
    taking.abort();
    world.faulty.wipe().await?;
    let alice_taking = alice.take();
    let bob = world.stand_with("bob", alone).await?;
    // She sees the new bucket before he does, and then nothing until he has the lease.
    world.pass(RENEW).await;
    let bob_taking = bob.take();
    world.pass(POLL).await;
    let away = Fate::Fails(Fault::Unavailable("away".into()));
    alice.line.always(&[Kind::Get], &away);
    world.until(2 * TTL, bob_taking).await.0??;

    let landed = alice.line.deliver().await.expect("one was on its way")?;
    alice.line.heal();
    let (took, since) = world.until(3 * TTL, alice_taking).await;

    took??;
    assert!(matches!(landed, Write::Written(2)), "{landed:?}");
    assert!(since >= TTL, "{since:?}");
    assert!(!bob.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_that_the_store_says_aged_out_is_free_at_once_unless_the_store_may_forget()
-> anyhow::Result<()> {
    for rule in [Vacancy::Trusted, Vacancy::Watched, Vacancy::Delayed] {
        let world = World::new().await;
        let (alice, _) = world.alice_holds().await;
        alice.line.always(&Kind::ALL, &Fate::Hangs);
        world.pass(TTL).await;
        let cold = world.stand_with("bob", under(rule)).await?;

        let tried = cold.lease.try_take().await;

        if rule == Vacancy::Delayed {
            assert!(matches!(tried, Err(LeaseError::NotYetFree)), "{tried:?}");
        } else {
            tried?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_that_vanished_at_its_age_costs_a_warm_watcher_nothing() -> anyhow::Result<()> {
    // Under `Delayed` nothing that was seen counts, but the absence itself.
    for (rule, extra) in [(Vacancy::Watched, Duration::ZERO), (Vacancy::Delayed, TTL + ANNOUNCED)] {
        let world = World::new().await;
        world.faulty.drop_markers();
        let (alice, _) = world.alice_holds().await;
        let bob = world.stand_with("bob", under(rule)).await?;
        let taking = bob.take();
        world.pass(RENEW + POLL).await;
        let written = alice.lease.renewed().expect("renewed");
        alice.line.always(&Kind::ALL, &Fate::Hangs);

        let (epoch, _) = world.until(3 * TTL, taking).await;

        epoch??;
        let after = world.clock.now().since(written);
        assert!(after >= TTL + extra && after <= TTL + extra + 2 * LOOK, "{rule:?}: {after:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_that_vanished_before_a_cold_watcher_came_is_waited_for_a_ttl() -> anyhow::Result<()> {
    let world = World::new().await;
    world.faulty.drop_markers();
    let (alice, _) = world.alice_holds().await;
    alice.line.always(&Kind::ALL, &Fate::Hangs);
    world.pass(2 * TTL).await;
    let cold = world.stand_with("bob", under(Vacancy::Watched)).await?;

    let (epoch, took) = world.until(2 * TTL, cold.lease.take()).await;

    epoch?;
    assert!(took >= TTL && took <= TTL + AT_ONCE, "{took:?}");
    assert_eq!(cold.events.all()[0], Event::Waiting { holder: None });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bucket_raised_again_is_watched_for_a_ttl_by_the_cold_and_the_warm() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _) = world.alice_holds().await;
    let first = alice.lease.epoch()?;
    let warm = world.stand_with("bob", under(Vacancy::Watched)).await?;
    let warm_taking = warm.take();
    world.pass(2 * TTL).await;

    world.faulty.wipe().await?;
    let cold = world.stand_with("carol", under(Vacancy::Watched)).await?;
    let cold_taking = cold.take();

    let wiped = world.clock.now();
    while warm.events.count(is_taken) + cold.events.count(is_taken) == 0 {
        assert!(world.clock.now().since(wiped) < 2 * TTL, "somebody takes it");
        world.pass(POLL / 10).await;
    }
    let took = world.clock.now().since(wiped);
    assert!(took >= TTL && took <= TTL + LOOK, "{took:?}");
    assert_eq!(alice.lease.ended(), Some(Ended::Lost(Loss::RaisedAgain)));
    assert!(world.holder().await.expect("held").epoch > first);
    warm_taking.abort();
    cold_taking.abort();
    Ok(())
}

fn is_taken(event: &Event) -> bool {
    matches!(event, Event::Taken { .. })
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_record_is_not_taken_while_its_holders_gate_may_be_open() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _) = world.alice_holds().await;
    let bob = world.stand_with("bob", under(Vacancy::Delayed)).await?;
    let taking = bob.take();
    world.pass(2 * RENEW + POLL).await;
    // Alice does not hear of it: her gate stays open until its time.
    alice.line.always(&Kind::ALL, &Fate::Hangs);

    world.faulty.forget(LEASE).await?;
    let (epoch, took) = world.until(2 * TTL, taking).await;

    assert_eq!(bob.lease.epoch()?, epoch??);
    assert!(took >= TTL, "{took:?}");
    assert_eq!(alice.lease.ended(), Some(Ended::Lost(Loss::Overdue)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_created_record_that_is_forgotten_opens_no_second_gate() -> anyhow::Result<()> {
    for rolled_back in [false, true] {
        let world = World::new().await;
        let alice = world.stand_with("alice", under(Vacancy::Delayed)).await?;
        let bob = world.stand_with("bob", under(Vacancy::Delayed)).await?;
        let alice_taking = alice.take();
        world.pass(2 * POLL).await;
        // Bob hears of no change, and looks at his polls only; at none of them while alice's record is there.
        bob.line.always(&[Kind::Watch], &Fate::Hangs);
        let bob_taking = bob.take();
        world.pass(TTL - 2 * POLL - AT_ONCE).await;
        let cut = Fate::Fails(Fault::Unavailable("cut off".into()));
        bob.line.always(&[Kind::Get, Kind::Info], &cut);
        while alice.line.ops_of(Kind::Create).is_empty() {
            assert!(!bob_taking.is_finished());
            world.pass(AT_ONCE).await;
        }

        if rolled_back {
            world.faulty.roll_back(0).await?
        } else {
            world.faulty.forget(LEASE).await?
        }
        bob.line.heal();
        bob.line.always(&[Kind::Watch], &Fate::Hangs);
        assert!(!alice.lease.held(), "it is announced, and acted on by nobody yet");
        world.pass(2 * TTL).await;

        assert!(bob.lease.held());
        let taken = alice.events.count(is_taken) + bob.events.count(is_taken);
        assert_eq!(taken, 1, "rolled back: {rolled_back}");
        alice_taking.abort();
        bob_taking.abort();
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_missed_a_whole_tenure_begins_anew() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand_with("alice", under(Vacancy::Delayed)).await?;
    let bob = world.stand_with("bob", under(Vacancy::Delayed)).await?;
    let alice_taking = alice.take();
    world.pass(2 * POLL).await;
    let bob_taking = bob.take();
    world.pass(TTL - 3 * POLL).await;
    // Bob sees an absence, and then nothing of what alice does.
    let cut = Fate::Fails(Fault::Unavailable("cut off".into()));
    bob.line.always(&[Kind::Get, Kind::Info, Kind::Watch], &cut);
    world.until(TTL, alice_taking).await.0??;
    alice.line.always(&Kind::ALL, &Fate::Hangs);
    world.faulty.forget(LEASE).await?;
    let forgotten = world.clock.now();
    bob.line.heal();

    // The world sees to it that no two gates are open. Alice's is until here.
    world.pass(TTL - MARGIN - AT_ONCE).await;
    assert!(alice.lease.held() && !bob.lease.held());
    world.until(2 * TTL, bob_taking).await.0??;
    let took = world.clock.now().since(forgotten);
    assert!(took >= TTL + ANNOUNCED && took <= TTL + ANNOUNCED + 2 * LOOK, "{took:?}");
    Ok(())
}
