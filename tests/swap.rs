//! Versions of a policy swapped while a lease is taken, held and given back; and those that fail on probation.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Context as _, Result};
use incumbent::lease::{Event, LeaseError, NotHeld, Released};
use incumbent::policy::{BUILT_IN, Misdeed, Probation, Verdict, Version};
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::Guest;
use incumbent_tests::world::{RENEW, Stand, TTL, World};
use tokio::sync::OnceCell;

/// Proven by its third clean call.
const SOON: Probation = Probation { calls: 3, time: Duration::ZERO };
/// Never proven in a test.
const NEVER: Probation = Probation { calls: u32::MAX, time: Duration::ZERO };

async fn runtime() -> &'static Runtime {
    static RUNTIME: OnceCell<Runtime> = OnceCell::const_new();
    RUNTIME.get_or_init(async || Runtime::new().expect("the engine runs here")).await
}

/// The built-in decisions under another digest: a custom section says nothing.
async fn twin(n: u8) -> Result<Version> {
    let bytes = [BUILT_IN, &[0, 2, 1, n]].concat();
    Ok(Policy::load(runtime().await, &bytes).await?.version())
}

async fn made(guest: &Guest) -> Result<Version> {
    Ok(Policy::load(runtime().await, &guest.component()?).await?.version())
}

/// What the policy was told of its versions.
fn verdicts(policy: &Policy) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let tell = told.clone();
    policy.on_verdict(move |verdict| {
        let text = match verdict {
            Verdict::Proven(version) => format!("proven {}", version.digest()),
            Verdict::RolledBack { from, to, why } => format!("{} to {}: {why}", from.digest(), to.digest()),
        };
        tell.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    });
    told
}

