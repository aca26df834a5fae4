//! Making and finding queues.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use incumbent::limits::{TTL_LONGEST, TTL_SHORTEST};
use incumbent::store::queue::QueueConfig;
use incumbent::store::{BucketConfig, Fault, Reading, Write};

use super::{LONG, QUEUE, Subject, config, counted, nothing, taken};

pub(super) async fn a_missing_queue_is_told<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let fault = subject.connect().await?.queue("builds").await.err().context("it was found")?;
    let Fault::MissingBucket(told) = &fault else { anyhow::bail!("{fault:?}") };
    ensure!(told.contains("incumbent queue create builds"), "{told}");
    Ok(())
}

pub(super) async fn a_queue_made_twice_is_left_alone<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    queue.put(b"1").await?;
    let two = queue.put(b"2").await?;
    let first = taken::<S>(&queue).await?;
    let again = subject.connect().await?.create_queue(QUEUE, &config(LONG)).await?;
    ensure!(again.name() == QUEUE && queue.name() == QUEUE);
    counted::<S>(&again, 1, 1).await?;
    ensure!(again.put(b"3").await? > two);
    first.done().await?;
    Ok(())
}

pub(super) async fn a_queue_with_another_ack_wait_is_denied_and_both_are_named<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let other = Duration::from_secs(77);
    let fault = subject.connect().await?.create_queue(QUEUE, &config(other)).await.err().context("made")?;
    let Fault::Denied(told) = &fault else { anyhow::bail!("{fault:?}") };
    for word in [QUEUE, &format!("{LONG:?}"), &format!("{other:?}")] {
        ensure!(told.contains(word), "no {word} in {told:?}");
    }
    ensure!(subject.queue().await?.info().await?.ack_wait == LONG);
    Ok(())
}

pub(super) async fn settings_that_do_not_fit_are_denied<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let store = subject.connect().await?;
    let denied = async |name: &str, config: QueueConfig| {
        let made = store.create_queue(name, &config).await;
        ensure!(matches!(made, Err(Fault::Denied(_))), "{name:?} {config:?}: {made:?}");
        anyhow::Ok(())
    };
    for name in ["", "a.b", "a b", "*", ">", "größe", "a/b", &"x".repeat(201)] {
        denied(name, config(LONG)).await?;
    }
    for ack_wait in [Duration::ZERO, TTL_SHORTEST / 2, TTL_LONGEST * 2, Duration::MAX] {
        denied("builds", config(ack_wait)).await?;
    }
    denied("builds", QueueConfig { ack_wait: LONG, replicas: 0 }).await?;
    let there = store.queue("builds").await;
    ensure!(matches!(there, Err(Fault::MissingBucket(_))), "one was made: {there:?}");
    let name = "x".repeat(200);
    store.create_queue(&name, &config(TTL_SHORTEST)).await?;
    ensure!(store.queue(&name).await?.name() == name);
    Ok(())
}

pub(super) async fn two_queues_do_not_meet<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let checks = subject.queue().await?;
    let builds = subject.connect().await?.create_queue("builds", &config(S::ACK_WAIT)).await?;
    checks.put(b"check it").await?;
    ensure!(builds.oldest_waiting().await?.is_none());
    nothing::<S>(&builds).await?;
    builds.put(b"build it").await?;
    let (check, build) = (taken::<S>(&checks).await?, taken::<S>(&builds).await?);
    ensure!(check.ask().body == b"check it" && build.ask().body == b"build it");
    build.done().await?;
    counted::<S>(&checks, 0, 1).await?;
    counted::<S>(&builds, 0, 0).await?;
    ensure!(checks.info().await?.ack_wait == LONG);
    ensure!(builds.info().await?.ack_wait == S::ACK_WAIT);
    Ok(())
}

pub(super) async fn a_bucket_and_a_queue_of_one_name_do_not_meet<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (store, queue) = (subject.connect().await?, subject.queue().await?);
    ensure!(matches!(store.bucket(QUEUE).await, Err(Fault::MissingBucket(_))), "a queue is no bucket");
    let settings = BucketConfig { ttl: Duration::from_secs(60), replicas: 1 };
    let bucket = store.create_bucket(QUEUE, &settings).await?;
    queue.put(b"check it").await?;
    ensure!(bucket.keys(None, 1000).await?.is_empty());
    let written = bucket.create("1", b"a value").await?;
    ensure!(matches!(written, Write::Written(_)), "{written:?}");
    counted::<S>(&queue, 1, 0).await?;
    taken::<S>(&queue).await?.done().await?;
    ensure!(matches!(bucket.get("1").await?, Reading::Found(entry) if entry.value == b"a value"));
    Ok(())
}
