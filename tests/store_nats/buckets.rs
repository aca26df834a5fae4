//! What a bucket is to other programs; names, sizes, markers and the purge.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use incumbent::limits::{NAME_BYTES, VALUE_BYTES};
use incumbent::store::{BucketConfig, Fault, Reading, Store as _, Write};
use incumbent_tests::nats::{JETSTREAM, NatsServer};

use super::{PATIENCE, TTL, connect, leases, raw, written};

#[tokio::test]
async fn the_ttl_is_exact_and_a_bucket_with_another_is_refused() -> Result<()> {
    let server = NatsServer::start()?;
    let odd = Duration::from_millis(999);
    let bucket = leases(&server.url(), odd).await?;
    let info = bucket.info().await?;
    ensure!(info.ttl == odd && info.markers == server.knows_markers(), "{info:?}");
    // The same again is left alone.
    ensure!(leases(&server.url(), odd).await?.info().await? == info);

    let store = connect(&server.url()).await?;
    let fault = leases(&server.url(), TTL).await.expect_err("another ttl");
    let Some(Fault::Denied(text)) = fault.downcast_ref() else { panic!("{fault:?}") };
    ensure!(text.contains("999ms") && text.contains("60s"), "{text}");
    // One server cannot keep three copies.
    let three = store.create_bucket("three", &BucketConfig { ttl: TTL, replicas: 3 }).await;
    ensure!(matches!(three, Err(Fault::Denied(_))), "{three:?}");
    Ok(())
}

#[tokio::test]
async fn another_program_reads_and_writes_the_same_bucket() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let name = "labeler:did:plc:abc";
    let revision = written(bucket.create(name, b"alice").await?)?;

    let js = raw(&server.url(), None).await?;
    let theirs = js.get_key_value("leases").await?;
    let token = "labeler=3Adid=3Aplc=3Aabc";
    let entry = theirs.entry(token).await?.context("they see nothing")?;
    ensure!(entry.revision == revision && entry.value.as_ref() == b"alice");
    let status = theirs.status().await?;
    ensure!(status.max_age() == TTL && status.history() == 1);

    // They give it back as a controller does, delete it as people do, purge it, write it.
    theirs.delete_expect_revision(token, Some(revision)).await?;
    ensure!(bucket.get(name).await? == Reading::Deleted(revision + 1));
    written(bucket.create(name, b"alice").await?)?;
    theirs.delete(token).await?;
    ensure!(bucket.get(name).await? == Reading::Erased(revision + 3));
    theirs.purge(token).await?;
    ensure!(bucket.get(name).await? == Reading::Erased(revision + 4));
    let again = written(bucket.create(name, b"bob").await?)?;
    let put = theirs.put(token, "carol".into()).await?;
    ensure!(bucket.update(name, b"bob", again).await? == Write::Stale(None));
    ensure!(matches!(bucket.get(name).await?, Reading::Found(entry) if entry.revision == put));

    // A bucket of theirs, made without a ttl, and a stream that only looks like a bucket.
    let config = async_nats::jetstream::kv::Config { bucket: "forever".into(), ..Default::default() };
    js.create_key_value(config).await?;
    let info = connect(&server.url()).await?.bucket("forever").await?.info().await?;
    ensure!(info.ttl.is_zero() && !info.markers, "{info:?}");
    let config = async_nats::jetstream::stream::Config {
        name: "KV_odd".into(),
        subjects: vec!["odd".into()],
        ..Default::default()
    };
    js.create_stream(config).await?;
    let odd = connect(&server.url()).await?.bucket("odd").await;
    ensure!(matches!(odd, Err(Fault::Denied(_))), "{odd:?}");
    Ok(())
}

#[tokio::test]
async fn keys_come_back_as_they_were_named() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    ensure!(bucket.keys(None, 1000).await?.is_empty());
    let longest = ":".repeat(NAME_BYTES);
    let mut names = ["labeler:did:plc:abc", "..", "*", ">", " ", "é", "$", "=3A", "a.b", &longest]
        .map(String::from)
        .to_vec();
    names.extend((0..300).map(|n| format!("worker-{n}")));
    for name in &names {
        written(bucket.create(name, name.as_bytes()).await?)?;
    }
    for name in &names {
        ensure!(
            matches!(bucket.get(name).await?, Reading::Found(entry) if entry.value == name.as_bytes()),
            "{name}"
        );
    }
    let gone = written(bucket.create("gone", b"").await?)?;
    written(bucket.delete("gone", gone, None).await?)?;
    // A key that no name encodes to is shown as it stands.
    raw(&server.url(), None).await?.get_key_value("leases").await?.put("by.another", "x".into()).await?;
    names.push("by.another".into());
    names.sort_unstable();
    ensure!(bucket.keys(None, 1000).await? == names);
    Ok(())
}

#[tokio::test]
async fn a_value_over_the_limit_is_refused_on_write_and_on_read() -> Result<()> {
    let server = NatsServer::configured(&format!("{JETSTREAM}\nmax_payload: 8MB"))?;
    let bucket = leases(&server.url(), TTL).await?;
    let too_large = bucket.create("k", &vec![0; VALUE_BYTES + 1]).await;
    ensure!(matches!(too_large, Err(Fault::TooLarge(_))), "{too_large:?}");
    ensure!(bucket.last_revision().await? == 0);

    let revision = written(bucket.create("k", &vec![7; VALUE_BYTES]).await?)?;
    ensure!(matches!(bucket.get("k").await?, Reading::Found(entry) if entry.value.len() == VALUE_BYTES));
    let kv = raw(&server.url(), None).await?.get_key_value("leases").await?;
    let bomb = kv.update("k", vec![0; 2 << 20].into(), revision).await?;
    let read = bucket.get("k").await;
    ensure!(matches!(&read, Err(Fault::TooLarge(text)) if text.contains("2097152")), "{read:?}");
    // It can still be got rid of.
    written(bucket.delete("k", bomb, None).await?)?;
    Ok(())
}

