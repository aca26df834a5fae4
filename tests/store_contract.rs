//! The contract of `host/src/store.rs`, held by every backend: each rule is written once and is a test of
//! its own for each of them.

mod buckets;
pub(crate) mod races;
mod time;
mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use incumbent::clock::{Clock, Steady};
use incumbent::store::memory::Memory;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{Bucket, BucketConfig, Reading, Store, Write};
use incumbent_tests::nats::NatsServer;

/// A backend: one store with one bucket, [`BUCKET`], and a way to let time pass in it.
#[async_trait]
trait Subject: Sized + Send + Sync {
    /// The ttl with which age is tried.
    const TTL: Duration;
    /// Time passes here exactly as asked, keys age to the nanosecond, and every marker is there. Otherwise
    /// time is really waited for and may pass more, a key may go late, and a marker may be missing.
    const EXACT: bool;

    /// A store of its own, with the bucket made.
    async fn raise(ttl: Duration) -> Result<Self>;

    /// A connection to it; each call makes another where there are such.
    async fn connect(&self) -> Result<Arc<dyn Store>>;

    /// The clock by which its keys age, or one that runs as that does.
    fn clock(&self) -> &Clock;

    /// Let time pass.
    async fn pass(&self, time: Duration);

    /// The bucket, by a connection of its own.
    async fn bucket(&self) -> Result<Arc<dyn Bucket>> {
        Ok(self.connect().await?.bucket(BUCKET).await?)
    }
}

/// Makes every rule a test named `store_contract::<backend>::<rule>`.
macro_rules! holds {
    ($backend:ident: $subject:ident) => {
        holds! { @ $backend: $subject =>
            writes: revisions_rise_across_create_update_and_delete;
            writes: revisions_belong_to_the_bucket_and_not_to_the_key;
            writes: create_loses_to_a_live_value_and_changes_nothing;
            writes: create_wins_over_a_deleted_key;
            writes: update_at_another_revision_loses_and_changes_nothing;
            writes: delete_at_another_revision_loses_and_changes_nothing;
            writes: update_and_delete_after_a_delete_lose;
            writes: update_and_delete_of_a_key_never_written_lose;
            writes: a_lost_race_says_what_stands_there_or_nothing;
            writes: a_deleted_key_reads_as_deleted_or_absent;
            writes: create_over_wins_over_nothing_but_what_was_read;
            writes: a_deletion_meant_for_another_bucket_vouches_for_nothing;
            writes: a_value_of_the_limit_is_kept_and_one_byte_more_is_refused;
            writes: an_empty_value_is_a_value;
            writes: any_name_is_kept_apart_and_listed_in_byte_order_as_given;
            writes: names_that_do_not_fit_are_denied;
            writes: deleted_keys_are_not_listed;
            buckets: a_missing_bucket_is_told;
            buckets: a_bucket_made_twice_is_left_alone;
            buckets: a_bucket_with_another_ttl_is_denied_and_both_are_named;
            buckets: settings_that_do_not_fit_are_denied;
            buckets: two_buckets_are_told_apart;
            buckets: purge_past_the_end_raises_the_next_revision;
            buckets: purge_drops_live_keys_below_and_keeps_the_others;
            buckets: purge_leaves_no_marker;
            buckets: purge_below_two_or_out_of_range_is_denied;
            buckets: purge_never_lowers;
            time: a_value_is_there_until_its_ttl_and_gone_after;
            time: a_write_renews_the_age;
            time: create_wins_over_an_aged_key;
            time: update_and_delete_of_an_aged_key_lose;
            time: aged_keys_are_not_listed;
            time: a_watcher_is_woken_by_create_update_and_delete;
            time: a_watcher_is_woken_by_another_connection;
            time: a_watcher_is_woken_when_the_key_ages_out;
            time: two_watchers_of_a_key_are_both_woken;
            races: one_of_a_hundred_concurrent_creates_wins;
            races: one_of_a_hundred_concurrent_updates_wins;
            races: one_of_update_and_delete_at_a_revision_wins;
            races: no_increment_is_lost_or_doubled;
            races: a_dropped_call_leaves_the_store_usable;
        }
    };
    (@ $backend:ident: $subject:ident => $($file:ident: $rule:ident;)+) => {
        mod $backend {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() -> anyhow::Result<()> {
                    super::$file::$rule::<super::$subject>().await
                }
            )+
        }
    };
}

