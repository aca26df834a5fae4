//! A policy of one's own: what it answers to a renewal counts, though the store had no part in it.

use incumbent::Policy;
use incumbent::lease::NotHeld;
use incumbent_policy::gate::{Closed, Open, Standing};
use incumbent_policy::lease::{Certainty, Identity, Renewal, Setback, Tenure, Terms};
use incumbent_policy::{Decisions, Imports};
use incumbent_tests::faulty::Kind;
use incumbent_tests::world::{RENEW, World};

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

async fn shuts<P: Decisions + 'static>(why: NotHeld) -> anyhow::Result<()> {
    let mut world = World::new().await;
    world.policy = Policy::of(incumbent_native::version::<P>(P::NAME));
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

#[tokio::test(start_paused = true)]
async fn a_gate_shut_in_doubt_is_not_opened_by_another_policy() -> anyhow::Result<()> {
    let world = World::new().await;
    let (alice, _bob) = world.alice_holds().await;
    world.policy.swap(incumbent_native::version::<GivesWay>(GivesWay::NAME), None);
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
