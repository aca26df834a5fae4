//! A policy of one's own: what it answers counts, though the store had no part in it, as far as the host lets it.

use incumbent::Policy;
use incumbent::lease::{Event, LeaseError, NotHeld, Released};
use incumbent::policy::Lie;
use incumbent_policy::gate::{self, Closed, Open, Standing};
use incumbent_policy::imports::{Role, Write};
use incumbent_policy::lease::{
    self, Attempt, Certainty, Identity, Renewal, Setback, Sighting, Tenure, Terms, Trouble, Vacancy,
};
use incumbent_policy::{Decisions, Imports};
use incumbent_tests::faulty::Kind;
use incumbent_tests::world::{LEASE, MARGIN, RENEW, TTL, World};

/// Answers every renewal with one of the setbacks that shut the gate.
macro_rules! renews {
    ($($name:ident: $answer:path),*) => {
        $(
            struct $name;

            impl Decisions for $name {
                const NAME: &'static str = stringify!($name);
                const VERSION: &'static str = "0.0.0";

                fn renew(io: &mut impl Imports, _: &Terms, _: &Identity, tenure: Tenure) -> Renewal {
                    let certainty = Certainty::Doubted(io.now().steady_ns);
                    $answer(Setback { tenure: Tenure { certainty, ..tenure }, why: "so it decides".into() })
                }
            }
        )*
    };
}

renews!(Refuses: Renewal::Refused, GivesWay: Renewal::Asked);

/// A world whose instances are decided for by this policy.
async fn under<P: Decisions + 'static>() -> World {
    let mut world = World::new().await;
    world.policy = Policy::of(incumbent_native::version::<P>(P::NAME));
    world
}

async fn shuts<P: Decisions + 'static>(why: NotHeld) -> anyhow::Result<()> {
    let world = under::<P>().await;
    let (alice, _bob) = world.alice_holds().await;
    let until = alice.lease.until().expect("held");

    assert_eq!(alice.lease.renew().await, Err(why.clone()));
    assert_eq!(alice.lease.epoch(), Err(why));
    world.pass(RENEW / 10).await;
    assert!(alice.lease.epoch().is_err() && world.clock.now() < until, "and it stays shut");
    assert!(alice.line.ops_of(Kind::Update).is_empty());
    Ok(())
}

/// Opens the gate under whatever tenure.
struct Trusts;

impl Decisions for Trusts {
    const NAME: &'static str = "Trusts";
    const VERSION: &'static str = "0.0.0";

    fn pass(standing: &Standing, _: u64) -> Result<Open, Closed> {
        match standing {
            Standing::Held(tenure) => Ok(Open { epoch: tenure.epoch, until_ns: tenure.until_ns }),
            Standing::Candidate | Standing::Released | Standing::Lost => Err(Closed::NotHeld),
        }
    }
}

/// Gives way and says of its tenure that it is as sure as before.
struct GivesWaySurely;

impl Decisions for GivesWaySurely {
    const NAME: &'static str = "GivesWaySurely";
    const VERSION: &'static str = "0.0.0";

    fn renew(_: &mut impl Imports, _: &Terms, _: &Identity, tenure: Tenure) -> Renewal {
        Renewal::Asked(Setback { tenure, why: "so it decides".into() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_shut_to_give_way_is_not_opened_by_another_policy() -> anyhow::Result<()> {
    given_way::<GivesWay>().await?;
    given_way::<GivesWaySurely>().await
}

async fn given_way<P: Decisions + 'static>() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    world.policy.swap(incumbent_native::version::<P>(P::NAME), None);
    assert_eq!(alice.lease.renew().await, Err(NotHeld::Asked));

    world.policy.swap(incumbent_native::version::<Trusts>(Trusts::NAME), None);
    world.pass(RENEW / 10).await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Asked));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_the_policy_refuses_shuts_the_gate() -> anyhow::Result<()> {
    shuts::<Refuses>(NotHeld::Doubted).await
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_gives_way_shuts_the_gate() -> anyhow::Result<()> {
    shuts::<GivesWay>(NotHeld::Asked).await
}

/// Takes a renewal that was refused for one that was kept, or for one that failed.
struct Deaf<const KEEPS: bool>;

impl<const KEEPS: bool> Decisions for Deaf<KEEPS> {
    const NAME: &'static str = "Deaf";
    const VERSION: &'static str = "0.0.0";

    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        match lease::renew(io, terms, who, tenure) {
            Renewal::Refused(set) if KEEPS => {
                Renewal::Kept(Tenure { certainty: Certainty::Sure, ..set.tenure })
            }
            Renewal::Refused(Setback { tenure, why }) => {
                Renewal::Failed(Setback { tenure: Tenure { certainty: Certainty::Unsure, ..tenure }, why })
            }
            other => other,
        }
    }
}

async fn stays_shut<const KEEPS: bool>() -> anyhow::Result<()> {
    let world = under::<Deaf<KEEPS>>().await;
    let (alice, _bob) = world.alice_holds().await;
    world.faulty.forget(LEASE).await?;
    assert!(alice.lease.renew().await.is_err());
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));

