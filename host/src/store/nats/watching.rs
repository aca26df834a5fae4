//! The watches of one bucket over one connection, which share listeners: a process that waits for a thousand
//! keys is two consumers on the server, not a thousand.
//!
//! The first watch listens to its own key only, so that a permission for that is enough. A watch of another key
//! meanwhile listens to the whole bucket, on behalf of all that come later. Where the server does not grant the
//! whole bucket, each key has a listener of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::errors::{Call, Doing, Place};
use super::link::Link;
use super::listen::{For, Listener, Sign};
use crate::store::{Fault, Watch};

/// How long a broken listener waits before it tries to begin anew.
const BEGIN_AGAIN: Duration = Duration::from_millis(250);

/// The watches of one bucket.
#[derive(Debug)]
pub(super) struct Watching {
    link: Arc<Link>,
    bucket: String,
    /// Locked while a listener begins, so that those who come together begin one together.
    running: tokio::sync::Mutex<Running>,
}

/// The listeners that run. They belong to their watches, and end with the last of them.
#[derive(Debug, Default)]
struct Running {
    wide: Weak<Shared>,
    /// By the subject of the key.
    narrow: HashMap<String, Weak<Shared>>,
    /// The connection on which the wide one is not to be had.
    refused_on: Option<u64>,
}

impl Watching {
    pub(super) fn new(link: Arc<Link>, bucket: &str) -> Self {
        Self { link, bucket: bucket.into(), running: tokio::sync::Mutex::default() }
    }

    /// Watch the key of this subject.
    pub(super) async fn watch(self: &Arc<Self>, key: &str, subject: String) -> Result<Box<dyn Watch>, Fault> {
        let deadline = self.link.deadline();
        let call = self.call(Some(key));
        let running = tokio::time::timeout_at(deadline, self.running.lock()).await;
        let mut running =
            running.map_err(|_| Fault::Unavailable(format!("cannot {call}: no answer in time")))?;
        if let Some(watch) = running.join(&subject) {
            return Ok(Box::new(watch));
        }
        let connection = self.link.connection();
        let mut wide_silent = false;
        if running.listens() && running.refused_on != Some(connection) {
            // Half the time, so that some is left for the narrow one.
            let half = deadline - deadline.saturating_duration_since(Instant::now()) / 2;
            match self.listen(&self.everything(), &call, half).await {
                Ok(listener) => {
                    let watch = self.share(listener, self.everything(), subject);
                    running.wide = Arc::downgrade(&watch.shared);
                    return Ok(Box::new(watch));
                }
                Err(gone @ Fault::MissingBucket(_)) => return Err(gone),
                Err(why) => {
                    tracing::debug!(bucket = self.bucket, "no watch on the whole bucket: {why}");
                    match why {
                        Fault::Denied(_) => running.refused_on = Some(connection),
                        _ => wide_silent = true,
                    }
                }
            }
        }
        let listener = self.listen(&subject, &call, deadline).await?;
        // Some servers on the way drop what they do not grant, without a word.
        if wide_silent {
            running.refused_on = Some(connection);
        }
        let watch = self.share(listener, subject.clone(), subject.clone());
        running.narrow.insert(subject, Arc::downgrade(&watch.shared));
        Ok(Box::new(watch))
    }

    fn call<'a>(&'a self, key: Option<&'a str>) -> Call<'a> {
        let place = Place::Bucket(&self.bucket);
        Call { doing: Doing::Read("watch"), key, place, servers: self.link.servers() }
    }

    fn everything(&self) -> String {
        format!("$KV.{}.>", self.bucket)
    }

    async fn listen(&self, filter: &str, call: &Call<'_>, deadline: Instant) -> Result<Listener, Fault> {
        let begun = Listener::begin(&self.link, &self.bucket, filter, For::Watching, call, deadline).await;
        begun.map(|(listener, _)| listener)
    }

    /// Have a listener run for this watch, and for those that join.
    fn share(self: &Arc<Self>, listener: Listener, filter: String, subject: String) -> NatsWatch {
        let (wakes, woken) = Wakes::with(&subject);
        let ends = Ends(Arc::clone(&wakes));
        let task = tokio::spawn(Arc::clone(self).run(listener, filter, ends)).abort_handle();
        NatsWatch { subject, woken, shared: Arc::new(Shared { wakes, task }) }
    }

    /// Wake those whose keys change, until nobody watches by this listener or it is refused.
    async fn run(self: Arc<Self>, mut listener: Listener, filter: String, ends: Ends) {
        let wakes = &ends.0;
        loop {
            match listener.next(&self.link).await {
                Sign::Message(message) => wakes.wake(message.subject.as_str()),
                Sign::Idle => {}
                Sign::Broken => {
                    drop(listener);
                    let Some(again) = self.listen_again(&filter).await else { return };
                    listener = again;
                    // Any key may have changed while nobody listened.
                    wakes.wake_all();
                }
            }
        }
    }

