//! The delivery's side: which plans build is said by the lease's holder alone, again and again until it ended.

use std::sync::Arc;
use std::time::Duration;

use incumbent::holds::{Authority, Building, Claim, HoldsError, NotInOffice, PLANS, Plans, TTL};
use incumbent::store::{BucketConfig, Fault, Reading, Store as _};
use incumbent::{Lease, LeaseOptions};
use incumbent_tests::site::{Fate, Office, Said, Seat, What, Wire, away, found};
use incumbent_tests::world::policy;

const SECOND: Duration = Duration::from_secs(1);
/// How often it is said.
const SEEN: Duration = Duration::from_secs(30);
const PLAN: &str = "plan-12";

/// A controller whose office a test gives and takes.
struct Stand {
    plans: Plans,
    wire: Wire,
    said: Said,
    office: Arc<Office>,
}

impl Stand {
    async fn at(seat: &Seat) -> Self {
        let (wire, office) = (seat.wire(), Office::new(true));
        let authority: Arc<dyn Authority> = office.clone();
        let (plans, said) = seat.plans(&wire, &authority).await;
        Self { plans, wire, said, office }
    }

    async fn begins(&self) -> Building {
        self.plans.begin(PLAN).await.expect("in office")
    }

    fn writes(&self) -> usize {
        [What::Create, What::Update, What::Delete].map(|what| self.wire.count(what, PLANS)).iter().sum()
    }
}

async fn value(seat: &Seat) -> String {
    String::from_utf8(found(seat.plan(PLAN).await).value).expect("it is text")
}

