//! Buckets as a whole: making them, telling them apart, and rule 5, the purge.

use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::limits::REVISION_HIGHEST;
use incumbent::store::{BucketConfig, Fault, Reading};

use super::{BUCKET, LONG, Subject, lost, stands, won};

pub(super) async fn a_missing_bucket_is_told<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let store = subject.connect().await?;
    let fault = store.bucket("nowhere").await.err();
    ensure!(matches!(&fault, Some(Fault::MissingBucket(told)) if told.contains("nowhere")), "{fault:?}");
    Ok(())
}

pub(super) async fn a_bucket_made_twice_is_left_alone<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (store, bucket) = (subject.connect().await?, subject.bucket().await?);
    let (before, revision) = (bucket.info().await?, won(bucket.create("lease", b"alice").await?)?);
    ensure!(before.ttl == LONG, "{before:?}");
    let again = store.create_bucket(BUCKET, &BucketConfig { ttl: LONG, replicas: 1 }).await?;
    ensure!(again.name() == BUCKET && again.info().await? == before);
    stands(&again, "lease", b"alice", revision).await
}

pub(super) async fn a_bucket_with_another_ttl_is_denied_and_both_are_named<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let other = BucketConfig { ttl: Duration::from_secs(77), replicas: 1 };
    let fault = subject.connect().await?.create_bucket(BUCKET, &other).await.err();
    let named = |told: &str| told.contains("3600s") && told.contains("77s");
    ensure!(matches!(&fault, Some(Fault::Denied(told)) if named(told)), "{fault:?}");
    ensure!(subject.bucket().await?.info().await?.ttl == LONG);
    Ok(())
}

pub(super) async fn settings_that_do_not_fit_are_denied<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let store = subject.connect().await?;
    let day = Duration::from_secs(24 * 3600);
    let long_name = "x".repeat(201);
    for (name, ttl, replicas) in [
        ("", LONG, 1),
        ("a b", LONG, 1),
        ("a.b", LONG, 1),
        ("../a", LONG, 1),
        ("ü", LONG, 1),
        (&long_name, LONG, 1),
        ("other", Duration::ZERO, 1),
        ("other", Duration::from_millis(99), 1),
        ("other", day + Duration::from_nanos(1), 1),
        ("other", Duration::MAX, 1),
        ("other", LONG, 0),
    ] {
        let fault = store.create_bucket(name, &BucketConfig { ttl, replicas }).await.err();
        ensure!(matches!(fault, Some(Fault::Denied(_))), "{name:?} {ttl:?} {replicas}: {fault:?}");
    }
    ensure!(matches!(store.bucket("other").await, Err(Fault::MissingBucket(_))));
    Ok(())
}

pub(super) async fn two_buckets_are_told_apart<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (store, leases) = (subject.connect().await?, subject.bucket().await?);
    let plans = store.create_bucket("plans", &BucketConfig { ttl: LONG / 2, replicas: 1 }).await?;
    ensure!(leases.info().await?.created != plans.info().await?.created);
    ensure!(plans.info().await?.ttl == LONG / 2);
    let alice = won(leases.create("key", b"alice").await?)?;
    let bob = won(plans.create("key", b"bob").await?)?;
    won(plans.delete("key", bob, None).await?)?;
    plans.purge_below(1000).await?;
    ensure!(leases.last_revision().await? == alice, "each counts by itself");
    stands(&leases, "key", b"alice", alice).await
}

pub(super) async fn purge_past_the_end_raises_the_next_revision<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    ensure!(bucket.purge_below(50).await? == 0, "it was empty");
    let revision = won(bucket.create("lease", b"alice").await?)?;
    ensure!(revision >= 50, "{revision}");
    let far = 1 << 53;
    ensure!(bucket.purge_below(far).await? == 1);
    ensure!(bucket.last_revision().await? >= far - 1);
    let revision = won(bucket.create("lease", b"bob").await?)?;
    ensure!(revision >= far, "{revision}");
    let renewed = won(bucket.update("lease", b"bob again", revision).await?)?;
    ensure!(renewed > revision);
    stands(&bucket, "lease", b"bob again", renewed).await
}

pub(super) async fn purge_drops_live_keys_below_and_keeps_the_others<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("alice", b"a").await?)?;
    let bob = won(bucket.create("bob", b"b").await?)?;
    ensure!(bucket.purge_below(bob).await? == 1);
    ensure!(bucket.keys(None, 1000).await? == ["bob"]);
    stands(&bucket, "bob", b"b", bob).await?;
    lost(bucket.update("alice", b"a", alice).await?)?;
    let again = won(bucket.create("alice", b"again").await?)?;
    ensure!(again > bob);
    Ok(())
}

pub(super) async fn purge_leaves_no_marker<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("alice", b"a").await?)?;
    let deleted = won(bucket.delete("alice", alice, None).await?)?;
    won(bucket.create("bob", b"b").await?)?;
    bucket.purge_below(deleted + 100).await?;
    for key in ["alice", "bob"] {
        ensure!(bucket.get(key).await? == Reading::Absent);
    }
    Ok(())
}

pub(super) async fn purge_below_two_or_out_of_range_is_denied<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let revision = won(bucket.create("lease", b"alice").await?)?;
    for below in [0, 1, REVISION_HIGHEST + 1, u64::MAX] {
        let fault = bucket.purge_below(below).await;
        ensure!(matches!(fault, Err(Fault::Denied(_))), "{below}: {fault:?}");
    }
    ensure!(bucket.last_revision().await? == revision);
    stands(&bucket, "lease", b"alice", revision).await
}

pub(super) async fn purge_never_lowers<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    bucket.purge_below(1000).await?;
    let alice = won(bucket.create("lease", b"alice").await?)?;
    ensure!(bucket.purge_below(5).await? == 0);
    ensure!(bucket.last_revision().await? == alice);
    stands(&bucket, "lease", b"alice", alice).await?;
    ensure!(won(bucket.create("other", b"bob").await?)? > alice);
    Ok(())
}
