//! Policies from an object in a NATS bucket, and publishing them there.

mod publishing;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use incumbent::limits::COMPONENT_BYTES;
use incumbent::policies::publish::{PublishError, create_bucket, publish};
use incumbent::policies::source::{NatsSource, Offer, Offers, SourceError};
use incumbent::policies::{Event, Policies, PoliciesOptions};
use incumbent::policy::Runtime;
use incumbent::store::Fault;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::proxy::Proxy;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Generous: no test waits for it, unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three looks: nothing more is said within it.
const QUIET: Duration = Duration::from_millis(1600);

const BUCKET: &str = "policies";
const NAME: &str = "team/lease.wasm";

/// More than two pieces.
fn large(seed: u8) -> Vec<u8> {
    (0..300_000_u32).map(|place| place.to_le_bytes()[0].wrapping_mul(7) ^ seed).collect()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn connect(url: &str) -> Result<Nats> {
    Ok(Nats::connect(NatsOptions::new(url)).await?)
}

/// A server with the bucket, and a connection to it.
async fn stage() -> Result<(NatsServer, Nats)> {
    let server = NatsServer::start()?;
    let nats = connect(&server.url()).await?;
    create_bucket(&nats, BUCKET, 1).await?;
    Ok((server, nats))
}

async fn theirs(server: &NatsServer) -> Result<ObjectStore> {
    let client = async_nats::connect(server.url()).await?;
    Ok(async_nats::jetstream::new(client).get_object_store(BUCKET).await?)
}

async fn offered(source: &mut NatsSource) -> Result<Offer> {
    Ok(timeout(PATIENCE, source.next()).await.context("nothing was offered")??)
}

async fn refused(source: &mut NatsSource) -> Result<SourceError> {
    match timeout(PATIENCE, source.next()).await.context("nothing was said")? {
        Ok(offer) => bail!("{offer:?}"),
        Err(why) => Ok(why),
    }
}

async fn silent(source: &mut NatsSource) -> Result<()> {
    match timeout(QUIET, source.next()).await {
        Ok(said) => bail!("{said:?}"),
        Err(_) => Ok(()),
    }
}

#[tokio::test]
async fn what_is_published_is_offered_within_a_second_with_its_signature() -> Result<()> {
    let (_server, nats) = stage().await?;
    let one = large(1);
    let published = publish(&nats, BUCKET, NAME, &one, Some("by alice")).await?;
    ensure!(published.digest == digest(&one) && !published.unchanged);
    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    let offer = offered(&mut source).await?;
    ensure!(offer.bytes == one && offer.signature.as_deref() == Some("by alice"));
    ensure!(offer.from == "nats:policies/team/lease.wasm");
    silent(&mut source).await?;

    let two = large(2);
    let follower = tokio::spawn(async move {
        let offer = offered(&mut source).await?;
        anyhow::Ok((offer, Instant::now(), source))
    });
    publish(&nats, BUCKET, NAME, &two, None).await?;
    let began = Instant::now();
    let (offer, ended, mut source) = follower.await??;
    ensure!(offer.bytes == two && offer.signature.is_none());
    let took = ended.saturating_duration_since(began);
    ensure!(took < Duration::from_secs(1), "{took:?}");
    // The signature alone.
    publish(&nats, BUCKET, NAME, &two, Some("by bob")).await?;
    let offer = offered(&mut source).await?;
    ensure!(offer.bytes == two && offer.signature.as_deref() == Some("by bob"));
    // The same again is nothing new.
    ensure!(publish(&nats, BUCKET, NAME, &two, Some("by bob")).await?.unchanged);
    silent(&mut source).await?;
    source.reread();
    ensure!(offered(&mut source).await?.bytes == two);
    Ok(())
}

#[tokio::test]
async fn a_source_outlives_its_server_and_even_its_bucket() -> Result<()> {
    let (mut server, nats) = stage().await?;
    publish(&nats, BUCKET, NAME, b"one", None).await?;
    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    ensure!(offered(&mut source).await?.bytes == b"one");
    for version in [b"two", b"six"] {
        server.kill()?;
        let why = refused(&mut source).await?;
        ensure!(matches!(&why, SourceError::Store { fault: Fault::Unavailable(_), .. }), "{why}");
        silent(&mut source).await?;
        server.restart()?;
        let publisher = connect(&server.url()).await?;
        publish(&publisher, BUCKET, NAME, version, None).await?;
        ensure!(offered(&mut source).await?.bytes == version);
    }
    server.wipe()?;
    let publisher = connect(&server.url()).await?;
    create_bucket(&publisher, BUCKET, 1).await?;
    publish(&publisher, BUCKET, NAME, b"new", None).await?;
    // What it says on the way depends on when it looks.
    let offer = loop {
        match timeout(PATIENCE, source.next()).await? {
            Ok(offer) => break offer,
            Err(SourceError::Store { .. } | SourceError::Missing(_)) => {}
            Err(why) => bail!(why),
        }
    };
    ensure!(offer.bytes == b"new");
    Ok(())
}

#[tokio::test]
async fn a_missing_bucket_or_object_is_told_once_with_what_makes_it() -> Result<()> {
    let server = NatsServer::start()?;
    let nats = connect(&server.url()).await?;
    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    let why = refused(&mut source).await?;
    ensure!(
        matches!(&why, SourceError::Store { fault: Fault::MissingBucket(text), .. }
        if text.ends_with("incumbent policy publish --create")),
        "{why}"
    );
    silent(&mut source).await?;
    let why = publish(&nats, BUCKET, NAME, b"one", None).await;
    ensure!(matches!(why, Err(PublishError::Store(Fault::MissingBucket(_)))), "{why:?}");

    create_bucket(&nats, BUCKET, 1).await?;
    ensure!(matches!(refused(&mut source).await?, SourceError::Missing(_)));
    silent(&mut source).await?;
    publish(&nats, BUCKET, NAME, b"one", None).await?;
    ensure!(offered(&mut source).await?.bytes == b"one");
    // Made again, it is left as it is.
    create_bucket(&nats, BUCKET, 1).await?;
    theirs(&server).await?.delete(NAME).await?;
    ensure!(matches!(refused(&mut source).await?, SourceError::Missing(_)));
    publish(&nats, BUCKET, NAME, b"two", None).await?;
    ensure!(offered(&mut source).await?.bytes == b"two");
    Ok(())
}

#[tokio::test]
async fn what_is_too_large_or_damaged_is_not_offered() -> Result<()> {
    let (server, nats) = stage().await?;
    let theirs = theirs(&server).await?;
    let client = async_nats::connect(server.url()).await?;
    let js = async_nats::jetstream::new(client);
    publish(&nats, BUCKET, NAME, &large(1), None).await?;
    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    offered(&mut source).await?;
    let whole = serde_json::to_value(theirs.info(NAME).await?)?;
    let say = async |field: &str, value: serde_json::Value| -> Result<()> {
        let mut object = whole.clone();
        object[field] = value;
        let name = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE, NAME);
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Rollup", "sub");
        let subject = format!("$O.{BUCKET}.M.{name}");
        js.publish_with_headers(subject, headers, serde_json::to_vec(&object)?.into()).await?.await?;
        Ok(())
    };
    let size = large(1).len();
    let wrong = format!("SHA-256={}=", "A".repeat(43));
    let mut told = Vec::new();
    for (field, value) in [
        // None of its pieces are there, so that it would not be said had they been asked for first.
        ("size", (COMPONENT_BYTES + 1).into()),
        ("digest", wrong.into()),
        ("size", (COMPONENT_BYTES + 2).into()),
        ("size", (size + 1).into()),
        ("size", (COMPONENT_BYTES + 1).into()),
        ("size", (size - 1).into()),
        ("size", (COMPONENT_BYTES + 1).into()),
        ("nuid", "*".into()),
        ("size", (COMPONENT_BYTES + 1).into()),
        ("chunks", 1_000_000.into()),
    ] {
        say(field, value).await?;
        told.push(refused(&mut source).await?);
    }
    for (place, why) in told.iter().enumerate() {
        let fits = match why {
            SourceError::TooLarge(_) => place % 2 == 0,
            SourceError::Unreadable { .. } => place % 2 == 1,
            _ => false,
        };
        ensure!(fits, "{place}: {why}");
    }
    let mut lots = vec![0; 10];
    lots.resize(COMPONENT_BYTES + 1, 0);
    let why = publish(&nats, BUCKET, NAME, &lots, None).await;
    ensure!(matches!(why, Err(PublishError::TooLarge(_))), "{why:?}");
    let why = publish(&nats, BUCKET, NAME, b"one", Some(&"a".repeat(5000))).await;
    ensure!(matches!(why, Err(PublishError::SignatureTooLarge(5000))), "{why:?}");
    for name in ["", "lease@1", "a b", &"a".repeat(101)] {
        let why = publish(&nats, BUCKET, name, b"one", None).await;
        ensure!(matches!(why, Err(PublishError::Name(_))), "{why:?}");
    }
    Ok(())
}

