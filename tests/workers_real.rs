//! Workers on real stores, in real time: a NATS server that is away for longer than a lease lives, and the example
//! program as two processes on one SQLite file.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{BucketConfig, Store};
use incumbent::workers::{Event, Workers, WorkersOptions};
use incumbent_tests::command::example;
use incumbent_tests::crew::Post;
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{PATIENCE, Running};
use incumbent_tests::world::policy;
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const BUCKET: &str = "workers";
const NAMES: usize = 10;

/// Workers of one instance, on a connection of its own, and what they are told.
async fn instance(server: &NatsServer, posts: &[Post]) -> Result<(Workers, UnboundedReceiver<Event>)> {
    let store: Arc<dyn Store> = Arc::new(Nats::connect(NatsOptions::new(server.url())).await?);
    store.create_bucket(BUCKET, &BucketConfig { ttl: Duration::from_secs(2), replicas: 1 }).await?;
    let (tell, told) = unbounded_channel();
    let options = WorkersOptions {
        on_event: Arc::new(move |_, event| drop(tell.send(event.clone()))),
        ..WorkersOptions::default()
    };
    let workers = Workers::new(policy().await, &store, BUCKET, options);
    for (n, post) in posts.iter().enumerate() {
        workers.spawn(format!("labeler:{n}"), post.clone());
    }
    Ok((workers, told))
}

/// Until as many events of this kind have come.
async fn comes(
    told: &mut UnboundedReceiver<Event>,
    count: usize,
    kind: impl Fn(&Event) -> bool,
) -> Result<()> {
    let mut seen = Vec::new();
    while seen.iter().filter(|event| kind(event)).count() < count {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await;
        seen.push(next.with_context(|| format!("only these came: {seen:?}"))?.context("all ended")?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_away_for_longer_than_the_ttl_ends_all_in_time_and_all_work_again() -> Result<()> {
    let mut server = NatsServer::start()?;
    let posts: Vec<Post> = (0..NAMES).map(|_| Post::default()).collect();
    let started = |event: &Event| matches!(event, Event::Started { .. });
    let (alice, mut told) = instance(&server, &posts).await?;
    comes(&mut told, NAMES, started).await?;

    server.kill()?;
    comes(&mut told, NAMES, |event| *event == Event::Lost).await?;
    server.restart()?;
    comes(&mut told, NAMES, started).await?;

    let (bob, mut told) = instance(&server, &posts).await?;
    ensure!(alice.wait(PATIENCE).await.is_empty(), "alice's ended");
    comes(&mut told, NAMES, started).await?;
    let most: Vec<usize> = posts.iter().map(Post::most).collect();
    ensure!(most == [1; NAMES], "so many of each name worked at once: {most:?}");
    ensure!(bob.wait(PATIENCE).await.is_empty(), "bob's ended");
    Ok(())
}

#[test]
fn the_example_hands_over_when_it_is_interrupted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let start = || {
        let mut command = Command::new(example("workers"));
        command.arg("workers.db").current_dir(folder.path()).stdin(Stdio::null());
        Running::start(command)
    };
    let mut alice = start()?;
    for _ in 0..3 {
        alice.hears("works at epoch")?;
    }
    let mut bob = start()?;
    alice.signal(Signal::INT)?;
    ensure!(alice.ended()? == 0, "it ends well");
    for _ in 0..3 {
        bob.hears("works at epoch")?;
    }
    bob.signal(Signal::INT)?;
    ensure!(bob.ended()? == 0, "so does the other");
    Ok(())
}
