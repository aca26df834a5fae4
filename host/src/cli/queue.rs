//! Work queues by hand.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::Context as _;
use incumbent::clock::Clock;
use incumbent::limits::ASK_BYTES;
use incumbent::store::open::open;
use incumbent::store::queue::QueueConfig;
use serde_json::json;

use super::args::{QueueCommand, QueueCreate, QueuePut, QueueStatus};
use super::exit::Exit;
use super::state::store_url;

/// `incumbent queue`.
pub(crate) async fn queue(command: QueueCommand, as_json: bool) -> anyhow::Result<ExitCode> {
    match command {
        QueueCommand::Create(args) => create(&args, as_json).await,
        QueueCommand::Put(args) => put(&args, as_json).await,
        QueueCommand::Status(args) => status(&args, as_json).await,
    }
}

async fn create(args: &QueueCreate, as_json: bool) -> anyhow::Result<ExitCode> {
    let url = store_url(&args.store)?;
    let store = open(&url, &args.store.access(), &Clock::machine()).await?;
    let config = QueueConfig { ack_wait: args.ack_wait, replicas: args.replicas };
    store.create_queue(&args.name, &config).await?;
    if as_json {
        let ack_wait = args.ack_wait.as_millis();
        let line = json!({
            "queue": args.name, "store": url.to_string(), "ack_wait_ms": ack_wait, "replicas": args.replicas,
        });
        println!("{line}");
    } else {
        let ack_wait = humantime::format_duration(args.ack_wait);
        println!("{} on {url}: ack wait {ack_wait}, replicas {}", args.name, args.replicas);
    }
    Ok(Exit::Done.into())
}

async fn put(args: &QueuePut, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open(&store_url(&args.store)?, &args.store.access(), &Clock::machine()).await?;
    let queue = store.queue(&args.name).await?;
    let mut body = Vec::new();
    // One more than is allowed, so that too much is refused and not cut.
    let most = ASK_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut body).context("standard input cannot be read")?;
    let sequence = queue.put(&body).await?;
    if as_json {
        println!("{}", json!({ "queue": args.name, "sequence": sequence }));
    } else {
        println!("{sequence}");
    }
    Ok(Exit::Done.into())
}

async fn status(args: &QueueStatus, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = open(&store_url(&args.store)?, &args.store.access(), &Clock::machine()).await?;
    let info = store.queue(&args.name).await?.info().await?;
    if as_json {
        let ack_wait = info.ack_wait.as_millis();
        let line = json!({
            "queue": args.name, "waiting": info.waiting, "taken": info.taken, "ack_wait_ms": ack_wait,
        });
        println!("{line}");
    } else {
        let ack_wait = humantime::format_duration(info.ack_wait);
        println!("{}: {} waiting, {} taken, ack wait {ack_wait}", args.name, info.waiting, info.taken);
    }
    Ok(Exit::Done.into())
}
