//! Work queues by hand.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use incumbent::limits::ASK_BYTES;
use incumbent::store::Store;
use incumbent::store::queue::QueueConfig;
use serde_json::json;

use super::args::{QueueCommand, QueueCreate, QueuePut, QueueStatus, StoreArgs};
use super::exit::{Exit, wrong};
use super::say;
use super::state::{check_replicas, open_existing, open_store, store_url};

/// `incumbent queue`.
pub(crate) async fn queue(command: QueueCommand) -> anyhow::Result<ExitCode> {
    match command {
        QueueCommand::Create(args) => create(&args).await,
        QueueCommand::Put(args) => put(&args).await,
        QueueCommand::Status(args) => status(&args).await,
    }
}

async fn create(args: &QueueCreate) -> anyhow::Result<ExitCode> {
    let url = store_url(&args.store)?;
    check_replicas(&url, args.replicas)?;
    let store = open_store(&args.store).await?;
    if let Ok(there) = store.queue(&args.name).await {
        let has = there.info().await?.ack_wait;
        if has != args.ack_wait {
            let has = humantime::format_duration(has);
            let why = format!(
                "the queue {} is there, and has an ack wait of {has}; use that, or another queue",
                args.name
            );
            return Err(wrong(Exit::Config, why));
        }
    }
    let config = QueueConfig { ack_wait: args.ack_wait, replicas: args.replicas.into() };
    store.create_queue(&args.name, &config).await?;
    let ack_wait = humantime::format_duration(args.ack_wait);
    say::answer(
        &format!("{} on {url}: ack wait {ack_wait}, replicas {}", args.name, args.replicas),
        &json!({
            "queue": args.name, "store": url.to_string(), "ack_wait_ms": args.ack_wait.as_millis(),
            "replicas": args.replicas,
        }),
    )?;
    Ok(Exit::Done.into())
}

/// The store; a file is not made by the way, there are no queues in a new one.
async fn open(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    let store = open_existing(args).await?;
    store.map_err(|why| wrong(Exit::Config, format!("{why}; `incumbent queue create` makes it")))
}

async fn put(args: &QueuePut) -> anyhow::Result<ExitCode> {
    let store = open(&args.store).await?;
    let queue = store.queue(&args.name).await?;
    let mut body = Vec::new();
    // One more than is allowed, so that too much is refused and not cut.
    let most = ASK_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut body).context("standard input cannot be read")?;
    let sequence = queue.put(&body).await?;
    say::answer(&sequence.to_string(), &json!({ "queue": args.name, "sequence": sequence }))?;
    Ok(Exit::Done.into())
}

async fn status(args: &QueueStatus) -> anyhow::Result<ExitCode> {
    let store = open(&args.store).await?;
    let info = store.queue(&args.name).await?.info().await?;
    let ack_wait = humantime::format_duration(info.ack_wait);
    say::answer(
        &format!("{}: {} waiting, {} taken, ack wait {ack_wait}", args.name, info.waiting, info.taken),
        &json!({
            "queue": args.name, "waiting": info.waiting, "taken": info.taken,
            "ack_wait_ms": info.ack_wait.as_millis(),
        }),
    )?;
    Ok(Exit::Done.into())
}
