//! Policies that misbehave: each ends as a typed failure, the host lives, and the next call of a good one works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use incumbent::clock::Clock;
use incumbent::imports::{Imports, Role};
use incumbent::limits::{COMPUTING, HOST_CALLS};
use incumbent::policy::{LoadError, Misdeed};
use incumbent::store::{Fault, Reading};
use incumbent::{Policy, Runtime, Terms};
use incumbent_tests::guests::Guest;
use tokio::sync::OnceCell;

const FOR_EVER: &str = "(loop (br 0)) unreachable";
const TERMS: Terms =
    Terms { ttl_ns: 15_000_000_000, renew_every_ns: 5_000_000_000, margin_ns: 3_000_000_000, poll_ns: 1 };

/// Reads take this long.
struct Slow(Duration);

#[async_trait]
impl Imports for Slow {
    fn clock(&self) -> Clock {
        Clock::machine()
    }

    async fn get(&mut self, _: Role, _: &str) -> Result<Reading, Fault> {
        tokio::time::sleep(self.0).await;
        Ok(Reading::Absent)
    }
}

const AT_ONCE: Slow = Slow(Duration::ZERO);

#[tokio::test]
async fn one_that_computes_for_ever_is_stopped() -> Result<()> {
    let began = Instant::now();
    assert_eq!(misdeed(Guest::new().export("lease#check", FOR_EVER)).await?, Misdeed::Overran);
    assert!(began.elapsed() > COMPUTING, "it may compute for as long as that");
    Ok(())
}

#[tokio::test]
async fn one_that_computes_for_ever_while_it_is_handed_its_arguments_is_stopped() -> Result<()> {
    let Shared { runtime, .. } = shared().await?;
    let text = Guest::new().realloc(FOR_EVER).component()?;
    let policy = Policy::load(runtime, &text).await?;
    let why = policy.current(AT_ONCE, "controller").await.err().context("it answered")?;
    assert_eq!(why.what, Misdeed::Overran);
    lives().await
}

#[tokio::test]
async fn one_that_computes_for_ever_after_it_answered_is_stopped() -> Result<()> {
    let guest = Guest::new().export("lease#check", "i32.const 128").field(&format!(
        "(func (export \"cabi_post_incumbent:policy/lease@0.1.0#check\") (param i32) {FOR_EVER})"
    ));
    assert_eq!(misdeed(guest).await?, Misdeed::Overran);
    Ok(())
}

#[tokio::test]
async fn one_that_computes_for_ever_when_it_starts_is_not_loaded() -> Result<()> {
    assert_eq!(not_loaded(Guest::new().start("(loop (br 0))")).await?, Misdeed::Overran.to_string());
    Ok(())
}

#[tokio::test]
async fn one_that_computes_for_ever_when_it_is_asked_who_it_is_is_not_loaded() -> Result<()> {
    let guest = Guest::new().export("describe#describe", FOR_EVER);
    assert_eq!(not_loaded(guest).await?, Misdeed::Overran.to_string());
    Ok(())
}

#[tokio::test]
async fn one_that_recurses_without_end_is_stopped() -> Result<()> {
    let guest = Guest::new()
        .field("(func $deeper (param i64) (result i64) (i64.add (call $deeper (local.get 0)) (i64.const 1)))")
        .export("lease#check", "(drop (call $deeper (i64.const 0))) i32.const 128");
    assert_eq!(misdeed(guest).await?, Misdeed::Trapped("wasm trap: call stack exhausted".into()));
    Ok(())
}

#[tokio::test]
async fn one_that_wants_all_memory_is_stopped() -> Result<()> {
    let guest =
        Guest::new().export("lease#check", "(loop (drop (memory.grow (i32.const 16))) (br 0)) unreachable");
    assert_eq!(misdeed(guest).await?, Misdeed::OutOfMemory);
    Ok(())
}

#[tokio::test]
async fn one_that_wants_a_table_without_bound_is_stopped() -> Result<()> {
    let guest = Guest::new().field("(table $t 1 funcref)").export(
        "lease#check",
        "(loop (drop (table.grow $t (ref.null func) (i32.const 1000))) (br 0)) unreachable",
    );
    assert_eq!(misdeed(guest).await?, Misdeed::OutOfMemory);
    Ok(())
}

#[tokio::test]
async fn one_that_panics_is_stopped() -> Result<()> {
    let guest = Guest::new().export("lease#check", "unreachable");
    assert_eq!(misdeed(guest).await?, Misdeed::Trapped("it panicked".into()));
    Ok(())
}

#[tokio::test]
async fn one_that_reaches_outside_its_memory_is_stopped() -> Result<()> {
    let guest = Guest::new().export("lease#check", "(i32.load (i32.const -8))");
    assert!(matches!(misdeed(guest).await?, Misdeed::Trapped(_)));
    Ok(())
}

