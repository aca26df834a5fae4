//! A job that was taken and may run: a delivery, a check, or the one check let through.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::clock::Steady;
use crate::store::Fault;
use crate::store::queue::{Ask, Taken};

/// What a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A delivery.
    Delivery,
    /// A check, taken while no delivery built.
    Check,
    /// The one check let through while a delivery builds.
    LetThrough {
        /// Since when it runs, RFC 3339.
        since: String,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delivery => "delivery",
            Self::Check => "check",
            Self::LetThrough { .. } => "let-through",
        })
    }
}

/// Why a job must not run on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The let-through key is somebody else's, or gone: another check may run in its place.
    #[error("the let-through key is another builder's, or gone")]
    Key,
    /// It could not be kept in time: the ask may be given to another builder, or another check let through.
    #[error("it could not be kept in time: {0}")]
    Overdue(String),
}

/// A job, kept while this lives: its ask stays this builder's, and the let-through key stays put.
///
/// End it with [`done`](Self::done) or [`hand_back`](Self::hand_back), or [`leave`](Self::leave) it. Dropped otherwise, by a panic or because
/// its future was, it is handed back and the key is dropped.
pub struct Job {
    pub(super) kind: Kind,
    pub(super) queue: String,
    pub(super) taken: Arc<dyn Taken>,
    pub(super) shared: Arc<Shared>,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) until: watch::Receiver<Steady>,
}

/// What a job and its keeper share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) lost: OnceLock<Lost>,
    pub(super) over: CancellationToken,
    /// Whether nobody is to be told of its end.
    pub(super) left: AtomicBool,
}

impl Shared {
    pub(super) fn lose(&self, why: Lost) {
        // The first reason is the one that is told.
        let _ = self.lost.set(why);
        self.over.cancel();
    }
}

/// What a job tells its keeper, and how to answer.
pub(super) enum Order {
    Done(oneshot::Sender<Result<(), Fault>>),
    HandBack(Duration, oneshot::Sender<Result<(), Fault>>),
}

impl Job {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The queue it came from.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// What was asked.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        self.taken.ask()
    }

    /// How often it was given to a builder, this time included.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.taken.deliveries()
    }

    /// The `id` in its body, where that is JSON and has one.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Body {
            id: String,
        }
        serde_json::from_slice::<Body>(&self.ask().body).ok().map(|body| body.id)
    }

    /// It may run until then, unless kept: at that instant another builder may have it, or another check may be
    /// let through.
    #[must_use]
    pub fn until(&self) -> Steady {
        *self.until.borrow()
    }

    /// Follows [`until`](Self::until).
    #[must_use]
    pub fn untils(&self) -> watch::Receiver<Steady> {
        self.until.clone()
    }

    /// Until it must not run on. It is told why by [`why_lost`](Self::why_lost).
    pub fn lost(&self) -> WaitForCancellationFuture<'_> {
        self.shared.over.cancelled()
    }

    /// Fires when it must not run on.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.shared.over.child_token()
    }

    /// Why it must not run on; `None` while it may.
    #[must_use]
    pub fn why_lost(&self) -> Option<Lost> {
        self.shared.lost.get().cloned()
    }

    /// It is done: acknowledged, and gone from its queue.
    ///
    /// # Errors
    /// The queue did not hear of it, and gives it again after its ack wait; or it was given again already.
    pub async fn done(self) -> Result<(), Fault> {
        self.end(Order::Done).await
    }

    /// It is not done, and is to be given again after `delay`.
    ///
    /// # Errors
    /// The queue did not hear of it, and gives it again after its ack wait; or it was given again already.
    pub async fn hand_back(self, delay: Duration) -> Result<(), Fault> {
        self.end(|answer| Order::HandBack(delay, answer)).await
    }

    /// What runs with it may run still, so that nobody is told anything: its ask is given again after the ack wait, and
    /// the let-through key ages out.
    pub fn leave(self) {
        self.shared.left.store(true, Ordering::Release);
    }

    async fn end(self, order: impl FnOnce(oneshot::Sender<Result<(), Fault>>) -> Order) -> Result<(), Fault> {
        let gone = || Fault::Unknown("the keeper of the job is gone; the ask is given again".into());
        let (answer, answered) = oneshot::channel();
        self.orders.send(order(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Job({} {} of {}, delivery {})",
            self.kind,
            self.ask().sequence,
            self.queue,
            self.deliveries()
        )
    }
}
