//! Candidates of one process that stand in one line: only the first looks at the store, and no turn is lost.

use incumbent::lease::{Ended, Event, LeaseError, Line, Released};
use incumbent::store::Fault;
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{POLL, Stand, TTL, World};

/// So many stand in one line, each by a line to the store of its own.
async fn stand_in<const N: usize>(world: &World, line: &Line, who: [&str; N]) -> [Stand; N] {
    let mut stands = Vec::new();
    for who in who {
        let stand = world.stand_with(who, |options| options.line = line.clone()).await;
        stands.push(stand.expect("stands for the lease"));
    }
    stands.try_into().ok().expect("one for each")
}

/// How often it looked at the record.
fn looks(stand: &Stand) -> usize {
    stand.line.ops_of(Kind::Get).len()
}

fn told_in_line(stand: &Stand) -> usize {
    stand.events.count(|event| *event == Event::InLine)
}

#[tokio::test(start_paused = true)]
async fn only_the_first_looks_and_the_others_say_once_that_they_wait_behind() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.lease.try_take().await?;
    let [bob, carol, dave] = stand_in(&world, &Line::default(), ["bob", "carol", "dave"]).await;
    let taking = [bob.take(), carol.take(), dave.take()];
    world.pass(TTL).await;
    assert!(looks(&bob) > 0);
    assert_eq!((looks(&carol), looks(&dave)), (0, 0));
    assert_eq!([&bob, &carol, &dave].map(told_in_line), [0, 1, 1]);

    // One after another.
    alice.lease.release().await;
    for (stand, taking) in [&bob, &carol, &dave].into_iter().zip(taking) {
        let (taken, took) = world.until(TTL, taking).await;
        taken??;
        assert!(took < POLL, "{took:?}");
        assert_eq!(stand.lease.release().await, Released::GivenBack);
    }
    assert_eq!([&bob, &carol, &dave].map(told_in_line), [0, 1, 1]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_leaves_the_line_and_the_next_goes_on() -> anyhow::Result<()> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.lease.try_take().await?;
    let who = ["bob", "carol", "dave", "eve"];
    let [bob, carol, dave, eve] = stand_in(&world, &Line::default(), who).await;
    let [first, second, third, fourth] = [bob.take(), carol.take(), dave.take(), eve.take()];
    world.settle().await;

    // Two behind: one is given up, one is dropped. Nobody moves.
    assert_eq!(carol.lease.release().await, Released::NeverHeld);
    let (taken, _) = world.until(POLL, second).await;
    assert!(matches!(taken?, Err(LeaseError::Over(Ended::GivenBack))));
    third.abort();
    world.pass(TTL).await;
    assert_eq!([&carol, &dave, &eve].map(looks), [0, 0, 0]);

    // The first: the next one looks at once.
    assert_eq!(bob.lease.release().await, Released::NeverHeld);
    let (taken, _) = world.until(POLL, first).await;
    assert!(matches!(taken?, Err(LeaseError::Over(Ended::GivenBack))));
    world.settle().await;
    assert!(looks(&eve) > 0);

    alice.lease.release().await;
    let (taken, took) = world.until(TTL, fourth).await;
    taken??;
    assert!(took < POLL, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_mend_gives_the_turn_to_the_next() -> anyhow::Result<()> {
    let world = World::new().await;
    let [alice, bob] = stand_in(&world, &Line::default(), ["alice", "bob"]).await;
    alice.line.always(&Kind::ALL, &Fate::Fails(Fault::Denied("not yours".into())));
    let (first, second) = (alice.take(), bob.take());
    let (refused, _) = world.until(POLL, first).await;
    assert!(refused?.is_err());
    world.until(POLL, second).await.0??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_and_a_take_of_what_is_held_wait_for_nobody() -> anyhow::Result<()> {
    let world = World::new().await;
    let [alice, bob, carol] = stand_in(&world, &Line::default(), ["alice", "bob", "carol"]).await;
    let epoch = alice.lease.take().await?;
    let (_first, second) = (bob.take(), carol.take());
    world.settle().await;

    let (held, _) = world.until(POLL, alice.lease.take()).await;
    assert_eq!(held?, epoch);
    let (tried, _) = world.until(POLL, carol.lease.try_take()).await;
    assert!(matches!(tried, Err(LeaseError::Taken(_))), "{tried:?}");

    // The first never comes to an end; one behind it tries, and its own take hears that it has it.
    bob.line.always(&Kind::ALL, &Fate::Hangs);
    world.pass(2 * POLL).await;
    alice.lease.release().await;
    let (tried, _) = world.until(POLL, carol.lease.try_take()).await;
    let (taken, _) = world.until(POLL, second).await;
    assert_eq!(taken??, tried?);
    Ok(())
}
