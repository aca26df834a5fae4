//! SQLite answers as memory does, whatever is asked of it: the memory store is the specification.

use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::clock::{Clock, Steady};
use incumbent::store::memory::Memory;
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{Bucket, BucketConfig, Fault, Store, Write};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// What is asked of a bucket.
#[derive(Clone, Debug)]
enum Ask {
    Get(usize),
    Create(usize, u8),
    /// With this much less than the highest revision expected.
    Update(usize, u8, u64),
    Delete(usize, u64),
    Keys(Option<usize>, usize),
    Purge(u64),
    Wait(u64),
    Count,
}

const KEYS: [&str; 3] = ["controller", "labeler:did:plc:abc", "👑"];
const TTL: Duration = Duration::from_secs(15);

fn ask() -> impl Strategy<Value = Ask> {
    let key = || 0..KEYS.len();
    let behind = || prop_oneof![3 => 0..3_u64, 1 => 0..9_u64];
    prop_oneof![
        3 => key().prop_map(Ask::Get),
        3 => (key(), any::<u8>()).prop_map(|(key, value)| Ask::Create(key, value)),
        4 => (key(), any::<u8>(), behind()).prop_map(|(key, value, behind)| Ask::Update(key, value, behind)),
        2 => (key(), behind()).prop_map(|(key, behind)| Ask::Delete(key, behind)),
        1 => (prop::option::of(key()), 0..4_usize).prop_map(|(after, most)| Ask::Keys(after, most)),
        1 => (0..6_u64).prop_map(Ask::Purge),
        2 => (0..9_u64).prop_map(Ask::Wait),
        1 => Just(Ask::Count),
    ]
}

/// What was answered, in words. What stands there after a lost race is said or not, as the store likes.
async fn answer(bucket: &dyn Bucket, ask: &Ask, highest: u64) -> String {
    let wrote = |write: Result<Write, Fault>| match write {
        Ok(Write::Stale(_)) => "stale".into(),
        other => format!("{other:?}"),
    };
    match ask {
        Ask::Get(key) => format!("{:?}", bucket.get(KEYS[*key]).await),
        Ask::Create(key, value) => wrote(bucket.create(KEYS[*key], &[*value]).await),
        Ask::Update(key, value, behind) => {
            wrote(bucket.update(KEYS[*key], &[*value], highest.saturating_sub(*behind)).await)
        }
        Ask::Delete(key, behind) => {
            wrote(bucket.delete(KEYS[*key], highest.saturating_sub(*behind), None).await)
        }
        Ask::Keys(after, most) => format!("{:?}", bucket.keys(after.map(|key| KEYS[key]), *most).await),
        Ask::Purge(ahead) => format!("{:?}", bucket.purge_below(highest.saturating_sub(2) + ahead).await),
        Ask::Wait(_) | Ask::Count => format!("{:?}", bucket.last_revision().await),
    }
}

async fn play(asks: &[Ask]) -> Result<()> {
    let clock = Clock::by_hand(Steady(100_000_000_000));
    let folder = tempfile::tempdir()?;
    let memory = Memory::new(clock.clone());
    let sqlite =
        Sqlite::open(&folder.path().join("leases.db"), clock.clone(), Duration::from_secs(5)).await?;
    let config = BucketConfig { ttl: TTL, replicas: 1 };
    let (specified, tried) =
        (memory.create_bucket("leases", &config).await?, sqlite.create_bucket("leases", &config).await?);
    for (at, ask) in asks.iter().enumerate() {
        if let Ask::Wait(seconds) = ask {
            clock.advance(Duration::from_secs(*seconds));
        }
        let highest = specified.last_revision().await?;
        let (expected, came) = (answer(&*specified, ask, highest).await, answer(&*tried, ask, highest).await);
        ensure!(expected == came, "at {at}, {ask:?}: memory {expected}, SQLite {came}");
    }
    Ok(())
}

#[test]
fn sqlite_answers_as_memory_does() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // By a fixed seed, so every run tries the same.
    let (rng_seed, failure_persistence) = (RngSeed::Fixed(1), None);
    TestRunner::new(Config { cases: 60, rng_seed, failure_persistence, ..Config::default() })
        .run(&prop::collection::vec(ask(), 1..40), |asks| {
            runtime.block_on(play(&asks)).map_err(|why| TestCaseError::fail(format!("{why:#}")))
        })
        .map_err(|why| anyhow::anyhow!("{why}"))
}