    /// `None`: it is refused for good.
    async fn listen_again(&self, filter: &str) -> Option<Listener> {
        loop {
            match self.listen(filter, &self.call(None), self.link.deadline()).await {
                Ok(listener) => return Some(listener),
                Err(Fault::Unavailable(_)) => tokio::time::sleep(BEGIN_AGAIN).await,
                Err(why) => {
                    tracing::debug!(bucket = self.bucket, "the watch on {filter} has ended: {why}");
                    return None;
                }
            }
        }
    }
}

impl Running {
    /// Watch by a listener that runs already, if one hears this subject.
    fn join(&mut self, subject: &str) -> Option<NatsWatch> {
        self.narrow.retain(|_, shared| shared.upgrade().is_some_and(|shared| shared.wakes.listens()));
        let narrow = self.narrow.get(subject).and_then(Weak::upgrade);
        [narrow, self.wide.upgrade()].into_iter().flatten().find_map(|shared| {
            let woken = shared.wakes.enter(subject)?;
            Some(NatsWatch { subject: subject.into(), woken, shared })
        })
    }

    /// Whether any hears another key, where none could be joined.
    fn listens(&self) -> bool {
        !self.narrow.is_empty()
    }
}

/// A listener's task, ended with the last watch that holds this.
#[derive(Debug)]
struct Shared {
    wakes: Arc<Wakes>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whom to wake, by subject; `None` once the listener has ended.
#[derive(Debug)]
struct Wakes(Mutex<Option<HashMap<String, Wake>>>);

#[derive(Debug, Default)]
struct Wake {
    wake: watch::Sender<()>,
    watches: usize,
}

impl Wakes {
    /// For a first watch.
    fn with(subject: &str) -> (Arc<Self>, watch::Receiver<()>) {
        let wake = Wake { watches: 1, ..Wake::default() };
        let woken = wake.wake.subscribe();
        (Arc::new(Self(Mutex::new(Some(HashMap::from([(subject.into(), wake)]))))), woken)
    }

    fn enter(&self, subject: &str) -> Option<watch::Receiver<()>> {
        let mut wakes = self.lock();
        let wake = wakes.as_mut()?.entry(subject.into()).or_default();
        wake.watches += 1;
        Some(wake.wake.subscribe())
    }

    fn leave(&self, subject: &str) {
        let mut wakes = self.lock();
        let Some(wakes) = wakes.as_mut() else { return };
        let Some(wake) = wakes.get_mut(subject) else { return };
        wake.watches -= 1;
        if wake.watches == 0 {
            wakes.remove(subject);
        }
    }

    fn wake(&self, subject: &str) {
        if let Some(wake) = self.lock().as_ref().and_then(|wakes| wakes.get(subject)) {
            wake.wake.send_replace(());
        }
    }

    fn wake_all(&self) {
        self.lock().iter().flatten().for_each(|(_, wake)| wake.wake.send_replace(()));
    }

    fn listens(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<String, Wake>>> {
        // Each change under it is whole, so what a panic left is too.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the watches with their listener, however that ends.
struct Ends(Arc<Wakes>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// Watches one key.
struct NatsWatch {
    subject: String,
    woken: watch::Receiver<()>,
    shared: Arc<Shared>,
}

#[async_trait]
impl Watch for NatsWatch {
    async fn changed(&mut self) -> bool {
        self.woken.changed().await.is_ok()
    }
}

impl Drop for NatsWatch {
    fn drop(&mut self) {
        self.shared.wakes.leave(&self.subject);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
    use super::*;

    #[test]
    fn a_subject_is_forgotten_with_the_last_that_watches_it() {
        let (wakes, first) = Wakes::with("$KV.b.one");
        let second = wakes.enter("$KV.b.one").unwrap();
        let other = wakes.enter("$KV.b.two").unwrap();
        wakes.leave("$KV.b.one");
        wakes.wake("$KV.b.one");
        assert!(first.has_changed().unwrap() && second.has_changed().unwrap());
        assert!(!other.has_changed().unwrap());
        wakes.leave("$KV.b.one");
        assert_eq!(wakes.lock().as_ref().unwrap().len(), 1);
        drop(Ends(Arc::clone(&wakes)));
        assert!(other.has_changed().is_err() && wakes.enter("$KV.b.two").is_none());
        wakes.leave("$KV.b.two");
    }
}
