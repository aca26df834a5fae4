//! A policy that lies or steals gets nothing by it: the host has the last word, from the first version on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use incumbent::clock::{Clock, Steady};
use incumbent::floor::{Floor as _, MemoryFloor};
use incumbent::lease::{LeaseError, NotHeld, step_down};
use incumbent::store::memory::Memory;
use incumbent::store::{Bucket, BucketConfig, Reading, Store as _, Write};
use incumbent::{Lease, LeaseOptions, Policy, Runtime};
use incumbent_tests::guests::Guest;

/// The lease's key, and bob's record of it.
const KEY: &str = "controller";
const BOB: &[u8] = br#"{"instance":"bob","epoch":1,"nonce":"b1"}"#;

/// `take` that answers `taken` with this epoch, revision and `until`, each an expression.
fn taken(epoch: &str, revision: &str, until: &str) -> String {
    format!(
        "(i64.store (i32.const 1040) {epoch}) (i64.store (i32.const 1048) {revision})
         (i64.store (i32.const 1072) {until}) (i32.const 1024)"
    )
}

/// `kv.create` of the key, its revision left at 2064 where it won.
const CREATE: &str = "(call $create (i32.const 0) (i32.const 256) (i32.const 10) (i32.const 16) (i32.const 4) (i32.const 2048))";
/// The revision that `CREATE` won at.
const REVISION: &str = "(i64.load (i32.const 2064))";
const FOR_EVER: &str = "(i64.const -1)";
/// `gate.pass` that answers what the tenure says.
const HONEST_GATE: &str =
    "(i64.store (i32.const 4104) (local.get 1)) (i64.store (i32.const 4112) (local.get 6)) (i32.const 4096)";

fn liar() -> Guest {
    Guest::new()
        .field(
            r#"(import "incumbent:policy/kv@0.1.0" "create" (func $create (param i32 i32 i32 i32 i32 i32)))
               (import "incumbent:policy/kv@0.1.0" "update" (func $update (param i32 i32 i32 i32 i32 i64 i32)))
               (import "incumbent:policy/kv@0.1.0" "delete" (func $delete (param i32 i32 i32 i64 i32)))
               (import "incumbent:policy/streams@0.1.0" "purge-below" (func $purge (param i64 i32)))
               (data (i32.const 256) "controller") (data (i32.const 272) "another")"#,
        )
        .export("lease#check", "i32.const 128")
        .export("gate#pass", HONEST_GATE)
}

/// A lease under this policy, in a memory store with a clock that stands at 100 s.
struct Stand {
    lease: Lease,
    bucket: Arc<dyn Bucket>,
    floor: Arc<MemoryFloor>,
}

impl Stand {
    async fn under(guest: Guest) -> Result<Self> {
        let policy = Policy::load(&Runtime::new()?, &guest.component()?).await?;
        let clock = Clock::by_hand(Steady(100_000_000_000));
        let store = Memory::new(clock.clone());
        let config = BucketConfig { ttl: Duration::from_secs(15), replicas: 1 };
        let bucket = store.create_bucket("leases", &config).await?;
        let floor = Arc::new(MemoryFloor::default());
        let options = LeaseOptions { clock, floor: floor.clone(), ..LeaseOptions::new(KEY) };
        Ok(Self { lease: Lease::open(&policy, &store, "leases", options).await?, bucket, floor })
    }

    async fn lie(&self) -> Result<String> {
        match self.lease.try_take().await.err().context("it was believed")? {
            LeaseError::Lied(lie) => Ok(lie.to_string()),
            why => Err(why.into()),
        }
    }
}

#[tokio::test]
async fn a_tenure_that_was_never_written_is_not_believed() -> Result<()> {
    let guest = liar().export("lease#take", &taken("(i64.const 57)", "(i64.const 57)", FOR_EVER));
    let stand = Stand::under(guest).await?;
    assert_eq!(
        stand.lie().await?,
        "it answered a tenure at revision 57, which this lease object never wrote"
    );
    assert!(!stand.lease.held());
    Ok(())
}

#[tokio::test]
async fn a_tenure_on_bobs_record_is_not_believed() -> Result<()> {
    let guest = liar().export("lease#take", &taken("(i64.const 1)", "(i64.const 1)", FOR_EVER));
    let stand = Stand::under(guest).await?;
    assert_eq!(stand.bucket.create(KEY, BOB).await?, Write::Written(1));
    assert_eq!(stand.lie().await?, "it answered a tenure at revision 1, which this lease object never wrote");
    Ok(())
}

