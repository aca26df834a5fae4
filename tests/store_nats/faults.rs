//! A server that goes away, freezes, forgets, and with answers that are lost on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{Bucket, Fault, Reading, Store as _, Watch, Write};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::proxy::Proxy;

use super::{PATIENCE, TTL, leases, written};

/// Long enough to connect on a busy machine; some tests wait for it to pass.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The bucket "leases" by a connection whose calls are given up early.
async fn impatient(url: &str) -> Result<Arc<dyn Bucket>> {
    let mut options = NatsOptions::new(url);
    options.timeout = IMPATIENCE;
    Ok(Nats::connect(options).await?.bucket("leases").await?)
}

/// Until the bucket can be read again.
pub(super) async fn readable(bucket: &dyn Bucket) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match bucket.last_revision().await {
            Ok(_) => return Ok(()),
            Err(Fault::Unavailable(_)) if Instant::now() < deadline => {}
            Err(fault) => return Err(fault.into()),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Until the connection is known to be gone.
async fn disconnected(bucket: &dyn Bucket) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match bucket.last_revision().await {
            Err(Fault::Unavailable(why)) if why.contains("not connected") => return Ok(why),
            outcome => ensure!(Instant::now() < deadline, "still {outcome:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn changed(watch: &mut Box<dyn Watch>) -> Result<bool> {
    tokio::time::timeout(PATIENCE, watch.changed()).await.context("the watch was not woken")
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_and_stands() -> Result<()> {
    let server = NatsServer::start()?;
    let look = leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let bucket = impatient(&proxy.url()).await?;

    proxy.drop_answers("$KV.leases.k", 1);
    let create = bucket.create("k", b"one").await;
    ensure!(matches!(create, Err(Fault::Unknown(_))), "{create:?}");
    let Reading::Found(one) = look.get("k").await? else { anyhow::bail!("it is not there") };
    ensure!(one.value == b"one");
    // The second try meets its own record, and says so.
    ensure!(bucket.create("k", b"one").await? == Write::Stale(Some(one.clone())));

    proxy.drop_answers("$KV.leases.k", 1);
    let update = bucket.update("k", b"two", one.revision).await;
    ensure!(matches!(update, Err(Fault::Unknown(_))), "{update:?}");
    let Reading::Found(two) = look.get("k").await? else { anyhow::bail!("it is not there") };
    ensure!(two.value == b"two" && two.revision > one.revision);

    proxy.drop_answers("$KV.leases.k", 1);
    let delete = bucket.delete("k", two.revision, None).await;
    ensure!(matches!(delete, Err(Fault::Unknown(_))), "{delete:?}");
    ensure!(matches!(look.get("k").await?, Reading::Deleted(at) if at > two.revision));

    proxy.drop_answers("STREAM.PURGE", 1);
    let purge = bucket.purge_below(57).await;
    ensure!(matches!(purge, Err(Fault::Unknown(_))), "{purge:?}");
    ensure!(look.last_revision().await? == 56);

    ensure!(proxy.counts().dropped == 4 && proxy.counts().connections == 1, "{:?}", proxy.counts());
    Ok(())
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_is_never_unknown() -> Result<()> {
    let server = NatsServer::start()?;
    leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let bucket = impatient(&proxy.url()).await?;
    proxy.drop_answers("$JS.API", 5);
    let lost = [
        bucket.get("k").await.map(drop),
        bucket.info().await.map(drop),
        bucket.last_revision().await.map(drop),
        bucket.keys(None, 1000).await.map(drop),
        bucket.watch("k").await.map(drop),
    ];
    for outcome in lost {
        ensure!(matches!(outcome, Err(Fault::Unavailable(_))), "{outcome:?}");
    }
    proxy.until(|counts| counts.dropped == 5).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_killed_with_a_write_in_flight_leaves_it_unknown_at_once() -> Result<()> {
    let mut server = NatsServer::start()?;
    leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let bucket = leases(&proxy.url(), TTL).await?;
    proxy.drop_answers("$KV.leases.k", 1);
    let begun = Instant::now();
    let (write, killed) = tokio::join!(bucket.create("k", b"alice"), async {
        proxy.until(|counts| counts.dropped == 1).await?;
        server.kill()
    });
    killed?;
    ensure!(matches!(write, Err(Fault::Unknown(_))), "{write:?}");
    // This connection would wait for as long as that.
    ensure!(begun.elapsed() < PATIENCE);
    server.restart()?;
    readable(&*bucket).await?;
    ensure!(matches!(bucket.get("k").await?, Reading::Found(entry) if entry.value == b"alice"));
    Ok(())
}

#[tokio::test]
async fn a_frozen_server_is_bounded_and_what_it_was_sent_comes_late() -> Result<()> {
    let server = NatsServer::start()?;
    let look = leases(&server.url(), TTL).await?;
    let bucket = impatient(&server.url()).await?;
    server.stop()?;
    let begun = Instant::now();
    let write = bucket.create("k", b"alice").await;
    ensure!(matches!(write, Err(Fault::Unknown(_))), "{write:?}");
    let read = bucket.get("k").await;
    ensure!(matches!(read, Err(Fault::Unavailable(_))), "{read:?}");
    ensure!(begun.elapsed() < 2 * IMPATIENCE + PATIENCE / 4, "two calls took {:?}", begun.elapsed());
    server.cont()?;
    readable(&*look).await?;
    // This is why an unknown write is looked up, and why each is bound to a revision.
    let deadline = Instant::now() + PATIENCE;
    while !matches!(look.get("k").await?, Reading::Found(_)) {
        ensure!(Instant::now() < deadline, "the late write never came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_line_is_bounded_too() -> Result<()> {
    let server = NatsServer::start()?;
    leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let bucket = impatient(&proxy.url()).await?;
    proxy.delay(PATIENCE);
    let begun = Instant::now();
    let create = bucket.create("k", b"alice").await;
    ensure!(matches!(create, Err(Fault::Unknown(_))), "{create:?}");
    ensure!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn nothing_is_queued_while_disconnected() -> Result<()> {
    let server = NatsServer::start()?;
    let look = leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let bucket = leases(&proxy.url(), TTL).await?;
    let revision = written(bucket.create("k", b"alice").await?)?;

    proxy.cut();
    let why = disconnected(&*bucket).await?;
    ensure!(why.contains(&proxy.url()), "{why}");
    let refused = [
        bucket.create("new", b"late").await.map(drop),
        bucket.update("k", b"late", revision).await.map(drop),
        bucket.delete("k", revision, None).await.map(drop),
        bucket.purge_below(57).await.map(drop),
        bucket.get("k").await.map(drop),
        bucket.watch("k").await.map(drop),
    ];
    for outcome in refused {
        ensure!(matches!(outcome, Err(Fault::Unavailable(_))), "{outcome:?}");
    }

    proxy.heal();
    readable(&*bucket).await?;
    // A write sent late would have been sent before this read.
    ensure!(look.last_revision().await? == revision);
    written(bucket.update("k", b"alice again", revision).await?)?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again_and_kept_everything() -> Result<()> {
    let mut server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let revision = written(bucket.create("k", b"alice").await?)?;
    let created = bucket.info().await?.created;
    server.kill()?;
    disconnected(&*bucket).await?;
    server.restart()?;
    readable(&*bucket).await?;
    ensure!(bucket.info().await?.created == created);
    ensure!(written(bucket.update("k", b"alice again", revision).await?)? == revision + 1);
    Ok(())
}

#[tokio::test]
async fn a_wiped_server_has_no_bucket_and_a_new_one_is_told_from_the_old() -> Result<()> {
    let mut server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let created = bucket.info().await?.created;
    written(bucket.create("k", b"alice").await?)?;
    let mut watch = bucket.watch("k").await?;
    server.wipe()?;
    let deadline = Instant::now() + PATIENCE;
    while changed(&mut watch).await? {
        ensure!(Instant::now() < deadline, "the watch goes on without a bucket");
    }
    ensure!(matches!(bucket.get("k").await, Err(Fault::MissingBucket(_))));
    leases(&server.url(), TTL).await?;
    ensure!(bucket.info().await?.created > created);
    ensure!(bucket.last_revision().await? == 0);
    Ok(())
}

#[tokio::test]
async fn a_watch_is_woken_by_every_kind_of_change() -> Result<()> {
    let server = NatsServer::start()?;
    let (bucket, other) = (leases(&server.url(), TTL).await?, leases(&server.url(), TTL).await?);
    let mut watch = bucket.watch("k").await?;
    // Written before anybody waits: it must not be missed.
    let revision = written(other.create("k", b"bob").await?)?;
    ensure!(changed(&mut watch).await?);
    let revision = written(other.update("k", b"bob again", revision).await?)?;
    ensure!(changed(&mut watch).await?);
    written(other.delete("k", revision, None).await?)?;
    ensure!(changed(&mut watch).await?);
    drop(watch);
    // Neither what stood there when the watch began does, which the one who watches looks at then, nor another
    // key.
    let mut late = bucket.watch("k").await?;
    written(other.create("another", b"bob").await?)?;
    let idle = tokio::time::timeout(Duration::from_millis(200), late.changed()).await;
    ensure!(idle.is_err(), "woken by another key");
    Ok(())
}

#[tokio::test]
async fn a_watch_outlives_the_server() -> Result<()> {
    let mut server = NatsServer::start()?;
    let (bucket, other) = (leases(&server.url(), TTL).await?, leases(&server.url(), TTL).await?);
    let revision = written(other.create("k", b"bob").await?)?;
    let mut watch = bucket.watch("k").await?;
    server.restart()?;
    // It begins anew, and says that something may have been missed.
    ensure!(changed(&mut watch).await?);
    readable(&*other).await?;
    written(other.update("k", b"bob again", revision).await?)?;
    ensure!(changed(&mut watch).await?);
    Ok(())
}

#[tokio::test]
async fn a_dropped_call_leaves_the_bucket_usable() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    for _ in 0..20 {
        // Polled once, then dropped.
        let _ = futures_util::FutureExt::now_or_never(bucket.create("k", b"alice"));
        let _ = futures_util::FutureExt::now_or_never(bucket.keys(None, 1000));
        let _ = futures_util::FutureExt::now_or_never(bucket.watch("k"));
    }
    match bucket.create("k", b"alice").await? {
        Write::Written(_) | Write::Stale(Some(_)) => {}
        other => anyhow::bail!("{other:?}"),
    }
    ensure!(bucket.keys(None, 1000).await? == ["k"]);
    Ok(())
}
