//! One instance's line to the store, and what befalls it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write};
use tokio::sync::{oneshot, watch};

use super::{Faulty, Kind, Op};

/// What becomes of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is applied, and the answer is lost.
    AnswerLost,
    /// It never arrives, and nobody knows. A watch ends at once.
    RequestLost,
    /// It is answered with this fault and surely not applied.
    Fails(Fault),
    /// It never arrives and is never answered. A watch begins and hears nothing.
    Hangs,
    /// It is held back on its way until [`Line::deliver`], whether or not anybody still waits for the answer.
    HeldBack,
    /// A read arrives after this long.
    Slow(Duration),
}

/// One instance's line. Clones share it.
#[derive(Clone, Debug)]
pub struct Line {
    faulty: Faulty,
    who: Arc<str>,
    state: Arc<Mutex<State>>,
    hits: Arc<watch::Sender<usize>>,
}

#[derive(Debug, Default)]
struct State {
    /// What befalls the so manieth operation of a kind from now.
    nth: Vec<(Kind, usize, Fate)>,
    always: HashMap<Kind, Fate>,
    held_back: VecDeque<HeldBack>,
    /// Whether everything takes a few turns of the runtime.
    dawdles: bool,
    /// What reads answer instead of what is there.
    frozen: HashMap<String, Reading>,
}

#[derive(Debug)]
struct HeldBack {
    op: Op,
    index: usize,
    answer: oneshot::Sender<Result<Write, Fault>>,
}

impl Line {
    pub(super) fn new(faulty: Faulty, who: &str) -> Self {
        Self { faulty, who: who.into(), state: Arc::default(), hits: Arc::new(watch::Sender::new(0)) }
    }

    /// This befalls the next operation of this kind.
    pub fn once(&self, kind: Kind, fate: Fate) {
        self.nth(kind, 1, fate);
    }

    /// This befalls the operation of this kind that comes `n`th from now.
    pub fn nth(&self, kind: Kind, n: usize, fate: Fate) {
        self.state().nth.push((kind, n, fate));
    }

    /// This befalls every operation of these kinds until the line is healed.
    pub fn always(&self, kinds: &[Kind], fate: &Fate) {
        self.state().always.extend(kinds.iter().map(|kind| (*kind, fate.clone())));
    }

    /// Nothing befalls this line any more, and reads tell what is there.
    pub fn heal(&self) {
        let mut state = self.state();
        state.nth.clear();
        state.always.clear();
        state.frozen.clear();
    }

    /// Everything takes a few turns of the runtime from now on, on its way and on the way back.
    pub fn dawdle(&self) {
        self.state().dawdles = true;
    }

    async fn turns(&self) {
        if self.state().dawdles {
            tokio::task::yield_now().await;
        }
    }

    /// Reads of this key answer from now on what one would answer now.
    ///
    /// # Errors
    /// The store's.
    pub async fn freeze(&self, key: &str) -> Result<(), Fault> {
        let reading = self.faulty.read(key).await?;
        self.state().frozen.insert(key.into(), reading);
        Ok(())
    }

    /// Wait until this many operations, counted from the beginning, have met their fate.
    pub async fn hits(&self, count: usize) {
        let mut hits = self.hits.subscribe();
        // The sender lives as long as this line.
        let _ = hits.wait_for(|hits| *hits >= count).await;
    }

    /// Let the write that was held back longest arrive; `None` when there is none.
    pub async fn deliver(&self) -> Option<Result<Write, Fault>> {
        let HeldBack { op, index, answer } = self.state().held_back.pop_front()?;
        let outcome = self.faulty.apply(&op).await;
        self.faulty.won(index, &outcome);
        // The one who asked may have given up.
        let _ = answer.send(outcome.clone());
        Some(outcome)
    }

    /// What came by this line, in the order sent.
    #[must_use]
    pub fn ops(&self) -> Vec<Op> {
        self.faulty.ops().into_iter().filter(|op| *op.who == *self.who).collect()
    }

