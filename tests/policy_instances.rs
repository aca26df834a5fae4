//! What an instance of a policy finds when a call enters it: nothing of another call, and nothing old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use incumbent::clock::Clock;
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::Guest;
use tokio::task::yield_now;

use crate::hostile::Counting;

/// Answers `admit` with what stands at address 208, at address 200 as `ok`.
const TOLD: &str = "i32.const 200";

/// Calls of one policy, with time between them for one to be made ahead.
async fn calls(guest: Guest, imports: impl Fn() -> Counting, told: impl Fn(u64, u64)) -> Result<()> {
    let policy = Policy::load(&Runtime::new()?, &guest.component()?).await?;
    for _ in 0..5 {
        let began = Clock::machine().now().0;
        let answer = policy.admit(imports(), 0, 0).await?.map_err(anyhow::Error::msg::<u64>);
        told(began, answer?);
        for _ in 0..5 {
            yield_now().await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_call_finds_nothing_that_another_left_in_memory() -> Result<()> {
    let counts = "(i64.store (i32.const 208) (i64.add (i64.load (i32.const 208)) (i64.const 1)))";
    let guest = Guest::new().export("gate#admit", &format!("{counts} {TOLD}"));
    calls(guest, || Counting(Arc::default()), |_, calls| assert_eq!(calls, 1, "calls in one instance")).await
}

#[tokio::test]
async fn what_asks_for_the_time_when_it_starts_is_not_made_ahead() -> Result<()> {
    let guest = Guest::new()
        .field("(import \"incumbent:policy/clock@0.1.0\" \"now\" (func $now (param i32)))")
        .field("(func (export \"_initialize\") (call $now (i32.const 208)))")
        .export("gate#admit", TOLD);
    calls(
        guest,
        || Counting(Arc::default()),
        |began, started| {
            assert!(started >= began, "it started {} ns before the call", began - started);
        },
    )
    .await
}

#[tokio::test]
async fn nothing_is_granted_to_what_starts() -> Result<()> {
    let guest = Guest::new()
        .field("(import \"incumbent:policy/kv@0.1.0\" \"get\" (func $get (param i32 i32 i32 i32)))")
        .field("(func (export \"_initialize\") (call $get (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 400)))")
        .export("gate#admit", TOLD);
    let asked: Arc<AtomicU32> = Arc::default();
    calls(guest, || Counting(asked.clone()), |_, _| ()).await?;
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    Ok(())
}
