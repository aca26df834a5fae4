//! Many at once, and callers that go away: rules 2 and 8.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use incumbent::store::{Bucket, Reading, Write};
use tokio::task::JoinSet;

use super::{LONG, Subject, stands, won};

/// Does `act` in a hundred tasks at once, over four connections; the winners' numbers and revisions.
async fn hundred<S, F, W>(subject: &S, act: F) -> Result<Vec<(usize, u64)>>
where
    S: Subject,
    F: Fn(Arc<dyn Bucket>, usize) -> W,
    W: Future<Output = Result<Write, incumbent::store::Fault>> + Send + 'static,
{
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(subject.bucket().await?);
    }
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let write = act(Arc::clone(&handles[number % handles.len()]), number);
        tasks.spawn(async move { (number, write.await) });
    }
    let mut winners = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (number, write) = done?;
        if let Write::Written(revision) = write.with_context(|| format!("number {number}"))? {
            winners.push((number, revision));
        }
    }
    Ok(winners)
}

pub(super) async fn one_of_a_hundred_concurrent_creates_wins<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let create = |bucket: Arc<dyn Bucket>, number: usize| async move {
        bucket.create("lease", number.to_string().as_bytes()).await
    };
    let winners = hundred(&subject, create).await?;
    ensure!(winners.len() == 1, "{winners:?}");
    let (number, revision) = winners[0];
    stands(&subject.bucket().await?, "lease", number.to_string().as_bytes(), revision).await
}

pub(super) async fn one_of_a_hundred_concurrent_updates_wins<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let at = won(bucket.create("lease", b"alice").await?)?;
    let update = |bucket: Arc<dyn Bucket>, number: usize| async move {
        bucket.update("lease", number.to_string().as_bytes(), at).await
    };
    let winners = hundred(&subject, update).await?;
    ensure!(winners.len() == 1, "{winners:?}");
    let (number, revision) = winners[0];
    stands(&bucket, "lease", number.to_string().as_bytes(), revision).await
}

pub(super) async fn one_of_update_and_delete_at_a_revision_wins<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    let at = won(bucket.create("lease", b"alice").await?)?;
    let either = |bucket: Arc<dyn Bucket>, number: usize| async move {
        if number.is_multiple_of(2) {
            bucket.update("lease", b"bob", at).await
        } else {
            bucket.delete("lease", at, None).await
        }
    };
    let winners = hundred(&subject, either).await?;
    ensure!(winners.len() == 1, "{winners:?}");
    let (number, revision) = winners[0];
    if number.is_multiple_of(2) {
        return stands(&bucket, "lease", b"bob", revision).await;
    }
    ensure!(!matches!(bucket.get("lease").await?, Reading::Found(_)));
    Ok(())
}

pub(super) async fn no_increment_is_lost_or_doubled<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    won(subject.bucket().await?.create("count", b"0").await?)?;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let bucket = subject.bucket().await?;
        tasks.spawn(async move { increment(&bucket, 10).await });
    }
    let mut revisions = Vec::new();
    while let Some(done) = tasks.join_next().await {
        revisions.extend(done??);
    }
    let highest = *revisions.iter().max().context("there were writes")?;
    revisions.sort_unstable();
    revisions.dedup();
    ensure!(revisions.len() == 40, "a revision was given twice");
    stands(&subject.bucket().await?, "count", b"40", highest).await
}

/// Adds one, `times` times, each by compare-and-set; the revisions of the writes that won.
pub(crate) async fn increment(bucket: &Arc<dyn Bucket>, times: usize) -> Result<Vec<u64>> {
    let mut revisions = Vec::new();
    while revisions.len() < times {
        let Reading::Found(entry) = bucket.get("count").await? else { anyhow::bail!("the count is gone") };
        let next = std::str::from_utf8(&entry.value)?.parse::<u64>()? + 1;
        if let Write::Written(revision) =
            bucket.update("count", next.to_string().as_bytes(), entry.revision).await?
        {
            revisions.push(revision);
        }
    }
    Ok(revisions)
}

pub(super) async fn a_dropped_call_leaves_the_store_usable<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let bucket = subject.bucket().await?;
    for number in 0..60 {
        // Each is dropped a little later in its course than the one before.
        let soon = Duration::from_micros(40 * number);
        let key = format!("lease-{number}");
        let write = async {
            let created = won(bucket.create(&key, b"alice").await?)?;
            let updated = won(bucket.update(&key, b"alice again", created).await?)?;
            bucket.keys(None, 1000).await?;
            won(bucket.delete(&key, updated, None).await?)
        };
        if let Ok(done) = tokio::time::timeout(soon, write).await {
            done?;
        }
        let probe = won(bucket.create(&format!("probe-{number}"), b"bob").await?)?;
        stands(&bucket, &format!("probe-{number}"), b"bob", probe).await?;
        // Applied or not: what is there answers to compare-and-set as ever.
        if let Reading::Found(entry) = bucket.get(&key).await? {
            ensure!(entry.value == b"alice" || entry.value == b"alice again", "{entry:?}");
        }
    }
    Ok(())
}
