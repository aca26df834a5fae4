//! A lease whose policy is on probation: what it is not to blame for.

use incumbent::policy::{BUILT_IN, Probation};
use incumbent::{Policy, Runtime};
use incumbent_tests::world::World;

use crate::lease_moving::alice_tries_again;

#[tokio::test(start_paused = true)]
async fn a_floor_that_another_raised_meanwhile_is_no_lie() -> anyhow::Result<()> {
    let world = World::new().await;
    let twin = Policy::load(&Runtime::new()?, &[BUILT_IN, &[0, 2, 1, b't']].concat()).await?;
    world.policy.swap(twin.version(), Some(Probation { calls: u32::MAX, ..Probation::default() }));

    alice_tries_again(&world).await?;

    assert!(world.policy.trial().is_some(), "the version on probation is not blamed");
    Ok(())
}