#[tokio::test]
async fn another_client_reads_what_is_published_and_what_it_puts_is_offered() -> Result<()> {
    let (server, nats) = stage().await?;
    let theirs = theirs(&server).await?;
    let one = large(1);
    publish(&nats, BUCKET, NAME, &one, Some("by alice")).await?;
    let mut object = theirs.get(NAME).await?;
    ensure!(object.info.metadata.get("minisig").is_some_and(|text| text == "by alice"));
    let mut read = Vec::new();
    object.read_to_end(&mut read).await?;
    ensure!(read == one);

    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    offered(&mut source).await?;
    let two = large(2);
    let metadata = [("minisig".to_owned(), "by bob".to_owned())].into();
    let named = ObjectMetadata { name: NAME.into(), metadata, ..Default::default() };
    theirs.put(named.clone(), &mut two.as_slice()).await?;
    let offer = offered(&mut source).await?;
    ensure!(offer.bytes == two && offer.signature.as_deref() == Some("by bob"));
    // The same put again, with another mark, is no change.
    theirs.put(named, &mut two.as_slice()).await?;
    silent(&mut source).await?;
    // And ours replaces theirs.
    publish(&nats, BUCKET, NAME, b"three", None).await?;
    ensure!(offered(&mut source).await?.bytes == b"three");
    Ok(())
}