/// Answers that are none: each is told, with some word of what is wrong.
#[tokio::test]
async fn nonsense_for_an_answer_is_refused() -> Result<()> {
    // `check` answers a case (0 fits, 1 does not), then a text's address and length.
    let says = |at_128: &str| {
        Guest::new()
            .field(&format!("(data (i32.const 128) \"{at_128}\") (data (i32.const 160) \"\\ff\\fe\")"))
            .export("lease#check", "i32.const 128")
    };
    let cases = [
        ("text that is not UTF-8", says(r"\01\00\00\00\a0\00\00\00\02\00\00\00"), "utf-8"),
        ("a text outside its memory", says(r"\01\00\00\00\f0\ff\ff\ff\20\00\00\00"), "out of bounds"),
        ("a text of 4 GiB", says(r"\01\00\00\00\00\00\00\00\ff\ff\ff\ff"), "out of bounds"),
        ("a case that does not exist", says(r"\07\00\00\00"), "discriminant"),
        ("an answer outside its memory", Guest::new().export("lease#check", "i32.const -8"), "pointer"),
        ("an answer at an odd address", Guest::new().export("lease#check", "i32.const 129"), "align"),
    ];
    for (what, guest, word) in cases {
        let words = misdeed(guest).await?.to_string();
        assert!(words.to_lowercase().contains(word), "{what}: {words}");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused() -> Result<()> {
    // 2 MiB of zeros are fine UTF-8.
    let guest = Guest::new()
        .field(r#"(data (i32.const 128) "\01\00\00\00\00\00\01\00\00\00\20\00")"#)
        .export("lease#check", "(drop (memory.grow (i32.const 64))) i32.const 128");
    let words = misdeed(guest).await?.to_string();
    assert!(words.contains("fuel"), "{words}");
    Ok(())
}

#[tokio::test]
async fn waiting_for_the_host_is_not_charged() -> Result<()> {
    let Shared { good: policy, .. } = shared().await?;
    let wait = COMPUTING + Duration::from_millis(500);
    assert_eq!(policy.current(Slow(wait), "controller").await?.ok(), Some(None));
    Ok(())
}

#[tokio::test]
async fn having_waited_gives_no_leave_to_compute_for_ever() -> Result<()> {
    let Shared { runtime, .. } = shared().await?;
    let guest = Guest::new()
        .field(r#"(import "incumbent:policy/kv@0.1.0" "get" (func $get (param i32 i32 i32 i32)))"#)
        .export(
            "lease#current",
            &format!("(call $get (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 512)) {FOR_EVER}"),
        );
    let policy = Policy::load(runtime, &guest.component()?).await?;
    let (began, wait) = (Instant::now(), COMPUTING + Duration::from_millis(500));
    let why = policy.current(Slow(wait), "controller").await.err().context("it answered")?;
    assert_eq!(why.what, Misdeed::Overran);
    assert!(began.elapsed() < wait + 4 * COMPUTING, "it computed for {:?}", began.elapsed() - wait);
    lives().await
}

#[tokio::test]
async fn one_that_asks_the_host_for_ever_is_stopped_and_the_host_is_spared() -> Result<()> {
    let guest = Guest::new()
        .field(r#"(import "incumbent:policy/kv@0.1.0" "get" (func $get (param i32 i32 i32 i32)))"#)
        .export(
            "lease#current",
            "(loop (call $get (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 512)) (br 0)) unreachable",
        )
        // Every answer at the same place.
        .realloc("i32.const 40000");
    let policy = Policy::load(&shared().await?.runtime, &guest.component()?).await?;
    let asked = Arc::new(AtomicU32::new(0));
    let why = policy.current(Counting(asked.clone()), "controller").await.err().context("it answered")?;
    assert_eq!(why.what, Misdeed::Overran);
    assert_eq!(asked.load(Ordering::SeqCst), HOST_CALLS);
    lives().await
}

/// Counts the reads.
pub(crate) struct Counting(pub(crate) Arc<AtomicU32>);

#[async_trait]
impl Imports for Counting {
    fn clock(&self) -> Clock {
        Clock::machine()
    }

    async fn get(&mut self, _: Role, _: &str) -> Result<Reading, Fault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Reading::Absent)
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_behind() -> Result<()> {
    let Shared { good: policy, .. } = shared().await?;
    let never = policy.current(Slow(Duration::from_secs(3600)), "controller");
    assert!(tokio::time::timeout(Duration::from_millis(50), never).await.is_err());
    lives().await
}

#[tokio::test]
async fn a_failure_names_the_policy_and_the_export() -> Result<()> {
    let policy = Policy::load(&shared().await?.runtime, &Guest::new().component()?).await?;
    let why = policy.check(AT_ONCE, TERMS).await.err().context("it answered")?;
    assert_eq!(why.to_string(), "the policy test 0.1.0 failed in lease.check: it trapped: it panicked");
    Ok(())
}

/// What `check` of this policy did wrong; a good policy on the same runtime works after it, and so does the bad
/// one's own description.
async fn misdeed(guest: Guest) -> Result<Misdeed> {
    let Shared { runtime, .. } = shared().await?;
    let bytes = guest.component()?;
    let policy = Policy::load(runtime, &bytes).await?;
    let why = policy.check(AT_ONCE, TERMS).await.err().context("it answered")?;
    lives().await?;
    Policy::load(runtime, &bytes).await?;
    Ok(why.what)
}

async fn not_loaded(guest: Guest) -> Result<String> {
    let Shared { runtime, .. } = shared().await?;
    let why = Policy::load(runtime, &guest.component()?).await.err().context("it was loaded")?;
    lives().await?;
    match why {
        LoadError::Undescribed(what) => Ok(what),
        why => Err(why.into()),
    }
}

async fn lives() -> Result<()> {
    assert_eq!(shared().await?.good.check(AT_ONCE, TERMS).await?, Ok(()));
    Ok(())
}

/// One runtime for all of them, as in a process that loads one policy after the other.
struct Shared {
    runtime: Runtime,
    good: Policy,
}

async fn shared() -> Result<&'static Shared> {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| async {
            let runtime = Runtime::new()?;
            Ok(Shared { good: Policy::built_in(&runtime).await?, runtime })
        })
        .await
}
