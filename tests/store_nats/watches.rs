//! How many consumers the watches of a process are to the server, and that each is woken by its own key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{Bucket, Store as _, Watch};
use incumbent_tests::nats::{JETSTREAM, NatsServer};
use incumbent_tests::proxy::Proxy;

use super::faults::readable;
use super::{PATIENCE, TTL, connect, leases, raw, written};

const MANY: usize = 100;

fn key(n: usize) -> String {
    format!("labeler:did:plc:{n}")
}

/// How many consumers the server has for the bucket.
async fn consumers(url: &str) -> Result<usize> {
    let stream = raw(url, None).await?.get_stream("KV_leases").await?;
    Ok(stream.cached_info().state.consumer_count)
}

/// Until the server has this many, which it says to nobody by itself.
async fn comes_to(url: &str, expected: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let count = consumers(url).await?;
        if count == expected {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{count} consumers, not {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn changed(watch: &mut Box<dyn Watch>) -> Result<bool> {
    tokio::time::timeout(PATIENCE, watch.changed()).await.context("the watch was not woken")
}

/// A watch of each key, each by a handle of its own, as each lease has.
async fn watch_many(store: &Nats) -> Result<Vec<Box<dyn Watch>>> {
    try_join_all((0..MANY).map(|n| async move { Ok(store.bucket("leases").await?.watch(&key(n)).await?) }))
        .await
}

/// That a change of each key wakes its watch, and next to no other.
async fn each_is_woken_by_its_own(watches: &mut [Box<dyn Watch>], other: &Arc<dyn Bucket>) -> Result<()> {
    for n in [0, 1, MANY / 2, MANY - 1] {
        written(other.create(&key(n), b"bob").await?)?;
        ensure!(changed(&mut watches[n]).await?, "the watch of {} has ended", key(n));
        let woken = watches.iter_mut().filter_map(|watch| watch.changed().now_or_never()).count();
        ensure!(woken <= MANY / 10, "{} woke {woken} others", key(n));
    }
    Ok(())
}

#[tokio::test]
async fn five_watches_of_a_key_are_one_consumer() -> Result<()> {
    let server = NatsServer::start()?;
    let other = leases(&server.url(), TTL).await?;
    let store = connect(&server.url()).await?;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(store.bucket("leases").await?.watch("k").await?);
    }
    comes_to(&server.url(), 1).await?;
    let revision = written(other.create("k", b"bob").await?)?;
    for watch in &mut watches {
        ensure!(changed(watch).await?);
    }
    // It goes on for those that are left.
    watches.truncate(1);
    written(other.delete("k", revision, None).await?)?;
    ensure!(changed(&mut watches[0]).await?);
    comes_to(&server.url(), 1).await?;
    watches.clear();
    comes_to(&server.url(), 0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_keys_are_two_consumers_and_each_wakes_its_own_watch() -> Result<()> {
    let server = NatsServer::start()?;
    let other = leases(&server.url(), TTL).await?;
    let store = connect(&server.url()).await?;
    let mut watches = watch_many(&store).await?;
    comes_to(&server.url(), 2).await?;
    each_is_woken_by_its_own(&mut watches, &other).await?;

    // Those of one listener go, those of the other stay; then all go, and nothing is left.
    watches.drain(..MANY / 2);
    let last = MANY - 2;
    written(other.create(&key(last), b"bob").await?)?;
    ensure!(changed(&mut watches[last - MANY / 2]).await?);
    watches.clear();
    comes_to(&server.url(), 0).await?;

    // And it begins anew.
    let mut again = store.bucket("leases").await?.watch("again").await?;
    comes_to(&server.url(), 1).await?;
    written(other.create("again", b"bob").await?)?;
    ensure!(changed(&mut again).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_watches_are_woken_when_the_server_is_back_by_two_consumers() -> Result<()> {
    let mut server = NatsServer::start()?;
    let other = leases(&server.url(), TTL).await?;
    let store = connect(&server.url()).await?;
    let mut watches = watch_many(&store).await?;
    server.restart()?;
    for watch in &mut watches {
        // Each may have missed something.
        ensure!(changed(watch).await?);
    }
    comes_to(&server.url(), 2).await?;
    readable(&*other).await?;
    each_is_woken_by_its_own(&mut watches, &other).await?;

    // Without the bucket, all of them end. What they share stays with this handle.
    let handle = store.bucket("leases").await?;
    server.wipe()?;
    let deadline = Instant::now() + PATIENCE;
    for watch in &mut watches {
        while changed(watch).await? {
            ensure!(Instant::now() < deadline, "a watch goes on without a bucket");
        }
    }
    // And are no obstacle to new ones.
    let other = leases(&server.url(), TTL).await?;
    let mut again = watch_many(&store).await?;
    comes_to(&server.url(), 2).await?;
    each_is_woken_by_its_own(&mut again, &other).await?;
    drop((handle, watches));
    Ok(())
}

#[tokio::test]
async fn watches_that_are_given_up_on_the_way_leave_nothing_behind() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    for n in 0..20 {
        // Cut off somewhere on the way.
        let _ = tokio::time::timeout(Duration::from_micros(n * 100), bucket.watch("k")).await;
    }
    comes_to(&server.url(), 0).await?;
    let mut watch = bucket.watch("k").await?;
    written(bucket.create("k", b"bob").await?)?;
    ensure!(changed(&mut watch).await?);
    Ok(())
}

/// That the server has refused the whole bucket this often. It logs that about when it says so.
async fn asked_for_everything(server: &NatsServer, expected: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = std::fs::read_to_string(server.folder().join("log"))?;
        let refused = |line: &&str| line.contains("Violation") && line.contains("$KV.leases.>");
        match log.lines().filter(refused).count() {
            count if count == expected => return Ok(()),
            count => {
                ensure!(count < expected && Instant::now() < deadline, "asked {count} times, not {expected}")
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn where_the_whole_bucket_is_not_granted_each_key_is_watched_and_it_is_asked_for_once() -> Result<()> {
    let keys = ["one", "two", "three", "four"];
    let create = "$JS.API.CONSUMER.CREATE.KV_leases";
    let granted: Vec<String> = keys.iter().map(|key| format!("{create}.*.$KV.leases.{key}")).collect();
    let users = format!(
        "authorization {{ users: [ {{ user: admin, password: a }}, {{ user: holder, password: h, permissions: {{ \
         publish: [\"$JS.API.STREAM.INFO.KV_leases\", {}], subscribe: [\"_INBOX.>\"] }} }} ] }}",
        granted.iter().map(|subject| format!("{subject:?}")).collect::<Vec<_>>().join(", ")
    );
    let mut server = NatsServer::configured(&format!("{JETSTREAM}\n{users}"))?;
    let url = |user: &str| format!("nats://{user}@{}", server.address());
    let (admin, holder) = (leases(&url("admin:a"), TTL).await?, connect(&url("holder:h")).await?);
    let bucket = holder.bucket("leases").await?;
    let mut watches = try_join_all(keys.map(|key| bucket.watch(key))).await?;
    for (key, watch) in keys.iter().zip(&mut watches) {
        written(admin.create(key, b"bob").await?)?;
        ensure!(changed(watch).await?, "{key}");
    }
    asked_for_everything(&server, 1).await?;

    // Each listener has begun anew as it was; by a new connection it is worth another try.
    server.restart()?;
    for (key, watch) in keys.iter().zip(&mut watches) {
        ensure!(changed(watch).await?, "{key}");
    }
    asked_for_everything(&server, 1).await?;
    drop(watches.pop());
    let mut again = bucket.watch("four").await?;
    asked_for_everything(&server, 2).await?;
    readable(&*admin).await?;
    let revision = admin.last_revision().await?;
    written(admin.delete("four", revision, None).await?)?;
    ensure!(changed(&mut again).await?);
    Ok(())
}

#[tokio::test]
async fn where_nobody_answers_for_the_whole_bucket_each_key_is_watched_all_the_same() -> Result<()> {
    let server = NatsServer::start()?;
    let other = leases(&server.url(), TTL).await?;
    let proxy = Proxy::start(server.address()).await?;
    let mut options = NatsOptions::new(proxy.url());
    // Half of it is waited for.
    options.timeout = Duration::from_secs(4);
    let bucket = Nats::connect(options).await?.bucket("leases").await?;
    proxy.drop_answers("$KV.leases.>", MANY);
    let keys = ["one", "two", "three"];
    let mut watches = Vec::new();
    for key in keys {
        watches.push(bucket.watch(key).await?);
    }
    ensure!(proxy.counts().dropped == 1, "asked for once: {:?}", proxy.counts());
    for (key, watch) in keys.iter().zip(&mut watches) {
        written(other.create(key, b"bob").await?)?;
        ensure!(changed(watch).await?, "{key}");
    }
    Ok(())
}
