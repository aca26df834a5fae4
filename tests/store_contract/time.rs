//! Age and watching: rules 3, 4 and 10.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use incumbent::clock::Steady;
use incumbent::store::{Bucket, Reading, Watch};

use super::{GENEROUS, LONG, Subject, gone, lost, stands, won};

/// As near to the end of a ttl as it can be looked at.
fn nearly<S: Subject>() -> Duration {
    if S::EXACT { S::TTL - Duration::from_nanos(1) } else { S::TTL * 6 / 10 }
}

/// Whether the key is there, as it must be when its last write, sent at `sent`, is younger than the ttl.
/// `false`: the look came too late to say.
async fn there<S: Subject>(subject: &S, bucket: &Arc<dyn Bucket>, key: &str, sent: Steady) -> Result<bool> {
    let reading = bucket.get(key).await?;
    let age = subject.clock().now().since(sent);
    if age >= S::TTL {
        return Ok(false);
    }
    ensure!(
        matches!(reading, Reading::Found(_)),
        "{key:?} was {reading:?} at the age of {age:?} of {:?}",
        S::TTL
    );
    Ok(true)
}

pub(super) async fn a_value_is_there_until_its_ttl_and_gone_after<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    for round in 0..ROUNDS {
        let (key, sent) = (format!("lease-{round}"), subject.clock().now());
        let revision = won(bucket.create(&key, b"alice").await?)?;
        subject.pass(nearly::<S>()).await;
        let seen = there(&subject, &bucket, &key, sent).await?;
        subject.pass(S::TTL - nearly::<S>()).await;
        match gone::<S>(&bucket, &key).await? {
            Reading::Aged(at) => ensure!(at >= revision),
            Reading::Absent if !S::EXACT => {}
            other => bail!("{key:?} aged out and reads as {other:?}"),
        }
        if seen {
            return Ok(());
        }
    }
    bail!("this machine is too busy: {ROUNDS} looks all came later than the ttl")
}

pub(super) async fn a_write_renews_the_age<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    for round in 0..ROUNDS {
        let (key, mut sent) = (format!("lease-{round}"), subject.clock().now());
        let mut revision = won(bucket.create(&key, b"alice").await?)?;
        let mut renewed = 0;
        while renewed < 3 {
            subject.pass(nearly::<S>()).await;
            if !there(&subject, &bucket, &key, sent).await? {
                break;
            }
            sent = subject.clock().now();
            match bucket.update(&key, b"alice", revision).await? {
                incumbent::store::Write::Written(at) => revision = at,
                // Between the look and the write it may have aged out.
                stale if S::EXACT => bail!("{stale:?}"),
                _ => break,
            }
            renewed += 1;
        }
        if renewed == 3 {
            subject.pass(S::TTL).await;
            gone::<S>(&bucket, &key).await?;
            return Ok(());
        }
    }
    bail!("this machine is too busy: {ROUNDS} keys all aged out before they were renewed")
}

pub(super) async fn create_wins_over_an_aged_key<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("lease", b"alice").await?)?;
    subject.pass(S::TTL).await;
    gone::<S>(&bucket, "lease").await?;
    let bob = won(bucket.create("lease", b"bob").await?)?;
    ensure!(bob > alice, "an epoch that was given is not given again");
    ensure!(bucket.last_revision().await? >= bob);
    Ok(())
}

pub(super) async fn update_and_delete_of_an_aged_key_lose<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("lease", b"alice").await?)?;
    subject.pass(S::TTL).await;
    if !S::EXACT {
        gone::<S>(&bucket, "lease").await?;
    }
    lost(bucket.update("lease", b"alice", alice).await?)?;
    lost(bucket.delete("lease", alice).await?)?;
    if let Reading::Aged(marker) = gone::<S>(&bucket, "lease").await? {
        lost(bucket.update("lease", b"alice", marker).await?)?;
        lost(bucket.delete("lease", marker).await?)?;
    }
    gone::<S>(&bucket, "lease").await?;
    Ok(())
}

