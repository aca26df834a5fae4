//! Compare-and-set, revisions, names and sizes: rules 1, 2, 4, 7 and 9.

use anyhow::{Result, ensure};
use incumbent::limits::{NAME_BYTES, VALUE_BYTES};
use incumbent::store::{Entry, Fault, Reading, Write};

use super::{LONG, Subject, lost, stands, won};

pub(super) async fn revisions_rise_across_create_update_and_delete<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    ensure!(bucket.last_revision().await? == 0, "nothing was written yet");
    let created = won(bucket.create("alice", b"1").await?)?;
    let updated = won(bucket.update("alice", b"2", created).await?)?;
    let deleted = won(bucket.delete("alice", updated, None).await?)?;
    let again = won(bucket.create("alice", b"3").await?)?;
    ensure!(0 < created && created < updated && updated < deleted && deleted < again);
    ensure!(bucket.last_revision().await? == again);
    stands(&bucket, "alice", b"3", again).await
}

pub(super) async fn revisions_belong_to_the_bucket_and_not_to_the_key<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("alice", b"a").await?)?;
    let bob = won(bucket.create("bob", b"b").await?)?;
    let alice_again = won(bucket.update("alice", b"a", alice).await?)?;
    ensure!(alice < bob && bob < alice_again, "{alice} {bob} {alice_again}");
    stands(&bucket, "bob", b"b", bob).await
}

pub(super) async fn create_loses_to_a_live_value_and_changes_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("lease", b"alice").await?)?;
    lost(bucket.create("lease", b"bob").await?)?;
    ensure!(bucket.last_revision().await? == alice);
    stands(&bucket, "lease", b"alice", alice).await
}

pub(super) async fn create_wins_over_a_deleted_key<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let alice = won(bucket.create("lease", b"alice").await?)?;
    let deleted = won(bucket.delete("lease", alice, None).await?)?;
    let bob = won(bucket.create("lease", b"bob").await?)?;
    ensure!(bob > deleted);
    stands(&bucket, "lease", b"bob", bob).await
}

pub(super) async fn update_at_another_revision_loses_and_changes_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let old = won(bucket.create("lease", b"alice").await?)?;
    let new = won(bucket.update("lease", b"alice again", old).await?)?;
    for revision in [0, old, new + 1, u64::MAX] {
        lost(bucket.update("lease", b"bob", revision).await?)?;
    }
    stands(&bucket, "lease", b"alice again", new).await
}

pub(super) async fn delete_at_another_revision_loses_and_changes_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let old = won(bucket.create("lease", b"alice").await?)?;
    let new = won(bucket.update("lease", b"alice again", old).await?)?;
    for revision in [0, old, new + 1, u64::MAX] {
        lost(bucket.delete("lease", revision, None).await?)?;
    }
    stands(&bucket, "lease", b"alice again", new).await
}

pub(super) async fn update_and_delete_after_a_delete_lose<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let created = won(bucket.create("lease", b"alice").await?)?;
    let deleted = won(bucket.delete("lease", created, None).await?)?;
    // At the marker's own revision too: it has no value.
    for revision in [0, created, deleted] {
        lost(bucket.update("lease", b"bob", revision).await?)?;
        lost(bucket.delete("lease", revision, None).await?)?;
    }
    ensure!(!matches!(bucket.get("lease").await?, Reading::Found(_)));
    ensure!(bucket.last_revision().await? == deleted);
    Ok(())
}

pub(super) async fn update_and_delete_of_a_key_never_written_lose<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    for revision in [0, 1, 7] {
        lost(bucket.update("lease", b"bob", revision).await?)?;
        lost(bucket.delete("lease", revision, None).await?)?;
    }
    ensure!(bucket.get("lease").await? == Reading::Absent);
    ensure!(bucket.last_revision().await? == 0);
    Ok(())
}

pub(super) async fn a_lost_race_says_what_stands_there_or_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let revision = won(bucket.create("lease", b"alice").await?)?;
    let there = Write::Stale(Some(Entry { revision, value: b"alice".to_vec() }));
    for write in [
        bucket.create("lease", b"bob").await?,
        bucket.update("lease", b"bob", revision + 1).await?,
        bucket.delete("lease", revision + 1, None).await?,
    ] {
        ensure!(write == there || write == Write::Stale(None), "{write:?}");
    }
    won(bucket.delete("lease", revision, None).await?)?;
    ensure!(bucket.update("lease", b"bob", revision).await? == Write::Stale(None));
    Ok(())
}

pub(super) async fn a_deleted_key_reads_as_deleted_or_absent<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    ensure!(bucket.get("lease").await? == Reading::Absent);
    let created = won(bucket.create("lease", b"alice").await?)?;
    let deleted = won(bucket.delete("lease", created, None).await?)?;
    let reading = bucket.get("lease").await?;
    let absent = reading == Reading::Absent && !S::EXACT;
    ensure!(reading == Reading::Deleted(deleted) || absent, "{reading:?}");
    Ok(())
}