#[tokio::test]
async fn an_epoch_of_its_own_invention_is_not_believed() -> Result<()> {
    let more = format!("(i64.add {REVISION} (i64.const 41))");
    let guest = liar().export("lease#take", &format!("{CREATE} {}", taken(&more, REVISION, FOR_EVER)));
    let stand = Stand::under(guest).await?;
    assert_eq!(stand.lie().await?, "it answered epoch 42, where 0 is this lease object's");
    Ok(())
}

#[tokio::test]
async fn an_epoch_that_was_issued_before_is_not_believed() -> Result<()> {
    let guest = liar().export("lease#take", &format!("{CREATE} {}", taken(REVISION, REVISION, FOR_EVER)));
    let stand = Stand::under(guest).await?;
    stand.floor.raise(41).await?;
    let lie = stand.lie().await?;
    assert_eq!(lie, "it answered epoch 1, which is not above 41, the highest that was issued");
    Ok(())
}

#[tokio::test]
async fn a_gate_that_would_stay_open_for_ever_shuts_in_time() -> Result<()> {
    let guest = liar().export("lease#take", &format!("{CREATE} {}", taken(REVISION, REVISION, FOR_EVER)));
    let stand = Stand::under(guest).await?;
    assert_eq!(stand.lease.try_take().await?, 1);
    // The write was sent at 100 s, the ttl is 15 s, the margin a fifth of it.
    assert_eq!(stand.lease.until(), Some(Steady(112_000_000_000)));
    Ok(())
}

#[tokio::test]
async fn a_gate_that_passes_another_epoch_or_longer_does_not() -> Result<()> {
    let take = format!("{CREATE} {}", taken(REVISION, REVISION, FOR_EVER));
    let epoch = HONEST_GATE.replace("(local.get 1)", "(i64.const 99)");
    let stand = Stand::under(liar().export("lease#take", &take).export("gate#pass", &epoch)).await?;
    // Whatever the take answers: no act passes at an epoch that is not its own.
    let _ = stand.lease.try_take().await;
    assert!(stand.lease.epoch().is_err());

    let until = HONEST_GATE.replace("(local.get 6)", FOR_EVER);
    let stand = Stand::under(liar().export("lease#take", &take).export("gate#pass", &until)).await?;
    stand.lease.try_take().await?;
    assert_eq!(stand.lease.until(), Some(Steady(112_000_000_000)));
    Ok(())
}