pub(super) async fn aged_keys_are_not_listed<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    won(bucket.create("alice", b"a").await?)?;
    subject.pass(S::TTL).await;
    gone::<S>(&bucket, "alice").await?;
    won(bucket.create("bob", b"b").await?)?;
    let keys = bucket.keys().await?;
    ensure!(!keys.contains(&"alice".into()), "{keys:?}");
    ensure!(!S::EXACT || keys == ["bob"], "{keys:?}");
    Ok(())
}

/// Waits for wakes until the key is as `expected`; a wake for nothing is allowed, a missing one is not.
async fn woken(
    watch: &mut Box<dyn Watch>,
    bucket: &Arc<dyn Bucket>,
    key: &str,
    expected: impl Fn(&Reading) -> bool,
) -> Result<()> {
    let mut last = None;
    let waiting = async {
        loop {
            ensure!(watch.changed().await, "the watch has ended");
            let reading = bucket.get(key).await?;
            if expected(&reading) {
                return Ok(());
            }
            last = Some(reading);
        }
    };
    match tokio::time::timeout(GENEROUS, waiting).await {
        Ok(done) => done,
        Err(_) => bail!("no wake for {key:?}, last seen as {last:?}"),
    }
}

pub(super) async fn a_watcher_is_woken_by_create_update_and_delete<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let mut watch = bucket.watch("lease").await?;
    let is =
        |at: u64| move |reading: &Reading| matches!(reading, Reading::Found(entry) if entry.revision == at);
    let created = won(bucket.create("lease", b"alice").await?)?;
    woken(&mut watch, &bucket, "lease", is(created)).await?;
    let updated = won(bucket.update("lease", b"alice", created).await?)?;
    woken(&mut watch, &bucket, "lease", is(updated)).await?;
    won(bucket.delete("lease", updated).await?)?;
    woken(&mut watch, &bucket, "lease", |reading| !matches!(reading, Reading::Found(_))).await?;
    drop(watch);
    let again = won(bucket.create("lease", b"bob").await?)?;
    stands(&bucket, "lease", b"bob", again).await
}

pub(super) async fn a_watcher_is_woken_by_another_connection<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (alice, bob) = (subject.bucket().await?, subject.bucket().await?);
    let mut revision = won(alice.create("labeler:did:plc:abc", b"alice").await?)?;
    let mut watch = bob.watch("labeler:did:plc:abc").await?;
    for _ in 0..3 {
        revision = won(alice.update("labeler:did:plc:abc", b"alice", revision).await?)?;
        let renewed =
            |reading: &Reading| matches!(reading, Reading::Found(entry) if entry.revision == revision);
        woken(&mut watch, &bob, "labeler:did:plc:abc", renewed).await?;
    }
    won(alice.delete("labeler:did:plc:abc", revision).await?)?;
    woken(&mut watch, &bob, "labeler:did:plc:abc", |reading| !matches!(reading, Reading::Found(_))).await
}

pub(super) async fn a_watcher_is_woken_when_the_key_ages_out<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    if !bucket.info().await?.markers {
        return Ok(()); // It says itself that watchers see nothing of it, and the caller polls.
    }
    won(bucket.create("lease", b"alice").await?)?;
    let mut watch = bucket.watch("lease").await?;
    subject.pass(S::TTL).await;
    woken(&mut watch, &bucket, "lease", |reading| !matches!(reading, Reading::Found(_))).await
}

pub(super) async fn two_watchers_of_a_key_are_both_woken<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let (mut first, mut second) = (bucket.watch("lease").await?, bucket.watch("lease").await?);
    won(bucket.create("lease", b"alice").await?)?;
    let held = |reading: &Reading| matches!(reading, Reading::Found(_));
    woken(&mut first, &bucket, "lease", held).await?;
    woken(&mut second, &bucket, "lease", held).await
}

/// Tries of what a busy machine may spoil.
const ROUNDS: usize = 10;
