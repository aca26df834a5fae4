//! Paths and files that do not fit: each is told, with the path and what to do about it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use incumbent::clock::Clock;
use incumbent::store::queue::QueueConfig;
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Fault, Reading, Store, Write};

use super::{GENEROUS, Home, TTL, won};

/// How opening a path fails.
async fn refused(path: &Path) -> Result<Fault> {
    Sqlite::open(path, Clock::machine(), GENEROUS).await.err().context("it was opened")
}

/// That the fault is `Denied` and names the path and every one of these words.
fn is_denied(fault: &Fault, path: &Path, words: &[&str]) -> Result<()> {
    let Fault::Denied(told) = fault else { anyhow::bail!("{fault:?}") };
    ensure!(told.contains(&path.display().to_string()), "no path in {told:?}");
    for word in words {
        ensure!(told.contains(word), "no {word:?} in {told:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_is_denied() -> Result<()> {
    let home = Home::new()?;
    let folder = home.folder.path();
    is_denied(&refused(folder).await?, folder, &["folder", "give the path of a file"])?;
    is_denied(&refused(Path::new("/")).await?, Path::new("/"), &["folder"])
}

#[tokio::test]
async fn an_empty_path_is_denied() -> Result<()> {
    is_denied(&refused(Path::new("")).await?, Path::new(""), &["no path"])
}

#[tokio::test]
async fn folders_are_made_and_a_path_is_only_a_path() -> Result<()> {
    let home = Home::new()?;
    for name in ["a/b/c/leases.db", ":memory:", "file:leases?mode=memory", "über uns/лизинг.db"] {
        let path = home.folder.path().join(name);
        Sqlite::open(&path, Clock::machine(), GENEROUS).await?;
        ensure!(path.is_file(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_file_in_the_place_of_a_folder_is_denied() -> Result<()> {
    let home = Home::new()?;
    std::fs::write(home.folder.path().join("plain"), "")?;
    let path = home.folder.path().join("plain/sub/leases.db");
    is_denied(&refused(&path).await?, &path, &["cannot make the folder", "give another path"])
}

#[tokio::test]
async fn a_file_that_is_no_database_is_denied_and_left_as_it_was() -> Result<()> {
    let home = Home::new()?;
    let text = "not a database, but somebody's notes\n".repeat(200);
    std::fs::write(home.path(), &text)?;
    is_denied(&refused(&home.path()).await?, &home.path(), &["no SQLite database", "give another path"])?;
    ensure!(std::fs::read_to_string(home.path())? == text);
    Ok(())
}

#[tokio::test]
async fn a_database_of_another_application_is_denied_and_left_as_it_was() -> Result<()> {
    for layout in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 77", "PRAGMA user_version = 1"] {
        let home = Home::new()?;
        home.by_hand()?.execute_batch(layout)?;
        let before = std::fs::read(home.path())?;
        is_denied(
            &refused(&home.path()).await?,
            &home.path(),
            &["another application", "give another path"],
        )?;
        ensure!(std::fs::read(home.path())? == before, "{layout}");
    }
    Ok(())
}

#[tokio::test]
async fn a_newer_layout_is_denied() -> Result<()> {
    let home = Home::new()?;
    home.bucket().await?;
    home.by_hand()?.execute_batch("PRAGMA user_version = 9")?;
    is_denied(
        &refused(&home.path()).await?,
        &home.path(),
        &["layout 9", "layout 2", "version of this program"],
    )
}

/// Mode bits do not bind root, and tests may run as root: these are paths that the kernel refuses to all.
#[tokio::test]
async fn a_read_only_file_or_folder_is_denied() -> Result<()> {
    for path in ["/sys/kernel/uevent_seqnum", "/proc/leases.db", "/proc/leases/leases.db"] {
        let path = Path::new(path);
        is_denied(&refused(path).await?, path, &[])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_time_out_that_does_not_fit_is_denied() -> Result<()> {
    let home = Home::new()?;
    for timeout in [Duration::ZERO, Duration::from_secs(3601), Duration::MAX] {
        let fault = Sqlite::open(&home.path(), Clock::machine(), timeout).await.err().context("opened")?;
        is_denied(&fault, &home.path(), &["time-out"])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_damaged_file_is_unavailable_and_nothing_is_granted() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    for number in 0..200 {
        won(bucket.create(&format!("lease-{number}"), &[b'x'; 300]).await?)?;
    }
    drop(bucket);
    let mut bytes = std::fs::read(home.path())?;
    ensure!(bytes.len() > 8 * 4096, "the log was written back: {}", bytes.len());
    // Leaves the header and the layout, so that it opens.
    bytes[4096..].fill(0xEE);
    std::fs::write(home.path(), bytes)?;

    let bucket = match home.bucket().await {
        Ok(bucket) => bucket,
        Err(fault) => return says_damaged(&fault, &home),
    };
    let create = bucket.create("lease-7", b"bob").await;
    says_damaged(&create.err().context("it was granted")?, &home)
}

fn says_damaged(fault: &Fault, home: &Home) -> Result<()> {
    let Fault::Unavailable(told) = fault else { anyhow::bail!("{fault:?}") };
    ensure!(told.contains("damaged") && told.contains(&home.path().display().to_string()), "{told}");
    Ok(())
}

/// What a start waits for is no call that a gate depends on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_outwaits_another_that_lays_the_file_out() -> Result<()> {
    let home = Home::new()?;
    let timeout = Duration::from_millis(10);
    let config = BucketConfig { ttl: TTL, replicas: 1 };
    let other = home.by_hand()?;

    other.execute_batch("BEGIN EXCLUSIVE")?;
    let path = home.path();
    let open = Sqlite::open(&path, Clock::machine(), timeout);
    let (opened, ()) = tokio::join!(open, held(&other, timeout));
    let store = opened?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    let (bucket, ()) = tokio::join!(store.create_bucket("leases", &config), held(&other, timeout));
    bucket?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    let queue = QueueConfig { ack_wait: TTL, replicas: 1 };
    let (queue, ()) = tokio::join!(store.create_queue("checks", &queue), held(&other, timeout));
    queue.map(|_| ()).map_err(Into::into)
}

/// Lets the lock go when a call of this time-out would have ended.
async fn held(other: &rusqlite::Connection, timeout: Duration) {
    tokio::time::sleep(timeout * 5).await;
    other.execute_batch("ROLLBACK").expect("it was locked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_file_is_unavailable_within_the_time_out_and_fine_after() -> Result<()> {
    let home = Home::new()?;
    let first = won(home.bucket().await?.create("lease", b"alice").await?)?;
    let timeout = Duration::from_millis(400);
    let bucket = Sqlite::open(&home.path(), home.clock.clone(), timeout).await?.bucket("leases").await?;
    let other = home.by_hand()?;
    other.execute_batch("BEGIN EXCLUSIVE")?;

    let asked = Instant::now();
    let fault = bucket.update("lease", b"alice", first).await.err().context("it was locked")?;
    let took = asked.elapsed();
    let Fault::Unavailable(told) = &fault else { anyhow::bail!("{fault:?}") };
    ensure!(told.contains("locked") && told.contains("lease") && told.contains("try again"), "{told}");
    ensure!(told.contains(&home.path().display().to_string()), "{told}");
    ensure!(took >= timeout / 2, "it did not wait for the lock: {took:?}");
    ensure!(took < timeout + Duration::from_secs(5), "{took:?}");
    ensure!(matches!(bucket.get("lease").await?, Reading::Found(_)), "reads go on");

    // Many at once, behind one another and behind the lock, end in time too.
    let asked = Instant::now();
    let all = futures_util::future::join_all((0..20).map(|_| bucket.update("lease", b"alice", first))).await;
    ensure!(all.iter().all(|one| matches!(one, Err(Fault::Unavailable(_)))), "{all:?}");
    ensure!(asked.elapsed() < timeout + Duration::from_secs(5));

    other.execute_batch("ROLLBACK")?;
    ensure!(won(bucket.update("lease", b"alice", first).await?)? > first);
    Ok(())
}

#[tokio::test]
async fn a_value_over_the_limit_put_there_by_hand_is_too_large_and_harms_no_other() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    let bob = won(bucket.create("bob", b"b").await?)?;
    let large = won(bucket.create("large", b"l").await?)?;
    home.by_hand()?.execute("UPDATE entries SET value = zeroblob(2097152) WHERE key = 'large'", [])?;

    for fault in [bucket.get("large").await.err(), bucket.create("large", b"x").await.err()] {
        let Some(Fault::TooLarge(told)) = &fault else { anyhow::bail!("{fault:?}") };
        ensure!(told.contains("large") && told.contains("2097152") && told.contains("65536"), "{told}");
        ensure!(told.contains("leases.db"), "{told}");
    }
    ensure!(matches!(bucket.get("bob").await?, Reading::Found(entry) if entry.revision == bob));
    ensure!(bucket.keys(None, 1000).await? == ["bob", "large"]);
    // Its writer may still replace it.
    won(bucket.update("large", b"small", large).await?)?;
    ensure!(matches!(bucket.get("large").await?, Reading::Found(_)));
    Ok(())
}

#[tokio::test]
async fn what_this_program_never_writes_is_a_fault_and_no_panic() -> Result<()> {
    for harm in [
        "UPDATE buckets SET ttl_ns = -5",
        "UPDATE buckets SET last_revision = -5",
        "UPDATE buckets SET last_revision = 9223372036854775807",
        "UPDATE entries SET revision = -5",
        "UPDATE entries SET written_ns = -5",
        "UPDATE entries SET key = printf('%.*c', 5000, 'x')",
        "UPDATE entries SET run = printf('%.*c', 3000000, 'x')",
        "DROP TABLE entries",
        "ALTER TABLE entries RENAME COLUMN value TO other",
        "DELETE FROM buckets",
    ] {
        let home = Home::new()?;
        let bucket = home.bucket().await?;
        won(bucket.create("lease", b"alice").await?)?;
        home.by_hand()?.execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {harm}"))?;
        let answers = [
            bucket.get("lease").await.err(),
            bucket.keys(None, 1000).await.err(),
            bucket.info().await.err(),
            bucket.create("other", b"bob").await.err(),
            bucket.watch("lease").await.err(),
        ];
        ensure!(answers.iter().any(Option::is_some), "{harm}");
        let created = bucket.create("lease", b"bob").await;
        let unchanged = harm.contains("key =") || !matches!(created, Ok(Write::Written(_)));
        ensure!(unchanged, "{harm}: {created:?}");
    }
    Ok(())
}
