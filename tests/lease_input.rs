//! Names, timings, buckets and records that do not fit: refused with words that help.

use std::time::Duration;

use incumbent::lease::{LeaseError, Timing};
use incumbent::store::{Fault, Reading};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{BUCKET, LEASE, POLL, RENEW, TTL, World};

/// What `open` answers under these timings.
async fn under(world: &World, timing: Timing) -> Result<(), LeaseError> {
    world.stand_with("alice", |options| options.timing = timing).await.map(drop)
}

fn misfit(opened: Result<(), LeaseError>) -> String {
    match opened {
        Err(LeaseError::Misfit(text)) => text,
        other => panic!("it does not fit: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_do_not_fit_are_refused_before_any_io() {
    let world = World::new().await;
    for (name, says) in
        [(String::new(), "empty"), ("x".repeat(300), "300 bytes"), ("é".repeat(101), "202 bytes")]
    {
        let opened = world.stand_with("alice", |options| options.name = name).await;
        let Err(LeaseError::Store(Fault::Denied(text))) = opened.map(drop) else { panic!("does not fit") };
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(world.faulty.ops(), []);
}

#[tokio::test(start_paused = true)]
async fn any_other_name_is_a_lease_of_its_own() -> anyhow::Result<()> {
    let world = World::new().await;
    for name in ["labeler:did:plc:abc", "..", "*", ">", "a b", "ünïcödé 🦀", &"x".repeat(200)] {
        let stand = world.stand_with(name, |options| options.name = name.into()).await?;
        stand.lease.try_take().await?;
        assert_eq!(stand.lease.current().await?.map(|holder| holder.instance), Some(name.into()));
        // The world looks for two open gates of one lease.
        stand.lease.release().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn timings_that_do_not_fit_are_refused_with_their_numbers() {
    let world = World::new().await;
    let at = |renew: u64, margin: u64| Timing {
        renew_every: Some(Duration::from_secs(renew)),
        margin: Some(Duration::from_secs(margin)),
        ..Timing::default()
    };
    for (renew, margin) in [(12, 3), (20, 3), (5, 10), (5, 15)] {
        let text = misfit(under(&world, at(renew, margin)).await);
        for number in [format!("{renew} s"), format!("{margin} s"), "15 s".into()] {
            assert!(text.contains(&number), "{number} in {text:?}");
        }
    }
    under(&world, at(11, 3)).await.expect("14 s are below 15 s");
}

#[tokio::test(start_paused = true)]
async fn for_workers_a_renew_interval_that_does_not_fit_becomes_a_third_of_the_ttl() {
    let world = World::new().await;
    let renew_every = async |seconds: u64, margin: Option<u64>| {
        let timing = Timing {
            renew_every: Some(Duration::from_secs(seconds)),
            margin: margin.map(Duration::from_secs),
            lenient: true,
            ..Timing::default()
        };
        let stand = world.stand_with("alice", |options| options.timing = timing).await;
        stand.map(|stand| stand.lease.terms().renew_every_ns / 1_000_000_000)
    };
    for (given, is) in [(20, 5), (15, 5), (12, 5), (11, 11), (1, 1)] {
        assert_eq!(renew_every(given, None).await.ok(), Some(is), "{given} s");
    }
    // A margin that leaves no room for it is refused still.
    assert!(renew_every(20, Some(10)).await.is_err());
    assert!(renew_every(0, None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn durations_of_nothing_and_for_ever_are_refused_or_harmless() -> anyhow::Result<()> {
    let world = World::new().await;
    let plain = Timing::default();
    let zero = Some(Duration::ZERO);
    for timing in [
        Timing { renew_every: zero, ..plain },
        Timing { margin: zero, ..plain },
        Timing { poll: zero, ..plain },
    ] {
        assert!(misfit(under(&world, timing).await).contains("above zero"));
    }
    for ever in [Duration::MAX, Duration::from_nanos(u64::MAX), Duration::from_nanos(u64::MAX - 1)] {
        misfit(under(&world, Timing { renew_every: Some(ever), ..plain }).await);
        misfit(under(&world, Timing { margin: Some(ever), ..plain }).await);
        misfit(under(&world, Timing { renew_every: Some(ever), margin: Some(ever), ..plain }).await);

        // A poll may be as long as it likes: the watch wakes the candidate.
        let timing = Timing { poll: Some(ever), ..plain };
        let (alice, bob) =
            (world.stand("alice").await, world.stand_with("bob", |o| o.timing = timing).await?);
        alice.lease.try_take().await?;
        let taking = bob.take();
        world.pass(POLL).await;
        alice.lease.release().await;
        world.until(POLL, taking).await.0??;
        bob.lease.release().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bucket_without_a_ttl_is_refused() {
    let world = World::new().await;
    world.faulty.claim_ttl(Duration::ZERO);
    let text = misfit(under(&world, Timing::default()).await);
    assert!(text.contains(BUCKET) && text.contains("for ever"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_whose_ttl_is_too_short_is_refused_with_the_numbers() {
    let world = World::new().await;
    world.faulty.claim_ttl(Duration::from_millis(999));
    let seconds = |n| Some(Duration::from_secs(n));
    let text = misfit(
        under(&world, Timing { renew_every: seconds(5), margin: seconds(3), ..Timing::default() }).await,
    );
    assert!(text.contains("999 ms") && text.contains("5 s") && text.contains("3 s"), "{text}");
    // What is not given is a share of the ttl, whatever it is.
    under(&world, Timing::default()).await.expect("333 ms and 199.8 ms fit 999 ms");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_whose_ttl_is_another_by_now_is_refused() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    world.faulty.claim_ttl(2 * TTL);
    let tried = alice.lease.take().await;
    assert!(
        matches!(&tried, Err(LeaseError::Misfit(text)) if text.contains("30 s") && text.contains("15 s")),
        "{tried:?}"
    );
    assert_eq!(alice.line.ops_of(Kind::Create), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_out_of_reach_or_without_the_bucket_is_an_error_of_opening() {
    let world = World::new().await;
    let policy = incumbent_tests::world::policy().await;
    let line = world.faulty.line("alice");
    let options = incumbent::LeaseOptions::new(LEASE);
    let opened = incumbent::Lease::open(policy, &line, "nowhere", options.clone()).await;
    assert!(
        matches!(&opened, Err(LeaseError::Store(Fault::MissingBucket(text))) if text.contains("nowhere"))
    );
    line.once(Kind::Info, Fate::Fails(Fault::Unavailable("no route".into())));
    let opened = incumbent::Lease::open(policy, &line, BUCKET, options).await;
    assert!(matches!(&opened, Err(why @ LeaseError::Store(Fault::Unavailable(_))) if why.passes()));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_no_holder_is_an_error_and_never_nobody() -> anyhow::Result<()> {
    let long = format!(r#"{{"instance":"{}"}}"#, "x".repeat(9 << 10));
    for record in [
        "not json",
        "",
        "{}",
        "[]",
        r#"{"instance":""}"#,
        r#"{"instance":7}"#,
        r#"{"instance":"a","epoch":-1}"#,
        &long,
    ] {
        let world = World::new().await;
        world.faulty.bare().await?.create(LEASE, record.as_bytes()).await?;
        let bob = world.stand("bob").await;

        let tried = bob.lease.take().await;

        assert!(
            matches!(&tried, Err(LeaseError::NotAHolder(text)) if text.contains(LEASE)),
            "{record:?}: {tried:?}"
        );
        assert!(matches!(bob.lease.current().await, Err(LeaseError::NotAHolder(_))));
        let Reading::Found(entry) = world.record().await else { panic!("it is gone") };
        assert_eq!(entry.value, record.as_bytes());
        assert!(bob.line.ops().iter().all(|op| op.value.is_none()), "nothing was written");
    }
    Ok(())
}

/// As an older controller writes it, in Go: no nonce, the epoch left out until its first renewal.
const OLDER_TAKEN: &str = r#"{"instance":"north/4242/1767225600","host":"north","build":"v1.4.0","taken":"2026-01-01T00:00:00.123456789Z","renewed":"2026-01-01T00:00:00.123456789Z"}"#;

#[tokio::test(start_paused = true)]
async fn an_older_controllers_record_is_read_waited_for_and_taken_over() -> anyhow::Result<()> {
    let world = World::new().await;
    world.faulty.bare().await?.create(LEASE, OLDER_TAKEN.as_bytes()).await?;
    let bob = world.stand("bob").await;
    let Err(LeaseError::Taken(holder)) = bob.lease.try_take().await else { panic!("it is held") };
    assert_eq!((holder.instance.as_str(), holder.host.as_str()), ("north/4242/1767225600", "north"));
    assert_eq!((holder.epoch, holder.revision, holder.nonce.as_str()), (1, 1, ""));

    let (epoch, took) = world.until(2 * TTL, bob.lease.take()).await;

    assert!(epoch? > holder.epoch);
    assert!(took >= TTL, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_older_controllers_record_of_ones_own_name_is_not_ones_own() -> anyhow::Result<()> {
    let world = World::new().await;
    world.faulty.bare().await?.create(LEASE, br#"{"instance":"bob","taken":"","renewed":""}"#).await?;
    let bob = world.stand("bob").await;
    let tried = bob.lease.try_take().await;
    assert!(matches!(&tried, Err(LeaseError::Taken(holder)) if holder.instance == "bob"), "{tried:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_record_of_ours_has_the_older_controllers_layout_and_one_field_more() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand_with("alice", |options| options.build = "v2".into()).await?;
    let nonce = alice.lease.identity().nonce.clone();
    let bytes = |reading| match reading {
        Reading::Found(entry) => String::from_utf8(entry.value),
        other => panic!("no record: {other:?}"),
    };

    let epoch = alice.lease.try_take().await?;
    let taken = r#""taken":"2027-01-15T09:00:00Z""#;
    assert_eq!(
        bytes(world.record().await)?,
        format!(
            r#"{{"instance":"alice","host":"alice.example","build":"v2",{taken},"renewed":"2027-01-15T09:00:00Z","nonce":"{nonce}"}}"#
        )
    );

    world.pass(RENEW + POLL).await;
    assert_eq!(
        bytes(world.record().await)?,
        format!(
            r#"{{"instance":"alice","host":"alice.example","build":"v2","epoch":{epoch},{taken},"renewed":"2027-01-15T09:00:05Z","nonce":"{nonce}"}}"#
        )
    );
    Ok(())
}
