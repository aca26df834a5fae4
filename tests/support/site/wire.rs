//! A line to a store with its queues, and what befalls it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use incumbent::store::queue::{Ask, Queue, QueueConfig, QueueInfo, Taken};
use incumbent::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write};

/// What is asked of a bucket or of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the methods")]
pub enum What {
    Open,
    Get,
    Create,
    Update,
    Delete,
    Keys,
    Info,
    Oldest,
    Take,
    Working,
    Done,
    HandBack,
}

/// What becomes of it.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It is answered with this fault and surely not applied.
    Fails(Fault),
    /// It is applied, and the answer is lost.
    AnswerLost,
    /// It never arrives and is never answered.
    Hangs,
}

type Place = (What, String);
type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A line. Clones share it.
#[derive(Clone)]
pub struct Wire {
    store: Arc<dyn Store>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    once: Vec<(Place, Fate)>,
    always: HashMap<Place, Fate>,
    hooks: Vec<(Place, Hook)>,
    counts: HashMap<Place, usize>,
}

impl Wire {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, state: Arc::default() }
    }

    /// This befalls the next one.
    pub fn once(&self, what: What, place: &str, fate: Fate) {
        self.state().once.push(((what, place.into()), fate));
    }

    /// This befalls every one until the line is healed.
    pub fn always(&self, what: What, place: &str, fate: Fate) {
        self.state().always.insert((what, place.into()), fate);
    }

    /// Nothing befalls this line any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.once.clear();
        state.always.clear();
    }

    /// This happens just before the next one arrives.
    pub fn before(&self, what: What, place: &str, hook: impl Future<Output = ()> + Send + 'static) {
        self.state().hooks.push(((what, place.into()), Box::pin(hook)));
    }

    /// How many were asked so far.
    #[must_use]
    pub fn count(&self, what: What, place: &str) -> usize {
        self.state().counts.get(&(what, place.into())).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What befalls it on its way; whether the answer will be lost.
    async fn meet(&self, what: What, place: &str) -> Result<bool, Fault> {
        let place: Place = (what, place.into());
        let (hook, fate) = {
            let mut state = self.state();
            *state.counts.entry(place.clone()).or_default() += 1;
            let at = state.hooks.iter().position(|(of, _)| *of == place);
            let hook = at.map(|at| state.hooks.remove(at).1);
            let at = state.once.iter().position(|(of, _)| *of == place);
            let fate = at.map(|at| state.once.remove(at).1);
            (hook, fate.or_else(|| state.always.get(&place).cloned()))
        };
        if let Some(hook) = hook {
            hook.await;
        }
        match fate {
            None => Ok(false),
            Some(Fate::Fails(fault)) => Err(fault),
            Some(Fate::AnswerLost) => Ok(true),
            Some(Fate::Hangs) => std::future::pending().await,
        }
    }

    async fn through<T>(
        &self,
        what: What,
        place: &str,
        act: impl Future<Output = Result<T, Fault>> + Send,
    ) -> Result<T, Fault> {
        let is_lost = self.meet(what, place).await?;
        let answer = act.await?;
        if is_lost { Err(Fault::Unknown(format!("no answer to a {what:?} of {place}"))) } else { Ok(answer) }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?})", self.store)
    }
}

#[async_trait]
impl Store for Wire {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        let bucket = self.through(What::Open, name, self.store.bucket(name)).await?;
        Ok(Arc::new(WireBucket { wire: self.clone(), bucket }))
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        self.store.create_bucket(name, config).await
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        let queue = self.through(What::Open, name, self.store.queue(name)).await?;
        Ok(Arc::new(WireQueue { wire: self.clone(), queue }))
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        self.store.create_queue(name, config).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        self.store.keeps_what_it_acknowledged()
    }
}

#[derive(Debug)]
struct WireBucket {
    wire: Wire,
    bucket: Arc<dyn Bucket>,
}

#[async_trait]
impl Bucket for WireBucket {
    fn name(&self) -> &str {
        self.bucket.name()
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        self.wire.through(What::Get, self.name(), self.bucket.get(key)).await
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.wire.through(What::Create, self.name(), self.bucket.create(key, value)).await
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.wire.through(What::Update, self.name(), self.bucket.update(key, value, expected)).await
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        self.wire.through(What::Create, self.name(), self.bucket.create_over(key, value, marker)).await
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        self.wire.through(What::Delete, self.name(), self.bucket.delete(key, expected, meant_for)).await
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        self.wire.through(What::Keys, self.name(), self.bucket.keys(after, most)).await
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        self.wire.through(What::Info, self.name(), self.bucket.info()).await
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        self.bucket.last_revision().await
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        self.bucket.purge_below(revision).await
    }

    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault> {
        self.bucket.watch(key).await
    }
}

#[derive(Debug)]
struct WireQueue {
    wire: Wire,
    queue: Arc<dyn Queue>,
}

#[async_trait]
impl Queue for WireQueue {
    fn name(&self) -> &str {
        self.queue.name()
    }

    async fn put(&self, body: &[u8]) -> Result<u64, Fault> {
        self.queue.put(body).await
    }

    async fn oldest_waiting(&self) -> Result<Option<Ask>, Fault> {
        self.wire.through(What::Oldest, self.name(), self.queue.oldest_waiting()).await
    }

    async fn take(&self, within: Duration) -> Result<Option<Box<dyn Taken>>, Fault> {
        let taken = self.wire.through(What::Take, self.name(), self.queue.take(within)).await?;
        let (wire, queue) = (self.wire.clone(), self.name().to_owned());
        Ok(taken.map(|taken| Box::new(WireTaken { wire, queue, taken }) as Box<dyn Taken>))
    }

    async fn info(&self) -> Result<QueueInfo, Fault> {
        self.wire.through(What::Info, self.name(), self.queue.info()).await
    }
}

#[derive(Debug)]
struct WireTaken {
    wire: Wire,
    queue: String,
    taken: Box<dyn Taken>,
}

#[async_trait]
impl Taken for WireTaken {
    fn ask(&self) -> &Ask {
        self.taken.ask()
    }

    fn deliveries(&self) -> u64 {
        self.taken.deliveries()
    }

    async fn working(&self) -> Result<(), Fault> {
        self.wire.through(What::Working, &self.queue, self.taken.working()).await
    }

    async fn done(&self) -> Result<(), Fault> {
        self.wire.through(What::Done, &self.queue, self.taken.done()).await
    }

    async fn hand_back(&self, delay: Duration) -> Result<(), Fault> {
        self.wire.through(What::HandBack, &self.queue, self.taken.hand_back(delay)).await
    }
}