    world.policy.swap(incumbent_native::version::<Trusts>(Trusts::NAME), None);
    world.settle().await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));
    // Nor is the other version told of for it.
    assert_eq!(alice.events.count(|event| matches!(event, Event::Shut { .. })), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_gate_shut_by_a_refusal_is_not_opened_by_what_a_policy_makes_of_it() -> anyhow::Result<()> {
    stays_shut::<true>().await?;
    stays_shut::<false>().await
}

/// Keeps the gate shut.
struct Stricter;

impl Decisions for Stricter {
    const NAME: &'static str = "Stricter";
    const VERSION: &'static str = "0.0.0";

    fn pass(_: &Standing, _: u64) -> Result<Open, Closed> {
        Err(Closed::NotHeld)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stricter_policy_shuts_the_gate_at_once() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;

    world.policy.swap(incumbent_native::version::<Stricter>(Stricter::NAME), None);
    world.settle().await;

    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted));
    assert_eq!(alice.events.count(|event| matches!(event, Event::Shut { .. })), 1);
    Ok(())
}

/// Says of every renewal that it holds for ever.
struct Boasts;

impl Decisions for Boasts {
    const NAME: &'static str = "Boasts";
    const VERSION: &'static str = "0.0.0";

    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        match lease::renew(io, terms, who, tenure) {
            Renewal::Kept(tenure) => Renewal::Kept(Tenure { until_ns: u64::MAX, ..tenure }),
            other => other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_open_for_no_longer_than_the_renewal_allows() -> anyhow::Result<()> {
    let world = under::<Boasts>().await;
    let (alice, _bob) = world.alice_holds().await;
    let epoch = alice.lease.epoch()?;

    assert_eq!(alice.lease.renew().await, Ok(epoch));

    assert_eq!(alice.lease.until(), Some(world.clock.now().plus(TTL - MARGIN)));
    Ok(())
}

/// Opens the gate at another epoch, or for ever.
macro_rules! opens {
    ($($name:ident: $open:expr),*) => {
        $(
            struct $name;

            impl Decisions for $name {
                const NAME: &'static str = stringify!($name);
                const VERSION: &'static str = "0.0.0";

                fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
                    gate::pass(standing, now_ns).map($open)
                }
            }
        )*
    };
}

opens!(
    AtAnotherEpoch: |open| Open { epoch: open.epoch + 1, ..open },
    ForEver: |open| Open { until_ns: u64::MAX, ..open }
);

#[tokio::test(start_paused = true)]
async fn a_gate_is_opened_at_no_other_epoch_and_for_no_longer_than_the_tenure() -> anyhow::Result<()> {
    let world = under::<AtAnotherEpoch>().await;
    let alice = world.stand("alice").await;
    let tried = alice.lease.try_take().await;
    assert!(matches!(&tried, Err(LeaseError::Lied(Lie::OtherEpoch { .. }))), "{tried:?}");
    assert!(!alice.lease.held());

    let world = under::<ForEver>().await;
    let (alice, _bob) = world.alice_holds().await;
    assert_eq!(alice.lease.until(), Some(world.clock.now().plus(TTL - MARGIN)));
    Ok(())
}

/// Takes without a look at anything.
struct Hasty;

impl Decisions for Hasty {
    const NAME: &'static str = "Hasty";
    const VERSION: &'static str = "0.0.0";

    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        _: Vacancy,
        _: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        let until_ns = io.now().steady_ns + terms.ttl_ns - terms.margin_ns;
        let (created, taken, certainty) = (0, String::new(), Certainty::Sure);
        match io.create(Role::Lease, &who.lease, b"{}") {
            Ok(Write::Written(revision)) => {
                let epoch = revision;
                Ok(Attempt::Taken(Tenure { epoch, revision, created, taken, until_ns, certainty }))
            }
            other => Err(Trouble::Misfit(format!("{other:?}"))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_names_its_bucket_though_the_policy_never_asked() -> anyhow::Result<()> {
    let world = under::<Hasty>().await;
    let alice = world.stand("alice").await;
    alice.lease.try_take().await?;

    assert_eq!(alice.lease.release().await, Released::GivenBack);

    assert!(alice.line.ops_of(Kind::Info).len() <= 1, "asked as it stood for the lease");
    let meant_for: Vec<_> = alice.line.ops_of(Kind::Delete).iter().map(|op| op.meant_for).collect();
    assert_eq!(meant_for, [Some(world.faulty.bare().await?.info().await?.created)]);
    Ok(())
}