fn said(told: &Mutex<Vec<String>>) -> Vec<String> {
    told.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Alice holds the lease.
async fn held() -> Result<(World, Stand)> {
    let world = World::new().await;
    let alice = world.stand("alice").await;
    alice.lease.try_take().await?;
    Ok((world, alice))
}

#[tokio::test(start_paused = true)]
async fn a_held_lease_goes_on_under_the_next_version() -> Result<()> {
    let (world, alice) = held().await?;
    let told = verdicts(&world.policy);
    let epoch = alice.lease.epoch()?;
    for n in 0..5 {
        let next = twin(n).await?;
        let digest = next.digest().to_owned();
        world.policy.swap(next, Some(SOON));
        assert_eq!(alice.lease.epoch(), Ok(epoch));
        assert_eq!(world.policy.trial().map(|(trial, _)| trial.calls), Some(0));
        world.pass(3 * RENEW).await;
        assert_eq!(alice.lease.epoch(), Ok(epoch));
        assert_eq!(world.policy.version().digest(), digest);
        assert_eq!(said(&told).last(), Some(&format!("proven {digest}")));
        assert!(world.policy.trial().is_none());
    }
    assert_eq!(alice.events.count(|event| matches!(event, Event::RenewalFailed { .. })), 0);
    assert_eq!(alice.lease.release().await, Released::GivenBack);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_asked_anew_and_a_stricter_answer_counts_at_once() -> Result<()> {
    let (world, alice) = held().await?;
    // `overdue`, whatever it is asked.
    let strict = Guest::new()
        .field("(data (i32.const 4096) \"\\01\\00\\00\\00\\00\\00\\00\\00\\02\\00\\00\\00\")")
        .export("gate#pass", "i32.const 4096");
    world.policy.swap(made(&strict).await?, None);
    world.settle().await;
    assert!(!alice.lease.held());
    assert_eq!(alice.events.count(|event| matches!(event, Event::Shut { .. })), 1);
    // Nobody shuts it for good: the version before it opens it again.
    world.policy.swap(twin(1).await?, None);
    world.settle().await;
    assert!(alice.lease.held());
    Ok(())
}

/// Guests that fail in one way each.
fn bad() -> Vec<(&'static str, Guest)> {
    let imports = r#"(import "incumbent:policy/kv@0.1.0" "update" (func $update (param i32 i32 i32 i32 i32 i64 i32)))
        (import "incumbent:policy/kv@0.1.0" "get" (func $get (param i32 i32 i32 i32)))
        (data (i32.const 256) "another")"#;
    // `kept`, of a tenure at address 1032: epoch, revision, created, taken (ptr, len), until, sure.
    let kept = |epoch: &str, revision: &str| {
        format!(
            "(i64.store (i32.const 1032) {epoch}) (i64.store (i32.const 1040) {revision})
             (i64.store (i32.const 1064) (i64.const -1)) (i32.const 1024)"
        )
    };
    let both =
        |guest: Guest, renew: &str| guest.export("lease#renew", renew).export("gate#pass", "unreachable");
    vec![
        ("it panicked", Guest::new()),
        ("did not end", both(Guest::new(), "(loop $l (br $l)) (unreachable)").export("gate#pass", "(loop $l (br $l)) (unreachable)")),
        ("answered epoch 7", both(Guest::new(), &kept("(i64.const 7)", "(i64.const 1)"))),
        ("never wrote", both(Guest::new(), &kept("(i64.const 1)", "(i64.const 7)"))),
        ("does not grant", both(
            Guest::new().field(imports),
            "(call $update (i32.const 0) (i32.const 256) (i32.const 7) (i32.const 256) (i32.const 7) (i64.const 1) (i32.const 2048))
             (i32.const 1024)",
        )),
        ("does not grant", both(
            Guest::new().field(imports),
            "(call $get (i32.const 1) (i32.const 256) (i32.const 7) (i32.const 2048)) (i32.const 1024)",
        )),
    ]
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_on_probation_is_rolled_back_and_the_call_is_answered() -> Result<()> {
    for (words, guest) in bad() {
        let (world, alice) = held().await?;
        let told = verdicts(&world.policy);
        let (epoch, first) = (alice.lease.epoch()?, world.policy.version().digest().to_owned());
        world.policy.swap(made(&guest).await?, Some(NEVER));
        // Asked by the gate or by the renewal, whichever comes first.
        assert!(alice.lease.renew().await.is_ok(), "{words}");
        world.pass(3 * RENEW).await;
        assert_eq!(alice.lease.epoch(), Ok(epoch), "{words}");
        assert_eq!(world.policy.version().digest(), first, "{words}");
        let said = said(&told);
        assert_eq!(said.len(), 1, "{words}: {said:?}");
        let failed =
            alice.events.count(|event| matches!(event, Event::RenewalFailed { .. } | Event::Refused { .. }));
        assert_eq!(failed, 0, "{words}: {:?}", alice.events.all());
    }
    Ok(())
}

/// A renewal by this guest alone, on probation: what it was rolled back for.
#[tokio::test(start_paused = true)]
async fn what_a_version_is_rolled_back_for_is_told() -> Result<()> {
    for (words, guest) in bad() {
        let (world, alice) = held().await?;
        let told = verdicts(&world.policy);
        // A gate that says nothing wrong, so that it is the renewal that is judged.
        let honest = "(i64.store (i32.const 4104) (local.get 1)) (i64.store (i32.const 4112) (local.get 6)) (i32.const 4096)";
        world.policy.swap(made(&guest.export("gate#pass", honest)).await?, Some(NEVER));
        world.settle().await;
        let _ = alice.lease.renew().await;
        let said = said(&told);
        assert!(said.len() == 1 && said[0].contains(words), "{words}: {said:?}");
        assert!(alice.lease.held(), "{words}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lies_about_the_gate_are_rolled_back_too() -> Result<()> {
    for (words, gate) in [
        (
            "longer than",
            "(i64.store (i32.const 4104) (local.get 1)) (i64.store (i32.const 4112) (i64.const -1)) (i32.const 4096)",
        ),
        (
            "another",
            "(i64.store (i32.const 4104) (i64.const 7)) (i64.store (i32.const 4112) (i64.const 1)) (i32.const 4096)",
        ),
    ] {
        let (world, alice) = held().await?;
        let told = verdicts(&world.policy);
        world.policy.swap(made(&Guest::new().export("gate#pass", gate)).await?, Some(NEVER));
        world.settle().await;
        let said = said(&told);
        assert!(said.len() == 1, "{words}: {said:?}");
        assert!(alice.lease.held(), "{words}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_proven_version_that_fails_is_an_error_and_stays() -> Result<()> {
    let (world, alice) = held().await?;
    let told = verdicts(&world.policy);
    let bob = world.stand("bob").await;
    let trap = made(&Guest::new()).await?;
    let digest = trap.digest().to_owned();
    world.policy.swap(trap, None);
    world.settle().await;
    assert_eq!(alice.lease.epoch(), Err(NotHeld::Doubted), "in doubt the gate is shut");
    assert_eq!(world.policy.version().digest(), digest);
    assert_eq!(said(&told), Vec::<String>::new());
    let failed = bob.lease.try_take().await;
    assert!(
        matches!(&failed, Err(LeaseError::Policy(why)) if matches!(why.what, Misdeed::Trapped(_))),
        "{failed:?}"
    );
    Ok(())
}

/// Polls this so often, then lets `then` happen, then polls on to the end. Whether it had not ended before.
async fn poll_then<T>(future: impl Future<Output = T>, polls: usize, then: impl FnOnce()) -> (T, bool) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
            then();
            return (done, false);
        }
        tokio::task::yield_now().await;
    }
    then();
    (future.await, true)
}

#[tokio::test(start_paused = true)]
async fn at_every_await_point_of_a_take_and_a_release_a_call_ends_on_the_version_it_began_with() -> Result<()>
{
    let twins = [twin(1).await?, twin(2).await?];
    let (mut within_take, mut within_release) = (0, 0);
    for polls in 0.. {
        let world = World::new().await;
        let alice = world.stand("alice").await;
        alice.line.dawdle();
        let swap = |n: usize| world.policy.swap(twins[n].clone(), Some(NEVER));
        let (taken, before) = poll_then(alice.lease.try_take(), polls, || swap(0)).await;
        let epoch = taken?;
        within_take += usize::from(before);
        world.settle().await;
        assert_eq!(alice.lease.epoch(), Ok(epoch), "{polls}");
        world.pass(RENEW + RENEW / 2).await;
        assert_eq!(alice.lease.epoch(), Ok(epoch), "{polls}");
        let (released, until_end) = poll_then(alice.lease.release(), polls, || swap(1)).await;
        assert_eq!(released, Released::GivenBack, "{polls}");
        within_release += usize::from(until_end);
        if !before && !until_end {
            break;
        }
    }
    assert!(within_take >= 6 && within_release >= 3, "{within_take} and {within_release}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn at_every_turn_of_a_renewal_the_gate_stays_open() -> Result<()> {
    let twins = [twin(1).await?, twin(2).await?];
    for turns in 0..30 {
        let (world, alice) = held().await?;
        let epoch = alice.lease.epoch()?;
        alice.line.dawdle();
        let lease = alice.lease.clone();
        let renewing = tokio::spawn(async move { lease.renew().await });
        for _ in 0..turns {
            tokio::task::yield_now().await;
            assert_eq!(alice.lease.epoch(), Ok(epoch), "{turns}");
        }
        world.policy.swap(twins[turns % 2].clone(), Some(NEVER));
        while !renewing.is_finished() {
            tokio::task::yield_now().await;
            assert_eq!(alice.lease.epoch(), Ok(epoch), "{turns}");
        }
        renewing.await?.context("renewed")?;
        assert_eq!(
            alice.events.count(|event| matches!(event, Event::RenewalFailed { .. } | Event::Refused { .. })),
            0
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_may_change_hands_under_versions_that_differ() -> Result<()> {
    let (world, alice) = held().await?;
    let bob = world.stand("bob").await;
    let taking = bob.take();
    let mut last = alice.lease.epoch()?;
    world.policy.swap(twin(1).await?, Some(SOON));
    assert_eq!(alice.lease.release().await, Released::GivenBack);
    let epoch = world.until(TTL, taking).await.0??;
    assert!(epoch > last);
    last = epoch;
    world.policy.swap(twin(2).await?, Some(SOON));
    bob.lease.release().await;
    let carol = world.stand("carol").await;
    assert!(carol.lease.try_take().await? > last);
    assert_eq!(world.holder().await.map(|holder| holder.instance), Some("carol".into()));
    Ok(())
}
