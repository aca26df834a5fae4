//! What a store's work queues must do. They know nothing of checks and deliveries.
//!
//! # The contract
//!
//! One suite (`tests/queue_contract.rs`) holds every backend to these rules; the memory backend is their
//! plainest statement.
//!
//! 1. **Kept until done.** An ask that was put is kept until it is acknowledged ([`Taken::done`]).
//! 2. **One taker.** A taken ask is its taker's alone until it is handed back, or not heard of
//!    ([`Taken::working`]) for the queue's `ack_wait`. Then it waits again, before those never taken.
//!    Never earlier than `ack_wait` after the last word was received, by the queue's own clock.
//! 3. **Counted.** Every taking of an ask is counted on it, the first as one: an ask that runs twice can be
//!    told from one that runs once.
//! 4. **In order.** Those never taken are taken in the order in which they were put.
//! 5. **Looking takes nothing.** `oldest_waiting` answers the ask that waits longest and changes nothing,
//!    at a cost that does not grow with what waits. Where the store cannot tell what waits to be given again
//!    from what is being worked on, it answers the first one never taken; where there is none, now and then
//!    (once an `ack_wait`) the first one that is not done.
//! 6. **Bounded.** `take` ends within `within` and the time that the store was opened with; `within` zero
//!    looks once. An ask above [`ASK_BYTES`](crate::limits::ASK_BYTES) is refused when it is put.
//! 7. **Cancel-safe.** Dropping a call leaves the queue usable. What comes to a `take` that was dropped is
//!    handed back.
//! 8. **Faults tell certain from unknown**, as a bucket's do.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Fault;

/// One ask of a work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its place in the queue: rises with every put.
    pub sequence: u64,
    /// When the queue stored it: time since 1970, where the queue says so.
    pub stored: Option<Duration>,
    /// What was asked.
    pub body: Vec<u8>,
}

/// What a queue is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// How long a taken ask stays its taker's unless heard of, within
    /// [`TTL_SHORTEST`](crate::limits::TTL_SHORTEST) and [`TTL_LONGEST`](crate::limits::TTL_LONGEST).
    pub ack_wait: Duration,
    /// On how many servers it is kept. One for a store of one machine.
    pub replicas: usize,
}

/// The state of a queue, read fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// How long a taken ask stays its taker's unless heard of.
    pub ack_wait: Duration,
    /// Asks never taken.
    pub waiting: u64,
    /// Asks that were taken and are not done: being worked on, or waiting to be given again.
    pub taken: u64,
}

/// One work queue of a store. See the [contract](self).
#[async_trait]
pub trait Queue: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// Ask for something. Answers the ask's sequence.
    ///
    /// # Errors
    /// A [`Fault`]; after `Unknown` it may be there.
    async fn put(&self, body: &[u8]) -> Result<u64, Fault>;

    /// The ask that waits longest, read without taking it; `None` when none waits.
    ///
    /// # Errors
    /// A [`Fault`]; `Unknown` is never answered for a read.
    async fn oldest_waiting(&self) -> Result<Option<Ask>, Fault>;

    /// Take one ask, waiting at most `within` for one to come; `None` when none came.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn take(&self, within: Duration) -> Result<Option<Box<dyn Taken>>, Fault>;

    /// The queue's state.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn info(&self) -> Result<QueueInfo, Fault>;
}

/// An ask taken from its queue. Dropping it does nothing: the ask is given again after the `ack_wait`.
#[async_trait]
pub trait Taken: Send + Sync + fmt::Debug {
    /// What was taken.
    fn ask(&self) -> &Ask;

    /// How often it was taken, this time included.
    fn deliveries(&self) -> u64;

    /// It is still worked on: it stays the taker's for another `ack_wait`.
    ///
    /// # Errors
    /// A [`Fault`]; `Denied` where the store knows that it is the taker's no more.
    async fn working(&self) -> Result<(), Fault>;

    /// It is done, and gone from the queue.
    ///
    /// # Errors
    /// A [`Fault`]; `Denied` where the store knows that it is the taker's no more.
    async fn done(&self) -> Result<(), Fault>;

    /// Hand it back, to be given again after `delay`.
    ///
    /// # Errors
    /// A [`Fault`]; `Denied` where the store knows that it is the taker's no more.
    async fn hand_back(&self, delay: Duration) -> Result<(), Fault>;
}

/// What came of taking.
pub(super) type Take = Result<Option<Box<dyn Taken>>, Fault>;

/// Takes to the end, whoever still waits for it.
pub(super) async fn take_to_the_end(taking: impl Future<Output = Take> + Send + 'static) -> Take {
    let (tell, told) = oneshot::channel();
    let runtime = Handle::current();
    tokio::spawn(async move { tell.send(taking.await.map(|taken| OnItsWay::new(taken, runtime))) });
    match told.await {
        Ok(answer) => answer.map(OnItsWay::arrived),
        Err(_) => Err(Fault::Unavailable("taking was cut off; this program is ending".into())),
    }
}

/// A taken ask between what took it and its taker. Where the taker is gone this is dropped with the ask in it,
/// which is handed back. (Should the runtime end just then, it is given again after the ack wait.)
pub(super) struct OnItsWay {
    taken: Option<Box<dyn Taken>>,
    runtime: Handle,
}

impl OnItsWay {
    pub(super) fn new(taken: Option<Box<dyn Taken>>, runtime: Handle) -> Self {
        Self { taken, runtime }
    }

    pub(super) fn arrived(mut self) -> Option<Box<dyn Taken>> {
        self.taken.take()
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        self.runtime.spawn(async move {
            if let Err(fault) = taken.hand_back(Duration::ZERO).await {
                tracing::debug!(%fault, "an ask that nobody waited for was not handed back");
            }
        });
    }
}

/// Refuses an ask over the limit.
///
/// # Errors
/// [`Fault::TooLarge`] with the size and the limit.
pub fn check_ask(queue: &str, body: &[u8]) -> Result<(), Fault> {
    let limit = crate::limits::ASK_BYTES;
    if body.len() > limit {
        return Err(Fault::TooLarge(format!(
            "the ask for the queue {queue} has {} bytes; the limit is {limit}",
            body.len()
        )));
    }
    Ok(())
}

/// Refuses a queue's settings that no store takes.
///
/// # Errors
/// [`Fault::Denied`] with the figure and the bounds.
pub fn check_queue(name: &str, config: &QueueConfig) -> Result<(), Fault> {
    super::check_made(("queue", name), ("an ack wait", config.ack_wait), config.replicas)
}