/// Each way to touch what is not its own, and `taken` on top of it.
#[tokio::test]
async fn nothing_of_bobs_is_touched() -> Result<()> {
    let thefts = [
        (
            "update",
            "(call $update (i32.const 0) (i32.const 256) (i32.const 10) (i32.const 16) (i32.const 4) (i64.const 1) (i32.const 2048))",
        ),
        (
            "delete",
            "(call $delete (i32.const 0) (i32.const 256) (i32.const 10) (i64.const 1) (i32.const 2048))",
        ),
        ("purge", "(call $purge (i64.const 1000) (i32.const 2048))"),
        ("create over it", CREATE),
    ];
    for (what, theft) in thefts {
        let take = format!("{theft} {}", taken("(i64.const 1)", "(i64.const 1)", FOR_EVER));
        let stand = Stand::under(liar().export("lease#take", &take)).await?;
        assert_eq!(stand.bucket.create(KEY, BOB).await?, Write::Written(1), "{what}");
        stand.lie().await.context(what)?;
        let Reading::Found(record) = stand.bucket.get(KEY).await? else {
            anyhow::bail!("{what}: it is gone")
        };
        assert_eq!((record.revision, record.value.as_slice()), (1, BOB), "{what}");
        assert_eq!(stand.lease.epoch(), Err(NotHeld::NotTaken), "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn another_leases_key_is_out_of_reach() -> Result<()> {
    let create = CREATE.replace("(i32.const 256) (i32.const 10)", "(i32.const 272) (i32.const 7)");
    let take = format!("{create} {}", taken("(i64.const 1)", "(i64.const 1)", FOR_EVER));
    let stand = Stand::under(liar().export("lease#take", &take)).await?;
    stand.lie().await?;
    assert_eq!(stand.bucket.get("another").await?, Reading::Absent);
    Ok(())
}

#[tokio::test]
async fn another_role_is_out_of_reach() -> Result<()> {
    let create = CREATE.replacen("(i32.const 0)", "(i32.const 1)", 1);
    let take = format!("{create} {}", taken("(i64.const 1)", "(i64.const 1)", FOR_EVER));
    let stand = Stand::under(liar().export("lease#take", &take)).await?;
    stand.lie().await?;
    assert_eq!(stand.bucket.last_revision().await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_it_deleted_itself_it_holds_no_more() -> Result<()> {
    let delete =
        format!("(call $delete (i32.const 0) (i32.const 256) (i32.const 10) {REVISION} (i32.const 3072))");
    let take = format!("{CREATE} {delete} {}", taken(REVISION, REVISION, FOR_EVER));
    let stand = Stand::under(liar().export("lease#take", &take)).await?;
    assert_eq!(stand.lie().await?, "it answered a tenure at revision 1, which this lease object never wrote");
    assert_eq!(stand.bucket.get(KEY).await?, Reading::Deleted(2));
    Ok(())
}

#[tokio::test]
async fn a_policy_that_fails_takes_nothing() -> Result<()> {
    let stand = Stand::under(liar().export("lease#take", "unreachable")).await?;
    let why = stand.lease.try_take().await.err().context("it answered")?;
    assert!(matches!(why, LeaseError::Policy(_)), "{why}");
    // The gate's own failure, after a record that was really written.
    let take = format!("{CREATE} {}", taken(REVISION, REVISION, FOR_EVER));
    let stand = Stand::under(liar().export("lease#take", &take).export("gate#pass", "unreachable")).await?;
    assert!(stand.lease.try_take().await.is_err());
    assert!(!stand.lease.held());
    Ok(())
}

/// Asks bob to give way through a policy whose `step-down` writes this value at this revision.
async fn mark(value: &str, revision: u64) -> Result<Vec<u8>> {
    let (length, text) = (value.len(), value.replace('"', "\\\""));
    let guest = liar()
        .field(&format!(
            r#"(import "incumbent:policy/kv@0.1.0" "get" (func $get (param i32 i32 i32 i32)))
               (data (i32.const 512) "{text}")"#
        ))
        .export(
            "lease#step-down",
            &format!(
                "(call $get (i32.const 0) (i32.const 256) (i32.const 10) (i32.const 2048))
                 (call $update (i32.const 0) (i32.const 256) (i32.const 10) (i32.const 512) (i32.const {length})
                     (i64.const {revision}) (i32.const 3072))
                 (i32.const 8192)"
            ),
        );
    let policy = Policy::load(&Runtime::new()?, &guest.component()?).await?;
    let clock = Clock::by_hand(Steady(100_000_000_000));
    let store = Memory::new(clock.clone());
    let config = BucketConfig { ttl: Duration::from_secs(15), replicas: 1 };
    let bucket = store.create_bucket("leases", &config).await?;
    assert_eq!(bucket.create(KEY, BOB).await?, Write::Written(1));
    step_down(&policy, &bucket, &clock, KEY, "ops").await?;
    let Reading::Found(entry) = bucket.get(KEY).await? else { anyhow::bail!("bob's record is gone") };
    Ok(entry.value)
}

#[tokio::test]
async fn who_asks_a_holder_to_give_way_changes_nothing_but_the_mark() -> Result<()> {
    let marked = r#"{"instance":"bob","epoch":1,"nonce":"b1","step_down":"ops"}"#;
    assert_eq!(mark(marked, 1).await?, marked.as_bytes());
    for lie in [
        r#"{"instance":"alice","epoch":1,"nonce":"b1","step_down":"ops"}"#,
        r#"{"instance":"bob","epoch":2,"nonce":"b1","step_down":"ops"}"#,
        r#"{"instance":"bob","epoch":1,"nonce":"b2","step_down":"ops"}"#,
        r#"{"instance":"bob","epoch":1,"nonce":"b1"}"#,
        "garbage",
    ] {
        assert_eq!(mark(lie, 1).await?, BOB, "{lie}");
    }
    assert_eq!(mark(marked, 2).await?, BOB, "at another revision than the one it read");
    Ok(())
}