fn building(since: &str, seen: &str) -> String {
    format!(r#"{{"plan":"plan-12","since":"2027-01-15T{since}Z","seen":"2027-01-15T{seen}Z"}}"#)
}

fn is_not_in_office<T: std::fmt::Debug>(answer: &Result<T, HoldsError>) -> bool {
    matches!(answer, Err(HoldsError::NotInOffice(_)))
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_builds_is_said_in_these_very_bytes_about_every_half_minute() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let plan = alice.begins().await;
    assert_eq!((plan.plan(), plan.since()), (PLAN, "2027-01-15T09:00:00Z"));
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:00"));
    seat.pass(SEEN - SECOND).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:00"));
    seat.pass(SECOND).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:30"));
    seat.pass(9 * SEEN).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:05:00"));
    assert_eq!(alice.writes(), 11);
    plan.end().await?;
    assert!(matches!(seat.plan(PLAN).await, Reading::Deleted(_)));
    seat.pass(2 * SEEN).await;
    assert_eq!((alice.writes(), alice.said.all().len()), (12, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn in_a_bucket_of_a_short_ttl_it_is_said_four_times_within_it() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    seat.memory.drop_bucket(PLANS);
    let config = BucketConfig { ttl: 20 * SECOND, replicas: 1 };
    seat.memory.create_bucket(PLANS, &config).await?;
    let alice = Stand::at(&seat).await;
    let _plan = alice.begins().await;
    seat.pass(5 * SECOND).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:05"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_new_controller_keeps_the_time_it_began() {
    let seat = Seat::new().await;
    Stand::at(&seat).await.plans.say(PLAN).await.expect("in office");
    seat.pass(SEEN).await;
    let plan = Stand::at(&seat).await.begins().await;
    assert_eq!(plan.since(), "2027-01-15T09:00:00Z");
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:30"));

    // What another program wrote too, in its own digits.
    let seat = Seat::new().await;
    seat.builds(PLAN).await;
    let _plan = Stand::at(&seat).await.begins().await;
    assert_eq!(value(&seat).await, building("08:50:00.5", "09:00:00"));
    seat.pass(SEEN).await;
    assert_eq!(value(&seat).await, building("08:50:00.5", "09:00:30"));
}

#[tokio::test(start_paused = true)]
async fn who_is_not_in_office_says_nothing() {
    let seat = Seat::new().await;
    seat.builds("plan-7").await;
    let there = seat.plan("plan-7").await;
    let alice = Stand::at(&seat).await;
    alice.office.set(false);
    let begun = alice.plans.begin(PLAN).await;
    assert!(is_not_in_office(&begun));
    let text = begun.expect_err("not in office").to_string();
    assert_eq!(text, "only the holder of the lease says what builds: bob holds it");
    assert!(is_not_in_office(&alice.plans.say(PLAN).await));
    assert!(is_not_in_office(&alice.plans.end("plan-7").await));
    assert_eq!((alice.writes(), seat.plan(PLAN).await), (0, Reading::Absent));
    assert_eq!(seat.plan("plan-7").await, there);
}

#[tokio::test(start_paused = true)]
async fn an_office_lost_before_the_write_itself_writes_nothing() {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let office = alice.office.clone();
    alice.wire.before(What::Get, PLANS, async move { office.set(false) });
    let begun = alice.plans.begin(PLAN).await.map(drop);
    assert!(matches!(&begun, Err(HoldsError::Store(Fault::Denied(_)))), "{begun:?}");
    assert_eq!((alice.writes(), seat.plan(PLAN).await), (0, Reading::Absent));
}

#[tokio::test(start_paused = true)]
async fn when_the_office_is_lost_nothing_is_said_any_more_and_the_plan_ages_out() {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let plan = alice.begins().await;
    seat.pass(SEEN).await;
    alice.office.set(false);
    let writes = alice.writes();
    seat.pass(TTL - SECOND).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:30"));
    seat.pass(SECOND).await;
    assert!(matches!(seat.plan(PLAN).await, Reading::Aged(_)));
    // Nor is it ended by one who came back: it is the next holder's to say.
    alice.office.set(true);
    assert!(is_not_in_office(&plan.end().await));
    assert_eq!(alice.writes(), writes);
}

/// The store that cannot be written cannot say either who is in office.
#[tokio::test(start_paused = true)]
async fn an_office_that_cannot_be_told_for_a_while_is_not_lost() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let plan = alice.begins().await;
    alice.office.say(Err(NotInOffice::Unsure("who holds it cannot be read".into())));
    seat.pass(SEEN + SECOND).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:00"));
    alice.office.set(true);
    seat.pass(SEEN / 5).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:36"));
    Ok(plan.end().await?)
}

#[tokio::test(start_paused = true)]
async fn a_saying_that_is_never_answered_is_cut_off_and_said_again() {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let _plan = alice.begins().await;
    alice.wire.once(What::Update, PLANS, Fate::Hangs);
    seat.pass(2 * SEEN + SEEN / 5).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:01:06"));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_another_wrote_over_is_said_again_by_who_is_in_office() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let _plan = alice.begins().await;
    let there = found(seat.plan(PLAN).await);
    let theirs = building("08:50:00", "08:59:00");
    seat.bucket(PLANS).await.update(PLAN, theirs.as_bytes(), there.revision).await?;
    seat.pass(SEEN).await;
    assert_eq!(value(&seat).await, building("08:50:00", "09:00:30"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_not_ended_by_who_lost_the_office() {
    for is_dropped in [true, false] {
        let seat = Seat::new().await;
        let alice = Stand::at(&seat).await;
        let plan = alice.begins().await;
        alice.office.set(false);
        if is_dropped {
            drop(plan)
        } else {
            assert!(plan.end().await.is_err())
        }
        seat.settle().await;
        assert_eq!(value(&seat).await, building("09:00:00", "09:00:00"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_aged_out_while_the_store_was_away_is_put_again_as_it_began() {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let _plan = alice.begins().await;
    alice.wire.always(What::Update, PLANS, Fate::Fails(away()));
    seat.pass(TTL + SECOND).await;
    assert!(matches!(seat.plan(PLAN).await, Reading::Aged(_)));
    assert_eq!(alice.said.troubles(), ["that plan-12 builds cannot be said: no connection"]);
    alice.wire.heal();
    // It is tried more often while it fails.
    seat.pass(SEEN / 5).await;
    assert!(value(&seat).await.starts_with(r#"{"plan":"plan-12","since":"2027-01-15T09:00:00Z","seen":"#));
    assert_eq!(alice.said.troubles().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_dropped_is_ended() {
    let seat = Seat::new().await;
    let plan = Stand::at(&seat).await.begins().await;
    drop(plan);
    seat.settle().await;
    assert!(matches!(seat.plan(PLAN).await, Reading::Deleted(_)));
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_ended_though_its_last_saying_was_not_answered() -> anyhow::Result<()> {
    for fate in [Fate::AnswerLost, Fate::Fails(away())] {
        let seat = Seat::new().await;
        let alice = Stand::at(&seat).await;
        let plan = alice.begins().await;
        alice.wire.once(What::Update, PLANS, fate);
        seat.pass(SEEN).await;
        assert_eq!(alice.wire.count(What::Update, PLANS), 1);
        plan.end().await?;
        assert!(matches!(seat.plan(PLAN).await, Reading::Deleted(_)));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_end_leaves_a_key_alone_that_moved_meanwhile() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, bob) = (Stand::at(&seat).await, Stand::at(&seat).await);
    let plan = alice.begins().await;
    seat.pass(SECOND).await;
    let bobs = bob.plans.say(PLAN).await?;
    plan.end().await?;
    assert_eq!(found(seat.plan(PLAN).await).revision, bobs.revision);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_another_hand_ended_stays_ended() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let (alice, bob) = (Stand::at(&seat).await, Stand::at(&seat).await);
    let plan = alice.begins().await;
    assert!(bob.plans.end(PLAN).await?);
    let ended = seat.plan(PLAN).await;
    assert!(matches!(ended, Reading::Deleted(_)));
    seat.pass(3 * SEEN).await;
    assert_eq!(seat.plan(PLAN).await, ended);
    plan.end().await?;
    assert_eq!((seat.plan(PLAN).await, alice.said.all().len()), (ended, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn ending_says_whether_the_plan_was_there() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    assert!(!alice.plans.end(PLAN).await?);
    seat.builds(PLAN).await;
    assert!(alice.plans.end(PLAN).await?);
    assert!(!alice.plans.end(PLAN).await?);
    seat.builds(PLAN).await;
    seat.pass(TTL).await;
    assert!(!alice.plans.end(PLAN).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn names_that_are_no_plan_id_are_refused() {
    let seat = Seat::new().await;
    let alice = Stand::at(&seat).await;
    let long = format!("plan-{}", "1".repeat(200));
    for name in
        ["", "plan-", "plan-x", "plan-12 ", "plan--12", "plan-１２", "12", "let-through", "../plan-1", &long]
    {
        for answer in [alice.plans.begin(name).await.map(drop), alice.plans.say(name).await.map(drop)] {
            assert!(matches!(&answer, Err(HoldsError::Store(Fault::Denied(_)))), "{name:?}: {answer:?}");
        }
        let _ = alice.plans.end(name).await;
    }
    assert_eq!(alice.wire.count(What::Create, PLANS), 0);
    let why = alice.plans.say("plan-x").await.expect_err("no plan id").to_string();
    assert_eq!(why, r#""plan-x" is no plan id; one looks like plan-1652"#);
}

#[tokio::test(start_paused = true)]
async fn a_missing_bucket_is_told_with_the_command_that_makes_it() {
    let seat = Seat::new().await;
    seat.memory.drop_bucket(PLANS);
    let why = Stand::at(&seat).await.plans.begin(PLAN).await.expect_err("there is no bucket");
    assert!(matches!(&why, HoldsError::Store(Fault::MissingBucket(text)) if text.contains("bucket create")));
}

/// By the gate of a lease in this process, and by the record of one that another process holds.
#[tokio::test(start_paused = true)]
async fn the_holder_of_a_lease_says_what_builds_and_says_no_more_once_it_gave_it_back() -> anyhow::Result<()>
{
    let seat = Seat::new().await;
    let config = BucketConfig { ttl: 15 * SECOND, replicas: 1 };
    let bucket = seat.memory.create_bucket("leases", &config).await?;
    let options = LeaseOptions { clock: seat.clock.clone(), ..LeaseOptions::new("controller") };
    let lease = Arc::new(Lease::open(policy().await, &seat.memory, "leases", options).await?);
    let (clock, policy) = (seat.clock.clone(), policy().await.clone());
    let claim = |epoch| {
        let (policy, bucket, clock) = (policy.clone(), bucket.clone(), clock.clone());
        Arc::new(Claim { policy, bucket, clock, lease: "controller".into(), epoch }) as Arc<dyn Authority>
    };
    let own: Arc<dyn Authority> = lease.clone();
    let (own, _) = seat.plans(&seat.wire(), &own).await;
    let (others, _) = seat.plans(&seat.wire(), &claim(1)).await;
    for plans in [&own, &others] {
        assert!(is_not_in_office(&plans.begin(PLAN).await));
    }

    let epoch = lease.try_take().await?;
    let plan = own.begin(PLAN).await?;
    let (claimed, _) = seat.plans(&seat.wire(), &claim(epoch)).await;
    let wire = seat.wire();
    wire.always(What::Get, "leases", Fate::Fails(away()));
    let blind = Claim {
        policy: policy.clone(),
        bucket: wire.bucket("leases").await?,
        clock: seat.clock.clone(),
        lease: "controller".into(),
        epoch,
    };
    let says = "who holds controller cannot be read";
    assert!(matches!(blind.in_office().await, Err(NotInOffice::Unsure(why)) if why.starts_with(says)));
    claimed.say("plan-13").await?;
    let (earlier, _) = seat.plans(&seat.wire(), &claim(epoch + 1)).await;
    let why = earlier.say("plan-14").await.expect_err("another epoch").to_string();
    assert!(why.contains(&format!("is held at epoch {epoch}")), "{why}");
    // The lease is renewed, and so is the plan.
    seat.pass(SEEN).await;
    assert_eq!(value(&seat).await, building("09:00:00", "09:00:30"));

    lease.release().await;
    seat.pass(TTL).await;
    assert!(matches!(seat.plan(PLAN).await, Reading::Aged(_)));
    assert!(is_not_in_office(&plan.end().await));
    assert!(is_not_in_office(&claimed.say("plan-13").await));
    Ok(())
}