#[tokio::test]
async fn what_was_offered_is_not_fetched_again_at_each_look() -> Result<()> {
    let (server, nats) = stage().await?;
    publish(&nats, BUCKET, NAME, b"one", None).await?;
    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    offered(&mut source).await?;
    // Spoilt without a word: only who fetches it notices.
    let subject = format!("$O.{BUCKET}.C.{}", theirs(&server).await?.info(NAME).await?.nuid);
    let js = async_nats::jetstream::new(async_nats::connect(server.url()).await?);
    js.get_stream("OBJ_policies").await?.purge().filter(&subject).await?;
    js.publish(subject, "two".into()).await?.await?;
    silent(&mut source).await?;
    source.reread();
    ensure!(matches!(refused(&mut source).await?, SourceError::Unreadable { .. }));
    Ok(())
}

/// The quarantine is looked at every second, and a policy may take longer than that to come.
#[tokio::test]
async fn a_policy_that_takes_long_to_come_is_tried_all_the_same() -> Result<()> {
    let (server, near) = stage().await?;
    publish(&near, BUCKET, NAME, &large(1), None).await?;
    let proxy = Proxy::start(server.address()).await?;
    let far = connect(&proxy.url()).await?;
    let source = NatsSource::new(&far, BUCKET, NAME)?;
    // A look and three pieces, one behind the other.
    proxy.delay(Duration::from_millis(400));

    let (tell, mut told) = mpsc::unbounded_channel();
    let on_event = Arc::new(move |event: &Event| drop(tell.send(event.to_string())));
    let options = PoliciesOptions { on_event, ..PoliciesOptions::default() };
    let policies = Policies::open(&Runtime::new()?, options).await?;
    let _following = policies.follow(Offers::Nats(source));
    let event = timeout(PATIENCE, told.recv()).await.context("nothing was tried")?.context("it follows")?;
    ensure!(event.contains("is refused: compile"), "{event}");
    Ok(())
}
