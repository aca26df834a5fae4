//! A file of the first layout, as an older version of this program left it.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use incumbent::store::queue::QueueConfig;
use incumbent::store::sqlite::{ClockRun, Sqlite};
use incumbent::store::{Fault, Reading, Store};
use tokio::task::JoinSet;

use super::{GENEROUS, Home, TTL, won};

/// What the first layout was, with two leases in it.
const FIRST: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE buckets (
        name          TEXT    NOT NULL PRIMARY KEY,
        created       INTEGER NOT NULL UNIQUE,
        ttl_ns        INTEGER NOT NULL CHECK (ttl_ns > 0),
        last_revision INTEGER NOT NULL CHECK (last_revision >= 0)
    ) STRICT;
    CREATE TABLE entries (
        bucket        INTEGER NOT NULL REFERENCES buckets (created) ON DELETE CASCADE,
        key           TEXT    NOT NULL,
        revision      INTEGER NOT NULL CHECK (revision > 0),
        deleted       INTEGER NOT NULL CHECK (deleted IN (0, 1)),
        run           TEXT    NOT NULL,
        written_ns    INTEGER NOT NULL,
        value         BLOB    NOT NULL,
        PRIMARY KEY (bucket, key)
    ) STRICT;
    INSERT INTO buckets VALUES ('leases', 4711, 15000000000, 7);
    INSERT INTO entries VALUES (4711, 'alice', 3, 0, 'first', 1000000000, x'61'),
                               (4711, 'bob', 7, 0, 'first', 1000000000, x'62');
    PRAGMA application_id = 0x494e4342;
    PRAGMA user_version = 1;
";

impl Home {
    /// As a process of the boot that wrote [`FIRST`] opens it.
    async fn open_first(&self) -> Result<Sqlite, Fault> {
        Sqlite::open_in(&self.path(), self.clock.clone(), ClockRun::named("first"), GENEROUS).await
    }

    fn version(&self) -> Result<i64> {
        Ok(self.by_hand()?.query_row("PRAGMA user_version", [], |row| row.get(0))?)
    }
}

#[tokio::test]
async fn a_file_of_the_first_layout_keeps_its_entries_and_gains_queues() -> Result<()> {
    let home = Home::new()?;
    home.by_hand()?.execute_batch(FIRST)?;
    let store = home.open_first().await?;
    ensure!(home.version()? == 2);

    let bucket = store.bucket("leases").await?;
    let info = bucket.info().await?;
    ensure!(info.created == 4711 && info.ttl == TTL, "{info:?}");
    ensure!(bucket.keys(None, 1000).await? == ["alice", "bob"]);
    ensure!(matches!(bucket.get("alice").await?, Reading::Found(entry) if entry.value == b"a"));
    ensure!(won(bucket.update("bob", b"b2", 7).await?)? == 8, "its revisions go on");
    // Its age too.
    home.clock.advance(TTL);
    ensure!(bucket.get("alice").await? == Reading::Aged(3));

    let queue = store.create_queue("checks", &QueueConfig { ack_wait: TTL, replicas: 1 }).await?;
    queue.put(b"check it").await?;
    drop((store, bucket));
    let queue = home.open_first().await?.queue("checks").await?;
    ensure!(queue.oldest_waiting().await?.context("it waits")?.body == b"check it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_open_a_file_of_the_first_layout_at_once_all_succeed() -> Result<()> {
    for _ in 0..5 {
        let home = Arc::new(Home::new()?);
        home.by_hand()?.execute_batch(FIRST)?;
        let mut opening = JoinSet::new();
        for number in 0..12 {
            let home = Arc::clone(&home);
            opening.spawn(async move {
                let store = home.open_first().await?;
                let queue = store.create_queue("checks", &QueueConfig { ack_wait: TTL, replicas: 1 }).await?;
                queue.put(&[number]).await?;
                store.bucket("leases").await?.get("bob").await
            });
        }
        while let Some(reading) = opening.join_next().await {
            let reading = reading??;
            ensure!(matches!(&reading, Reading::Found(entry) if entry.revision == 7), "{reading:?}");
        }
        let info = home.open_first().await?.queue("checks").await?.info().await?;
        ensure!(info.waiting == 12, "{info:?}");
    }
    Ok(())
}

/// Whoever runs an older version beside this one goes on: its statements are as good as before.
#[tokio::test]
async fn an_older_program_that_has_the_file_open_goes_on() -> Result<()> {
    let home = Home::new()?;
    let older = home.by_hand()?;
    older.execute_batch(FIRST)?;
    let bucket = home.open_first().await?.bucket("leases").await?;
    older.execute_batch(
        "BEGIN IMMEDIATE;
         UPDATE buckets SET last_revision = 8 WHERE created = 4711;
         INSERT INTO entries (bucket, key, revision, deleted, run, written_ns, value)
         VALUES (4711, 'alice', 8, 0, 'first', 1000000000, x'61')
         ON CONFLICT (bucket, key) DO UPDATE SET revision = excluded.revision;
         COMMIT",
    )?;
    ensure!(matches!(bucket.get("alice").await?, Reading::Found(entry) if entry.revision == 8));
    Ok(())
}

#[tokio::test]
async fn a_layout_that_no_version_made_is_denied() -> Result<()> {
    for layout in [-1, 0, 3] {
        let home = Home::new()?;
        home.by_hand()?.execute_batch(&format!("{FIRST} PRAGMA user_version = {layout}"))?;
        let Err(Fault::Denied(told)) = home.open_first().await else { anyhow::bail!("{layout} was opened") };
        ensure!(told.contains(&format!("layout {layout}")) && told.contains("layout 2"), "{told}");
        ensure!(home.version()? == layout, "it was changed");
    }
    Ok(())
}