pub(super) async fn create_over_wins_over_nothing_but_what_was_read<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    lost(bucket.create_over("lease", b"alice", 1).await?)?;
    let alice = won(bucket.create_over("lease", b"alice", 0).await?)?;
    lost(bucket.create_over("lease", b"bob", 0).await?)?;
    let deleted = won(bucket.delete("lease", alice, None).await?)?;
    ensure!(bucket.get("lease").await?.marker() == deleted);
    for other in [0, alice, deleted + 1] {
        lost(bucket.create_over("lease", b"bob", other).await?)?;
    }
    ensure!(bucket.last_revision().await? == deleted);
    let bob = won(bucket.create_over("lease", b"bob", deleted).await?)?;
    stands(&bucket, "lease", b"bob", bob).await
}

pub(super) async fn a_deletion_meant_for_another_bucket_vouches_for_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let created = bucket.info().await?.created;
    let alice = won(bucket.create("lease", b"alice").await?)?;

    let stray = bucket.delete("lease", alice, Some(created ^ 1)).await?;

    let (reading, last) = (bucket.get("lease").await?, bucket.last_revision().await?);
    match stray {
        Write::Stale(_) => stands(&bucket, "lease", b"alice", alice).await?,
        Write::Written(erased) => {
            ensure!(reading == Reading::Erased(erased) && erased == last, "{reading:?}");
            lost(bucket.update("lease", b"late", erased).await?)?;
            won(bucket.create("lease", b"alice").await?)?;
        }
    }
    let Reading::Found(entry) = bucket.get("lease").await? else { anyhow::bail!("it is not there") };
    // One meant for this bucket, and one that says nothing.
    for meant_for in [Some(created), None] {
        let revision = match bucket.get("lease").await? {
            Reading::Found(there) => there.revision,
            _ => won(bucket.create("lease", &entry.value).await?)?,
        };
        let deleted = won(bucket.delete("lease", revision, meant_for).await?)?;
        let reading = bucket.get("lease").await?;
        ensure!(reading == Reading::Deleted(deleted), "{reading:?}");
    }
    Ok(())
}

pub(super) async fn a_value_of_the_limit_is_kept_and_one_byte_more_is_refused<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let (largest, larger) = (vec![0xA5; VALUE_BYTES], vec![0xA5; VALUE_BYTES + 1]);
    let revision = won(bucket.create("large", &largest).await?)?;
    stands(&bucket, "large", &largest, revision).await?;
    for fault in [bucket.create("larger", &larger).await, bucket.update("large", &larger, revision).await] {
        ensure!(matches!(fault, Err(Fault::TooLarge(_))), "{fault:?}");
    }
    ensure!(bucket.get("larger").await? == Reading::Absent);
    stands(&bucket, "large", &largest, revision).await
}

pub(super) async fn an_empty_value_is_a_value<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let revision = won(bucket.create("empty", b"").await?)?;
    stands(&bucket, "empty", b"", revision).await?;
    lost(bucket.create("empty", b"").await?)?;
    ensure!(bucket.keys(None, 1000).await? == ["empty"]);
    Ok(())
}

pub(super) async fn any_name_is_kept_apart_and_listed_in_byte_order_as_given<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let (longest, longest_umlauts) = ("x".repeat(NAME_BYTES), "ü".repeat(NAME_BYTES / 2));
    let mut names = vec![
        "labeler:did:plc:abc",
        ".",
        "..",
        "a.b",
        "a..b",
        ".a",
        "a.",
        "*",
        ">",
        "a*",
        "$KV",
        "=3A",
        ":",
        "=",
        "/",
        "../../etc/passwd",
        "a b",
        " ",
        "\t",
        "\n",
        "a\0b",
        "\0",
        "%",
        "_",
        "a_b",
        "%41",
        "'",
        "\"",
        "\\",
        "A",
        "a",
        "é",
        "e\u{301}",
        "🦀",
        "\u{7f}",
        "\u{10ffff}",
        &longest,
        &longest_umlauts,
    ];
    for name in &names {
        won(bucket.create(name, name.as_bytes()).await?)?;
    }
    for name in &names {
        let reading = bucket.get(name).await?;
        ensure!(
            matches!(&reading, Reading::Found(entry) if entry.value == name.as_bytes()),
            "{name:?}: {reading:?}"
        );
    }
    names.sort_unstable();
    ensure!(bucket.keys(None, 1000).await? == names, "{:?}", bucket.keys(None, 1000).await?);
    Ok(())
}

pub(super) async fn names_that_do_not_fit_are_denied<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    for name in ["", &"x".repeat(NAME_BYTES + 1), &"x".repeat(300), &"ü".repeat(150)] {
        let faults = [
            bucket.get(name).await.err(),
            bucket.create(name, b"v").await.err(),
            bucket.update(name, b"v", 1).await.err(),
            bucket.delete(name, 1, None).await.err(),
            bucket.watch(name).await.err(),
        ];
        for fault in faults {
            ensure!(matches!(fault, Some(Fault::Denied(_))), "{} bytes: {fault:?}", name.len());
        }
    }
    ensure!(bucket.last_revision().await? == 0);
    Ok(())
}

pub(super) async fn deleted_keys_are_not_listed<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    ensure!(bucket.keys(None, 1000).await?.is_empty());
    let alice = won(bucket.create("alice", b"a").await?)?;
    won(bucket.create("bob", b"b").await?)?;
    won(bucket.delete("alice", alice, None).await?)?;
    ensure!(bucket.keys(None, 1000).await? == ["bob"]);
    Ok(())
}
