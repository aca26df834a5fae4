//! Publishing: versions that stay, races, and what has to be permitted.

use anyhow::{Result, ensure};
use incumbent::policies::publish::{PublishError, create_bucket, history, publish, republish};
use incumbent::policies::source::NatsSource;
use incumbent::store::Fault;
use incumbent_tests::nats::{JETSTREAM, NatsServer};

use super::{BUCKET, NAME, connect, digest, large, offered, stage, theirs};

#[tokio::test]
async fn versions_are_kept_and_one_can_be_gone_back_to() -> Result<()> {
    let (server, nats) = stage().await?;
    ensure!(history(&nats, BUCKET, NAME).await?.is_empty());
    // A name that another one begins with.
    publish(&nats, BUCKET, "team/lease", b"other", None).await?;
    let bytes = |number: u8| [b"version ".as_slice(), &[number]].concat();
    for number in 0..12 {
        publish(&nats, BUCKET, NAME, &bytes(number), Some(&format!("by {number}"))).await?;
    }
    let versions = history(&nats, BUCKET, NAME).await?;
    let digests: Vec<_> = versions.iter().map(|version| version.digest.clone()).collect();
    let wanted: Vec<_> = (2..12).rev().map(|number| digest(&bytes(number))).collect();
    ensure!(digests == wanted, "{versions:?}");
    ensure!(versions.iter().all(|version| version.signed && version.size == 9));
    ensure!(versions.iter().filter(|version| version.current).count() == 1 && versions[0].current);
    ensure!(versions[0].published.starts_with("20") && versions[0].published.ends_with('Z'));
    ensure!(history(&nats, BUCKET, "team/lease").await?.len() == 1);

    let mut source = NatsSource::new(&nats, BUCKET, NAME)?;
    ensure!(offered(&mut source).await?.bytes == bytes(11));
    let gone_back = republish(&nats, BUCKET, NAME, &digest(&bytes(2))).await?;
    ensure!(gone_back.digest == digest(&bytes(2)) && !gone_back.unchanged);
    let offer = offered(&mut source).await?;
    ensure!(offer.bytes == bytes(2) && offer.signature.as_deref() == Some("by 2"));
    ensure!(history(&nats, BUCKET, NAME).await?.last().is_some_and(|version| version.current));
    ensure!(republish(&nats, BUCKET, NAME, &digest(&bytes(2))).await?.unchanged);
    // One that went, one that never was, and what is no digest.
    for odd in [&digest(&bytes(1)), &digest(b"no"), "2", ""] {
        let why = republish(&nats, BUCKET, NAME, odd).await;
        ensure!(matches!(why, Err(PublishError::NoVersion { .. })), "{why:?}");
    }
    // Another client put something else under a version's name.
    let digest = digest(&bytes(3));
    theirs(&server).await?.put(format!("{NAME}@{digest}").as_str(), &mut b"else".as_slice()).await?;
    let why = republish(&nats, BUCKET, NAME, &digest).await;
    ensure!(matches!(why, Err(PublishError::Damaged { .. })), "{why:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_replaced_leaves_nothing_behind() -> Result<()> {
    let (server, nats) = stage().await?;
    for round in 0..14 {
        publish(&nats, BUCKET, NAME, &large(round), None).await?;
    }
    // Each of 10 versions and the current one: 3 pieces and what they are.
    let messages = messages(&server).await?;
    ensure!(messages == 11 * 4, "{messages} messages");
    Ok(())
}

async fn messages(server: &NatsServer) -> Result<u64> {
    let client = async_nats::connect(server.url()).await?;
    let stream = async_nats::jetstream::new(client).get_stream("OBJ_policies").await?;
    Ok(stream.get_info().await?.state.messages)
}

#[tokio::test]
async fn of_two_who_publish_at_once_nobody_overwrites_unseen() -> Result<()> {
    let (server, nats) = stage().await?;
    let mut raced = 0;
    for round in 0..10 {
        let (one, two) = (large(round), large(round + 100));
        let (first, second) =
            tokio::join!(publish(&nats, BUCKET, NAME, &one, None), publish(&nats, BUCKET, NAME, &two, None));
        for end in [&first, &second] {
            ensure!(matches!(end, Ok(_) | Err(PublishError::Raced(_))), "{end:?}");
        }
        ensure!(first.is_ok() || second.is_ok());
        raced += usize::from(first.is_err() || second.is_err());
        let offer = offered(&mut NatsSource::new(&nats, BUCKET, NAME)?).await?;
        let winner = if offer.bytes == one { first } else { second };
        ensure!(winner.is_ok_and(|published| published.digest == digest(&offer.bytes)));
    }
    // They begin at once and take the same time: most rounds have a loser, who takes what it wrote away again.
    ensure!(raced > 0);
    publish(&nats, BUCKET, NAME, &large(250), None).await?;
    let messages = messages(&server).await?;
    ensure!(messages == 11 * 4, "{messages} messages");
    Ok(())
}

#[tokio::test]
async fn who_follows_needs_no_more_than_to_read() -> Result<()> {
    let users = r#"authorization { users: [
        { user: admin, password: a }
        { user: follower, password: f, permissions: {
            publish: ["$JS.API.STREAM.MSG.GET.OBJ_policies"], subscribe: ["_INBOX.>"] } }
        { user: publisher, password: p, permissions: {
            publish: ["$JS.API.STREAM.MSG.GET.OBJ_policies", "$JS.API.STREAM.INFO.OBJ_policies",
                      "$JS.API.STREAM.PURGE.OBJ_policies", "$O.policies.>"], subscribe: ["_INBOX.>"] } }
    ] }"#;
    let server = NatsServer::configured(&format!("{JETSTREAM}\n{users}"))?;
    let as_user = async |user: &str| connect(&format!("nats://{user}@{}", server.address())).await;
    create_bucket(&as_user("admin:a").await?, BUCKET, 1).await?;
    let publisher = as_user("publisher:p").await?;
    publish(&publisher, BUCKET, NAME, &large(1), None).await?;
    publish(&publisher, BUCKET, NAME, &large(2), None).await?;
    ensure!(history(&publisher, BUCKET, NAME).await?.len() == 2);
    let follower = as_user("follower:f").await?;
    ensure!(offered(&mut NatsSource::new(&follower, BUCKET, NAME)?).await?.bytes == large(2));
    let why = publish(&follower, BUCKET, NAME, b"one", None).await;
    ensure!(matches!(why, Err(PublishError::Store(Fault::Denied(_)))), "{why:?}");
    Ok(())
}
