//! Keeps a job while it runs: tells its queue that it is worked on, and writes the let-through key again, by
//! revision. At the end the key is dropped, by revision; one that was lost to another is never touched.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::event::SayOnce;
use super::imports::LettingThrough;
use super::job::{Lost, Order, Shared};
use crate::bindings::Kept;
use crate::clock::{Clock, Steady};
use crate::limits;
use crate::policy::Policy;
use crate::store::Fault;
use crate::store::queue::Taken;

/// What is kept is told of this many times before it would be taken for dead.
const BEATS: u32 = 4;

/// How soon a beat that failed is tried again: this share of the time between beats.
const RETRY_SHARE: u32 = 5;

/// Of the time that something stays kept, this share is left for acts under way and clocks that differ.
const MARGIN_SHARE: u32 = 5;

/// How long something stays surely kept, that its store keeps for `ttl` after the last word.
pub(super) fn validity(ttl: Duration) -> Duration {
    ttl - ttl / MARGIN_SHARE
}

/// A let-through key that is held.
pub(super) struct Key {
    pub(super) policy: Policy,
    pub(super) imports: LettingThrough,
    pub(super) builder: String,
    pub(super) since: String,
    pub(super) revision: u64,
    pub(super) until: Steady,
    pub(super) ttl: Duration,
}

/// The keeper of one job.
pub(super) struct Keeper {
    pub(super) clock: Clock,
    pub(super) taken: Arc<dyn Taken>,
    pub(super) ack_wait: Duration,
    pub(super) ask_until: Steady,
    pub(super) key: Option<Key>,
    pub(super) until: watch::Sender<Steady>,
    pub(super) shared: Arc<Shared>,
    pub(super) said: Arc<SayOnce>,
}

impl Keeper {
    /// Until the job is over.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let _told = LostByPanic(self.shared.clone());
        let mut next = self.beat_every();
        loop {
            let overdue = self.until().since(self.clock.now());
            let is_lost = self.shared.lost.get().is_some();
            tokio::select! {
                biased;
                order = orders.recv() => return self.end(order).await,
                () = sleep(overdue), if !is_lost => {
                    let why = if self.key.as_ref().is_some_and(|key| key.until <= self.ask_until) {
                        "the let-through key was not written in time"
                    } else {
                        "its queue was not told in time"
                    };
                    self.shared.lose(Lost::Overdue(why.into()));
                }
                // What is under way when the job ends is dropped: should it still land, the end finds it.
                beat = async { sleep(next).await; self.beat().await } => next = beat,
            }
        }
    }

    /// Until when the job may run.
    fn until(&self) -> Steady {
        let key = self.key.as_ref().map_or(Steady(u64::MAX), |key| key.until);
        self.ask_until.min(key)
    }

    /// Whether the ask is surely this builder's still. Otherwise its queue is told nothing but that it is done: one
    /// that does not know whose word it hears would take the ask from the next taker.
    fn is_ours(&self) -> bool {
        self.clock.now() < self.ask_until
    }

    fn beat_every(&self) -> Duration {
        let key = self.key.as_ref().map_or(Duration::MAX, |key| key.ttl);
        self.ack_wait.min(key) / BEATS
    }

    /// Keep the key and the ask once; how long until the next time.
    async fn beat(&mut self) -> Duration {
        let every = self.beat_every();
        let key = match &mut self.key {
            None => Ok(()),
            Some(key) => {
                match timeout(every, key.keep()).await.unwrap_or_else(|_| Err("no answer in time".into())) {
                    Ok(true) => Ok(()),
                    Ok(false) => {
                        self.key = None;
                        self.shared.lose(Lost::Key);
                        Ok(())
                    }
                    Err(why) => Err(why),
                }
            }
        };
        let key = self.said.value("the let-through key cannot be kept", key);
        let sent = self.clock.now();
        let worked = if self.is_ours() {
            let worked = timeout(every, self.taken.working()).await;
            worked.unwrap_or_else(|_| Err(Fault::Unknown("no answer in time".into())))
        } else {
            Err(overdue())
        };
        let worked = self.said.value("the queue cannot be told that a job runs", worked);
        if worked.is_some() {
            self.ask_until = sent.plus(validity(self.ack_wait));
        }
        // A job that must not run on stays so, though its ask is kept for as long as it takes to end.
        if self.shared.lost.get().is_none() {
            let until = self.until();
            // One that did not move is no news: a guardian reckons the grace anew by what is left.
            self.until.send_if_modified(|told| std::mem::replace(told, until) != until);
        }
        if key.is_some() && worked.is_some() { every } else { every / RETRY_SHARE }
    }

    /// The job is over: done, handed back, or dropped without a word.
    async fn end(mut self, order: Option<Order>) {
        // Both expire by themselves.
        if order.is_none() && self.shared.left.load(Ordering::Acquire) {
            return;
        }
        let told = async {
            match &order {
                Some(Order::Done(_)) => self.taken.done().await,
                _ if !self.is_ours() => Err(overdue()),
                Some(Order::HandBack(delay, _)) => self.taken.hand_back(*delay).await,
                None => self.taken.hand_back(Duration::ZERO).await,
            }
        };
        let told = timeout(limits::RELEASE, told).await;
        let told = told.unwrap_or_else(|_| Err(Fault::Unknown("the queue did not answer in time".into())));
        // The key goes last: no other check is let through while this one may still be on its way out.
        if let Some(key) = self.key.take() {
            let dropped = timeout(limits::RELEASE, key.let_go()).await;
            let dropped = dropped.unwrap_or_else(|_| Err("no answer in time".into()));
            self.said.value("the let-through key cannot be dropped, and ages out", dropped);
        }
        match order {
            // Whoever ordered it may be gone; it was done all the same.
            Some(Order::Done(answer) | Order::HandBack(_, answer)) => drop(answer.send(told)),
            None => {
                self.said
                    .value("a job that was dropped cannot be handed back, and is given again later", told);
            }
        }
    }
}

/// A job whose keeper panicked, in what is told of events for one, is kept by nobody.
struct LostByPanic(Arc<Shared>);

impl Drop for LostByPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lose(Lost::Overdue("its keeper panicked".into()));
        }
    }
}

fn overdue() -> Fault {
    Fault::Denied("it was not kept in time, and may be another builder's by now".into())
}

impl Key {
    /// Whether it is still this builder's.
    async fn keep(&mut self) -> Result<bool, String> {
        let call =
            self.policy.keep_let_through(self.imports.clone(), &self.builder, &self.since, self.revision);
        match call.await.map_err(|why| why.to_string())? {
            Ok(Kept::Kept(revision)) => {
                let until = self.imports.key.rails().until(revision);
                self.until = until.map_err(|lie| format!("the policy is not believed: {lie}"))?;
                self.revision = revision;
                Ok(true)
            }
            Ok(Kept::Lost) => Ok(false),
            Err(fault) => Err(Fault::from(fault).to_string()),
        }
    }

    /// Drop it, unless it is somebody else's. One whose last keeping was cut off or unanswered may stand at a
    /// newer revision: keeping it finds that.
    async fn let_go(mut self) -> Result<(), String> {
        if self.imports.key.rails().is_unsettled() && !self.keep().await? {
            return Ok(());
        }
        let call = self.policy.drop_let_through(self.imports.clone(), self.revision);
        call.await.map_err(|why| why.to_string())?.map_err(|fault| Fault::from(fault).to_string())
    }
}