holds! { memory: OnMemory }
holds! { sqlite: OnSqlite }
holds! { nats: OnNats }

struct OnMemory {
    clock: Clock,
    store: Memory,
}

#[async_trait]
impl Subject for OnMemory {
    // The watch of a key that ages out sleeps for as long, whatever the hand does.
    const TTL: Duration = Duration::from_millis(300);
    const EXACT: bool = true;

    async fn raise(ttl: Duration) -> Result<Self> {
        let clock = Clock::by_hand(Steady(1_000_000));
        let store = Memory::new(clock.clone());
        store.create_bucket(BUCKET, &BucketConfig { ttl, replicas: 1 }).await?;
        Ok(Self { clock, store })
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.store.clone()))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

struct OnSqlite {
    clock: Clock,
    folder: tempfile::TempDir,
}

#[async_trait]
impl Subject for OnSqlite {
    const TTL: Duration = Duration::from_secs(15);
    const EXACT: bool = true;

    async fn raise(ttl: Duration) -> Result<Self> {
        let subject = Self { clock: Clock::by_hand(Steady(1_000_000)), folder: tempfile::tempdir()? };
        subject.connect().await?.create_bucket(BUCKET, &BucketConfig { ttl, replicas: 1 }).await?;
        Ok(subject)
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        let path = self.folder.path().join("leases.db");
        Ok(Arc::new(Sqlite::open(&path, self.clock.clone(), GENEROUS).await?))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

struct OnNats {
    clock: Clock,
    server: NatsServer,
}

#[async_trait]
impl Subject for OnNats {
    // Long enough for a busy machine to read a value while it lives, short enough to wait for.
    const TTL: Duration = Duration::from_secs(2);
    const EXACT: bool = false;

    async fn raise(ttl: Duration) -> Result<Self> {
        let subject = Self { clock: Clock::machine(), server: NatsServer::start()? };
        subject.connect().await?.create_bucket(BUCKET, &BucketConfig { ttl, replicas: 1 }).await?;
        Ok(subject)
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        let mut options = NatsOptions::new(self.server.url());
        options.timeout = GENEROUS;
        Ok(Arc::new(Nats::connect(options).await?))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// The bucket that every subject has.
const BUCKET: &str = "leases";
/// A ttl that no test outlives.
const LONG: Duration = Duration::from_secs(3600);
/// A bound that only a fault reaches, on a busy machine too.
const GENEROUS: Duration = Duration::from_secs(30);

/// The revision of a write that must have won.
fn won(write: Write) -> Result<u64> {
    match write {
        Write::Written(revision) => Ok(revision),
        Write::Stale(there) => bail!("lost to {there:?}"),
    }
}

/// A write that must have lost.
fn lost(write: Write) -> Result<()> {
    match write {
        Write::Written(revision) => bail!("won at {revision}"),
        Write::Stale(_) => Ok(()),
    }
}

/// That the key has this value, written at this revision.
async fn stands(bucket: &Arc<dyn Bucket>, key: &str, value: &[u8], revision: u64) -> Result<()> {
    match bucket.get(key).await? {
        Reading::Found(entry) if entry.value == value && entry.revision == revision => Ok(()),
        other => bail!("expected revision {revision} of {key:?}, got {other:?}"),
    }
}

/// Waits until the key has no value, where that may take a while; what it reads as then.
async fn gone<S: Subject>(bucket: &Arc<dyn Bucket>, key: &str) -> Result<Reading> {
    let give_up = Instant::now() + if S::EXACT { Duration::ZERO } else { GENEROUS };
    loop {
        let reading = bucket.get(key).await?;
        if !matches!(reading, Reading::Found(_)) {
            return Ok(reading);
        }
        ensure!(Instant::now() < give_up, "{key:?} is still there: {reading:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