    /// What came by this line of one kind.
    #[must_use]
    pub fn ops_of(&self, kind: Kind) -> Vec<Op> {
        self.ops().into_iter().filter(|op| op.kind == kind).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    fn fate(&self, kind: Kind) -> Option<Fate> {
        let mut state = self.state();
        for (_, n, _) in state.nth.iter_mut().filter(|(of, _, _)| *of == kind) {
            *n = n.saturating_sub(1);
        }
        match state.nth.iter().position(|(_, n, _)| *n == 0) {
            Some(at) => Some(state.nth.remove(at).2),
            None => state.always.get(&kind).cloned(),
        }
    }

    fn hit(&self) {
        self.hits.send_modify(|hits| *hits += 1);
    }

    fn op(&self, kind: Kind, key: &str, value: Option<&[u8]>, expected: Option<u64>) -> Op {
        let (who, key, value) = (self.who.to_string(), key.into(), value.map(<[u8]>::to_vec));
        Op { who, kind, key, value, expected, meant_for: None, wipes: self.faulty.wipes(), won: None }
    }

    /// `Ok` when nothing befalls this read.
    async fn reading(&self, kind: Kind, key: &str) -> Result<(), Fault> {
        self.faulty.note(&self.op(kind, key, None, None));
        self.turns().await;
        let Some(fate) = self.fate(kind) else { return Ok(()) };
        self.hit();
        match fate {
            Fate::Fails(fault) => Err(fault),
            Fate::Hangs => std::future::pending().await,
            // A read is never unknown: it changes nothing.
            Fate::AnswerLost | Fate::RequestLost => Err(Fault::Unavailable("no answer to a read".into())),
            Fate::HeldBack => unreachable!("a {kind:?} is not held back"),
            Fate::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    async fn write(&self, op: Op) -> Result<Write, Fault> {
        let index = self.faulty.note(&op);
        self.turns().await;
        let lost = || Err(Fault::Unknown(format!("no answer to a {:?}", op.kind)));
        match self.fate(op.kind) {
            None => {
                let answer = self.faulty.apply(&op).await;
                self.faulty.won(index, &answer);
                self.turns().await;
                answer
            }
            Some(Fate::AnswerLost) => {
                let answer = self.faulty.apply(&op).await;
                self.faulty.won(index, &answer);
                self.hit();
                lost()
            }
            Some(Fate::RequestLost) => {
                self.hit();
                lost()
            }
            Some(Fate::Fails(fault)) => {
                self.hit();
                Err(fault)
            }
            Some(Fate::Hangs) => {
                self.hit();
                std::future::pending().await
            }
            Some(Fate::HeldBack) => {
                let (answer, answered) = oneshot::channel();
                let lost = lost();
                self.state().held_back.push_back(HeldBack { op, index, answer });
                self.hit();
                answered.await.unwrap_or(lost)
            }
            Some(Fate::Slow(_)) => unreachable!("a write is held back"),
        }
    }
}

#[async_trait]
impl Store for Line {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        self.faulty.shared.store.bucket(name).await?;
        Ok(Arc::new(LineBucket { line: self.clone(), name: name.into() }))
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        self.faulty.shared.store.create_bucket(name, config).await?;
        self.bucket(name).await
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        self.faulty.shared.store.queue(name).await
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        self.faulty.shared.store.create_queue(name, config).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        self.faulty.shared.store.keeps_what_it_acknowledged()
    }
}

#[derive(Debug)]
struct LineBucket {
    line: Line,
    name: String,
}

#[async_trait]
impl Bucket for LineBucket {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        self.line.reading(Kind::Get, key).await?;
        let frozen = self.line.state().frozen.get(key).cloned();
        match frozen {
            Some(reading) => Ok(reading),
            None => self.line.faulty.read(key).await,
        }
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.line.write(self.line.op(Kind::Create, key, Some(value), None)).await
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        self.line.write(self.line.op(Kind::Create, key, Some(value), Some(marker))).await
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.line.write(self.line.op(Kind::Update, key, Some(value), Some(expected))).await
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        let op = self.line.op(Kind::Delete, key, None, Some(expected));
        self.line.write(Op { meant_for, ..op }).await
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        self.line.reading(Kind::Keys, "").await?;
        self.line.faulty.bare().await?.keys(after, most).await
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        self.line.reading(Kind::Info, "").await?;
        self.line.faulty.info().await
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        self.line.reading(Kind::LastRevision, "").await?;
        self.line.faulty.bare().await?.last_revision().await
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        match self.line.write(self.line.op(Kind::Purge, "", None, Some(revision))).await? {
            Write::Written(went) => Ok(went),
            Write::Stale(_) => unreachable!("a purge expects nothing"),
        }
    }

    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault> {
        self.line.faulty.note(&self.line.op(Kind::Watch, key, None, None));
        let Some(fate) = self.line.fate(Kind::Watch) else {
            return self.line.faulty.bare().await?.watch(key).await;
        };
        self.line.hit();
        match fate {
            Fate::Fails(fault) => Err(fault),
            Fate::Hangs => Ok(Box::new(Deaf)),
            Fate::AnswerLost | Fate::RequestLost | Fate::HeldBack | Fate::Slow(_) => Ok(Box::new(Ended)),
        }
    }
}

/// A watch that hears nothing.
struct Deaf;

#[async_trait]
impl Watch for Deaf {
    async fn changed(&mut self) -> bool {
        std::future::pending().await
    }
}

/// A watch that ended as it began.
struct Ended;

#[async_trait]
impl Watch for Ended {
    async fn changed(&mut self) -> bool {
        false
    }
}
