//! What is SQLite's alone: one file, many processes, and what they leave behind.

mod clock;
mod files;
mod layouts;
mod queues;
mod watching;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use incumbent::clock::{Clock, Steady};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{Bucket, BucketConfig, Fault, Reading, Store, Write};
use tokio::task::JoinSet;

use crate::store_contract::races::increment;

/// A file of its own, gone with it.
struct Home {
    folder: tempfile::TempDir,
    clock: Clock,
}

impl Home {
    fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, clock: Clock::by_hand(Steady(1_000_000_000)) })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("leases.db")
    }

    async fn open(&self) -> Result<Sqlite, Fault> {
        Sqlite::open(&self.path(), self.clock.clone(), GENEROUS).await
    }

    /// The bucket, made when it is not there, by a connection of its own.
    async fn bucket(&self) -> Result<Arc<dyn Bucket>, Fault> {
        self.open().await?.create_bucket("leases", &BucketConfig { ttl: TTL, replicas: 1 }).await
    }

    /// A connection past the store, as somebody with `sqlite3` has it.
    fn by_hand(&self) -> Result<rusqlite::Connection> {
        Ok(rusqlite::Connection::open(self.path())?)
    }
}

const TTL: Duration = Duration::from_secs(15);
/// A bound that only a fault reaches, on a busy machine too.
const GENEROUS: Duration = Duration::from_secs(30);

fn won(write: Write) -> Result<u64> {
    match write {
        Write::Written(revision) => Ok(revision),
        Write::Stale(there) => anyhow::bail!("lost to {there:?}"),
    }
}

#[tokio::test]
async fn a_reopened_file_keeps_values_revisions_and_created() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    let created = bucket.info().await?.created;
    let alice = won(bucket.create("alice", b"a").await?)?;
    let bob = won(bucket.create("bob", b"b").await?)?;
    let deleted = won(bucket.delete("bob", bob, None).await?)?;
    drop(bucket);

    let bucket = home.open().await?.bucket("leases").await?;
    ensure!(bucket.info().await?.created == created);
    ensure!(bucket.last_revision().await? == deleted);
    ensure!(bucket.get("bob").await? == Reading::Deleted(deleted));
    ensure!(matches!(bucket.get("alice").await?, Reading::Found(entry) if entry.revision == alice));
    ensure!(won(bucket.create("bob", b"b").await?)? > deleted);
    Ok(())
}

#[tokio::test]
async fn a_file_raised_again_has_another_created_and_open_stores_see_it() -> Result<()> {
    let home = Home::new()?;
    let old = home.bucket().await?;
    let created = old.info().await?.created;
    let mut watch = old.watch("lease").await?;
    won(old.create("lease", b"alice").await?)?;
    ensure!(tokio::time::timeout(GENEROUS, watch.changed()).await?);

    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{suffix}", home.path().display()))?;
    }
    // Not into the file that is gone, where nobody else would see it.
    let renewed = old.update("lease", b"alice", 1).await;
    ensure!(matches!(renewed, Err(Fault::MissingBucket(_))), "{renewed:?}");

    let new = home.bucket().await?;
    ensure!(new.info().await?.created != created);
    ensure!(old.info().await? == new.info().await?, "the open store follows");
    let bob = won(new.create("lease", b"bob").await?)?;
    ensure!(matches!(old.get("lease").await?, Reading::Found(entry) if entry.revision == bob));
    // Woken, or told that it ended: either way its caller looks again.
    tokio::time::timeout(GENEROUS, watch.changed()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_opened_by_many_at_once_is_laid_out_once() -> Result<()> {
    for _ in 0..5 {
        let home = Arc::new(Home::new()?);
        let mut opening = JoinSet::new();
        for _ in 0..12 {
            let home = Arc::clone(&home);
            opening.spawn(async move { home.bucket().await?.info().await });
        }
        let mut created = Vec::new();
        while let Some(info) = opening.join_next().await {
            created.push(info??.created);
        }
        created.dedup();
        ensure!(created.len() == 1, "several buckets: {created:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_race_lose_no_increment() -> Result<()> {
    let home = Home::new()?;
    let bucket = machine_bucket(&home.path()).await?;
    won(bucket.create("count", b"0").await?)?;
    let mut children = [Counting::start(&home.path())?, Counting::start(&home.path())?];
    let own = increment(&bucket, 30).await?;
    let mut revisions = own;
    for child in &mut children {
        for _ in 0..30 {
            revisions.push(child.acknowledged()?);
        }
    }
    drop(children);
    revisions.sort_unstable();
    let given = revisions.len();
    revisions.dedup();
    ensure!(revisions.len() == given, "a revision was given twice");
    // Each child went on until it was killed: what it told is a lower bound.
    let Reading::Found(entry) = bucket.get("count").await? else { anyhow::bail!("the count is gone") };
    let count: u64 = std::str::from_utf8(&entry.value)?.parse()?;
    ensure!(count >= 90 && entry.revision == count + 1, "{count} at revision {}", entry.revision);
    Ok(())
}

#[tokio::test]
async fn a_killed_process_loses_nothing_it_acknowledged() -> Result<()> {
    let home = Home::new()?;
    let bucket = machine_bucket(&home.path()).await?;
    won(bucket.create("count", b"0").await?)?;
    for lines in 1..6 {
        let mut child = Counting::start(&home.path())?;
        let mut last = 0;
        for _ in 0..lines * 7 {
            last = child.acknowledged()?;
        }
        drop(child);
        let Reading::Found(entry) = bucket.get("count").await? else { anyhow::bail!("the count is gone") };
        ensure!(entry.revision >= last, "{} acknowledged, {} there", last, entry.revision);
        ensure!(std::str::from_utf8(&entry.value)?.parse::<u64>()? + 1 == entry.revision);
    }
    Ok(())
}

async fn machine_bucket(path: &Path) -> Result<Arc<dyn Bucket>> {
    let config = BucketConfig { ttl: Duration::from_secs(3600), replicas: 1 };
    Ok(Sqlite::open(path, Clock::machine(), GENEROUS).await?.create_bucket("leases", &config).await?)
}

/// A process of its own that counts until it is killed.
struct Counting {
    child: Child,
    told: BufReader<std::process::ChildStdout>,
}

impl Counting {
    fn start(path: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "store_sqlite::count_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env(FILE, path)
            .stdout(Stdio::piped())
            .spawn()?;
        let told = BufReader::new(child.stdout.take().context("its output is piped")?);
        Ok(Self { child, told })
    }

    /// The next revision that it was acknowledged.
    fn acknowledged(&mut self) -> Result<u64> {
        let give_up = Instant::now() + GENEROUS;
        let mut line = String::new();
        while Instant::now() < give_up && self.told.read_line(&mut line)? > 0 {
            if let Some(revision) = line.trim().strip_prefix("acknowledged ") {
                return Ok(revision.parse()?);
            }
            line.clear();
        }
        anyhow::bail!("the process ended: {:?}", self.child.try_wait()?)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FILE: &str = "INCUMBENT_TEST_FILE";

#[tokio::test]
#[ignore = "a part of other tests, which run it in a process of its own"]
async fn count_in_a_process_of_its_own() -> Result<()> {
    let path = std::env::var_os(FILE).context("run by another test")?;
    let bucket = machine_bucket(Path::new(&path)).await?;
    // Bounded, should the one that kills it be killed.
    for _ in 0..100_000 {
        println!("acknowledged {}", increment(&bucket, 1).await?[0]);
    }
    Ok(())
}
