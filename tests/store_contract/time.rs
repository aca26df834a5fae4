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
    lost(bucket.delete("lease", alice, None).await?)?;
    if let Reading::Aged(marker) = gone::<S>(&bucket, "lease").await? {
        lost(bucket.update("lease", b"alice", marker).await?)?;
        lost(bucket.delete("lease", marker, None).await?)?;
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
    let keys = bucket.keys(None, 1000).await?;
    ensure!(!keys.contains(&"alice".into()), "{keys:?}");
    ensure!(!S::EXACT || keys == ["bob"], "{keys:?}");
    Ok(())
}

/// Lets `act` happen while the watcher already waits, and waits for wakes until the key is as `expected`: a
/// wake for nothing is allowed, a missing one is not.
async fn woken<T>(
    watch: &mut Box<dyn Watch>,
    bucket: &Arc<dyn Bucket>,
    key: &str,
    act: impl Future<Output = Result<T>>,
    expected: impl Fn(&Reading) -> bool,
) -> Result<T> {
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
    let later = async {
        // Only makes it likelier that the watcher waits; whatever comes first, it has to be woken.
        tokio::time::sleep(Duration::from_millis(40)).await;
        act.await
    };
    match tokio::time::timeout(GENEROUS, async { tokio::try_join!(waiting, later) }).await {
        Ok(done) => Ok(done?.1),
        Err(_) => bail!("no wake for {key:?}, last seen as {last:?}"),
    }
}

fn is_free(reading: &Reading) -> bool {
    !is_held(reading)
}

fn is_held(reading: &Reading) -> bool {
    matches!(reading, Reading::Found(_))
}

fn is_value(value: &'static [u8]) -> impl Fn(&Reading) -> bool {
    move |reading| matches!(reading, Reading::Found(entry) if entry.value == value)
}

pub(super) async fn a_watcher_is_woken_by_create_update_and_delete<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let mut watch = bucket.watch("lease").await?;
    let create = async { won(bucket.create("lease", b"1").await?) };
    let created = woken(&mut watch, &bucket, "lease", create, is_value(b"1")).await?;
    let update = async { won(bucket.update("lease", b"2", created).await?) };
    let updated = woken(&mut watch, &bucket, "lease", update, is_value(b"2")).await?;
    let delete = async { won(bucket.delete("lease", updated, None).await?) };
    woken(&mut watch, &bucket, "lease", delete, is_free).await?;
    drop(watch);
    let again = won(bucket.create("lease", b"bob").await?)?;
    stands(&bucket, "lease", b"bob", again).await
}

pub(super) async fn a_watcher_is_woken_by_another_connection<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (alice, bob) = (subject.bucket().await?, subject.bucket().await?);
    let key = "labeler:did:plc:abc";
    let created = won(alice.create(key, b"1").await?)?;
    let mut watch = bob.watch(key).await?;
    let update = async { won(alice.update(key, b"2", created).await?) };
    let updated = woken(&mut watch, &bob, key, update, is_value(b"2")).await?;
    let update = async { won(alice.update(key, b"3", updated).await?) };
    let updated = woken(&mut watch, &bob, key, update, is_value(b"3")).await?;
    let delete = async { won(alice.delete(key, updated, None).await?) };
    woken(&mut watch, &bob, key, delete, is_free).await?;
    Ok(())
}

pub(super) async fn a_watcher_is_woken_when_the_key_ages_out<S: Subject>() -> Result<()> {
    let subject = S::raise(S::TTL).await?;
    let bucket = subject.bucket().await?;
    if !bucket.info().await?.markers {
        return Ok(()); // It says itself that watchers see nothing of it, and the caller polls.
    }
    let mut watch = bucket.watch("lease").await?;
    let create = async { won(bucket.create("lease", b"alice").await?) };
    // Whatever it reads as by then: a short ttl may be over.
    woken(&mut watch, &bucket, "lease", create, |_| true).await?;
    let pass = async {
        subject.pass(S::TTL).await;
        Ok(())
    };
    woken(&mut watch, &bucket, "lease", pass, is_free).await
}

pub(super) async fn two_watchers_of_a_key_are_both_woken<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let (mut first, mut second) = (bucket.watch("lease").await?, bucket.watch("lease").await?);
    let create = async { won(bucket.create("lease", b"alice").await?) };
    woken(&mut first, &bucket, "lease", create, is_held).await?;
    woken(&mut second, &bucket, "lease", async { Ok(()) }, is_held).await
}

/// Tries of what a busy machine may spoil.
const ROUNDS: usize = 10;