#[tokio::test]
async fn a_small_server_refuses_a_value_that_it_would_cut_off_for() -> Result<()> {
    let server = NatsServer::configured(&format!("{JETSTREAM}\nmax_payload: 2KB"))?;
    let bucket = leases(&server.url(), TTL).await?;
    let refused = bucket.create("k", &[0; 4096]).await;
    ensure!(matches!(refused, Err(Fault::TooLarge(_))), "{refused:?}");
    written(bucket.create("k", b"small").await?)?;
    Ok(())
}

#[tokio::test]
async fn a_key_that_ages_out_leaves_a_marker_that_readers_and_watchers_see() -> Result<()> {
    let server = NatsServer::start()?;
    if !server.knows_markers() {
        return Ok(());
    }
    let bucket = leases(&server.url(), Duration::from_secs(1)).await?;
    let revision = written(bucket.create("k", b"alice").await?)?;
    let mut watch = bucket.watch("k").await?;
    let aged = tokio::time::timeout(PATIENCE, async {
        loop {
            ensure!(watch.changed().await, "the watch ended");
            if let Reading::Aged(at) = bucket.get("k").await? {
                return Ok(at);
            }
        }
    });
    let aged = aged.await.context("no marker came")??;
    ensure!(aged > revision);
    ensure!(bucket.keys(None, 1000).await?.is_empty());
    ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
    ensure!(bucket.update("k", b"late", aged).await? == Write::Stale(None));
    ensure!(written(bucket.create("k", b"bob").await?)? > aged);
    Ok(())
}

#[tokio::test]
async fn a_deleted_key_is_free_at_its_marker_and_the_marker_is_nobodys() -> Result<()> {
    let server = NatsServer::start()?;
    // A second connection has not seen the value's revision and must look.
    let (alice, bob) = (leases(&server.url(), TTL).await?, leases(&server.url(), TTL).await?);
    let revision = written(alice.create("k", b"alice").await?)?;
    let marker = written(alice.delete("k", revision, None).await?)?;
    for bucket in [&alice, &bob] {
        ensure!(bucket.get("k").await? == Reading::Deleted(marker));
        ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
        ensure!(bucket.update("k", b"late", marker).await? == Write::Stale(None));
        ensure!(bucket.delete("k", marker, None).await? == Write::Stale(None));
        ensure!(bucket.update("never", b"late", 0).await? == Write::Stale(None));
        ensure!(bucket.delete("never", 0, None).await? == Write::Stale(None));
    }
    ensure!(bob.last_revision().await? == marker);
    ensure!(written(bob.create("k", b"bob").await?)? == marker + 1);
    match alice.create("k", b"alice").await? {
        Write::Stale(Some(entry)) => ensure!(entry.value == b"bob" && entry.revision == marker + 1),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_deletion_that_comes_into_a_bucket_raised_again_vouches_for_nothing() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let first = bucket.info().await?.created;
    let alice = written(bucket.create("k", b"alice").await?)?;
    raw(&server.url(), None).await?.delete_stream("KV_leases").await?;
    let bucket = leases(&server.url(), TTL).await?;
    ensure!(bucket.info().await?.created != first);
    // The same revision once more.
    ensure!(written(bucket.create("k", b"bob").await?)? == alice);

    let erased = written(bucket.delete("k", alice, Some(first)).await?)?;

    ensure!(bucket.get("k").await? == Reading::Erased(erased));
    // What is no number names no bucket.
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    headers.insert("Nats-Expected-Last-Subject-Sequence", erased.to_string());
    headers.insert("Incumbent-Meant-For", "this one");
    let js = raw(&server.url(), None).await?;
    js.publish_with_headers("$KV.leases.k", headers, "".into()).await?.await?;
    ensure!(bucket.get("k").await? == Reading::Erased(erased + 1));
    ensure!(written(bucket.create("k", b"carol").await?)? > erased);
    Ok(())
}

#[tokio::test]
async fn a_purge_past_the_end_moves_the_revisions_and_leaves_no_marker() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    for refused in [0, 1, (1 << 61) + 1, u64::MAX] {
        ensure!(matches!(bucket.purge_below(refused).await, Err(Fault::Denied(_))), "{refused}");
    }
    let revision = written(bucket.create("k", b"alice").await?)?;
    ensure!(bucket.purge_below(1_000_000).await? == 1);
    ensure!(bucket.get("k").await? == Reading::Absent);
    ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
    let next = written(bucket.create("k", b"bob").await?)?;
    ensure!(next == 1_000_000);
    // It never lowers anything, and takes only what lies below.
    ensure!(bucket.purge_below(57).await? == 0);
    ensure!(bucket.purge_below(next).await? == 0);
    ensure!(bucket.last_revision().await? == next);
    ensure!(matches!(bucket.get("k").await?, Reading::Found(_)));
    Ok(())
}

#[tokio::test]
async fn of_many_who_write_at_once_one_wins() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let creates = futures_util::future::try_join_all((0..50).map(|_| bucket.create("k", b"alice"))).await?;
    let winners: Vec<u64> = creates.into_iter().filter_map(|write| written(write).ok()).collect();
    ensure!(winners.len() == 1, "{winners:?}");
    let updates = (0..50).map(|_| bucket.update("k", b"again", winners[0]));
    let won = futures_util::future::try_join_all(updates)
        .await?
        .into_iter()
        .filter_map(|write| written(write).ok());
    ensure!(won.count() == 1);
    Ok(())
}
