//! Age across reboots, and by no other clock than the steady one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::clock::{Clock, Steady};
use incumbent::store::sqlite::{ClockRun, Sqlite};
use incumbent::store::{Bucket, BucketConfig, Fault, Reading, Store, Write};

use super::{GENEROUS, Home, TTL, won};

/// The bucket as a process sees it after the boot of this name, `clock` starting anew.
async fn booted(home: &Home, clock: &Clock, boot: &str) -> Result<Arc<dyn Bucket>, Fault> {
    let run = ClockRun::named(boot);
    let store = Sqlite::open_in(&home.path(), clock.clone(), run, GENEROUS).await?;
    store.create_bucket("leases", &BucketConfig { ttl: TTL, replicas: 1 }).await
}

const NANO: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn after_a_reboot_a_key_lives_a_whole_ttl_from_its_first_sight() -> Result<()> {
    // The new clock may stand below the old stamp, at it, or far above it.
    for uptime in [0, 500, 1_000, 1_014, 100_000] {
        let home = Home::new()?;
        let before = Clock::by_hand(Steady(1_000_000_000_000));
        let bucket = booted(&home, &before, "first").await?;
        let revision = won(bucket.create("lease", b"alice").await?)?;
        before.advance(TTL - NANO);
        drop(bucket);

        let after = Clock::by_hand(Steady(uptime * 1_000_000_000));
        let bucket = booted(&home, &after, "second").await?;
        // First sight is when it is looked at, not when the file was opened.
        after.advance(Duration::from_secs(3));
        let found =
            |reading: &Reading| matches!(reading, Reading::Found(entry) if entry.revision == revision);
        ensure!(found(&bucket.get("lease").await?), "uptime {uptime}");
        after.advance(TTL - NANO);
        ensure!(found(&bucket.get("lease").await?), "uptime {uptime}: gone early");
        after.advance(NANO);
        ensure!(bucket.get("lease").await? == Reading::Aged(revision), "uptime {uptime}: not gone");
        ensure!(won(bucket.create("lease", b"bob").await?)? > revision);
    }
    Ok(())
}

#[tokio::test]
async fn every_call_that_meets_a_key_of_another_boot_lets_it_live() -> Result<()> {
    for first_sight in ["create", "update", "delete", "keys", "watch"] {
        let home = Home::new()?;
        let clock = Clock::by_hand(Steady(1_000_000_000_000));
        let revision = won(booted(&home, &clock, "first").await?.create("lease", b"alice").await?)?;
        clock.advance(TTL * 10);
        let bucket = booted(&home, &clock, "second").await?;
        match first_sight {
            "create" => ensure!(!matches!(bucket.create("lease", b"bob").await?, Write::Written(_))),
            "keys" => ensure!(bucket.keys(None, 1000).await? == ["lease"]),
            "watch" => drop(bucket.watch("lease").await?),
            // The holder itself, through a reboot of its own.
            "update" => {
                won(bucket.update("lease", b"alice", revision).await?)?;
            }
            _ => {
                won(bucket.delete("lease", revision, None).await?)?;
                continue;
            }
        }
        clock.advance(TTL - NANO);
        ensure!(matches!(bucket.get("lease").await?, Reading::Found(_)), "after {first_sight}: gone early");
        clock.advance(NANO);
        ensure!(matches!(bucket.get("lease").await?, Reading::Aged(_)), "after {first_sight}: not gone");
    }
    Ok(())
}

#[tokio::test]
async fn a_stamp_that_lies_ahead_is_not_believed_for_ever() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    let revision = won(bucket.create("lease", b"alice").await?)?;
    // As a machine that was set back to an earlier picture of itself finds it.
    home.by_hand()?.execute("UPDATE entries SET written_ns = written_ns + 1000000000000000", [])?;
    ensure!(matches!(bucket.get("lease").await?, Reading::Found(_)));
    home.clock.advance(TTL - NANO);
    ensure!(matches!(bucket.get("lease").await?, Reading::Found(_)));
    home.clock.advance(NANO);
    ensure!(bucket.get("lease").await? == Reading::Aged(revision));
    Ok(())
}

#[tokio::test]
async fn stamps_are_of_the_steady_clock_and_of_this_boot() -> Result<()> {
    let home = Home::new()?;
    let clock = Clock::machine();
    let store = Sqlite::open(&home.path(), clock.clone(), GENEROUS).await?;
    let bucket = store.create_bucket("leases", &BucketConfig { ttl: TTL, replicas: 1 }).await?;
    let before = clock.now().0;
    won(bucket.create("lease", b"alice").await?)?;
    let after = clock.now().0;
    // The file holds no other time, so a wall clock that steps has nothing to act upon.
    let (written, run): (u64, String) =
        home.by_hand()?
            .query_row("SELECT written_ns, run FROM entries", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    ensure!(before <= written && written <= after, "{before} {written} {after}");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    ensure!(run.starts_with(boot.trim()), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn old_markers_are_forgotten_and_live_keys_are_not() -> Result<()> {
    let home = Home::new()?;
    let bucket = home.bucket().await?;
    let mut kept = won(bucket.create("kept", b"alice").await?)?;
    for number in 0..400 {
        won(bucket.create(&format!("check-{number}"), b"x").await?)?;
        kept = won(bucket.update("kept", b"alice", kept).await?)?;
        home.clock.advance(TTL / 4);
    }
    let rows: usize = home.by_hand()?.query_row("SELECT count(*) FROM entries", [], |row| row.get(0))?;
    ensure!(rows < 200, "{rows} rows for five live keys");
    ensure!(matches!(bucket.get("kept").await?, Reading::Found(entry) if entry.revision == kept));
    ensure!(bucket.last_revision().await? == 801);
    Ok(())
}
