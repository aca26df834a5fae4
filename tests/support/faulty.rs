//! A store that loses, delays and forgets, in a small vocabulary of faults.
//!
//! Every instance reaches the one store by a [`Line`] of its own. What befalls a line (a lost answer, a
//! refusal, silence, a write held back) befalls one instance; what befalls the store (wiped, rolled back,
//! a key forgotten) befalls all. Every operation is on record, with what became of it in the store.

mod line;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use incumbent::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Write};

pub use line::{Fate, Line};

/// What is asked of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the bucket's methods")]
pub enum Kind {
    Get,
    Create,
    Update,
    Delete,
    Keys,
    Info,
    LastRevision,
    Purge,
    Watch,
}

impl Kind {
    /// The writes.
    pub const WRITES: [Self; 3] = [Self::Create, Self::Update, Self::Delete];
    /// Everything.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Keys,
        Self::Info,
        Self::LastRevision,
        Self::Purge,
        Self::Watch,
    ];
}

/// One operation as an instance sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The line it came by.
    pub who: String,
    /// What was asked.
    pub kind: Kind,
    /// Of which key; empty for the bucket as a whole.
    pub key: String,
    /// What was to be written.
    pub value: Option<Vec<u8>>,
    /// The revision that an update or a delete expects, that of the marker that a create was sent over, or that a purge
    /// goes below.
    pub expected: Option<u64>,
    /// The bucket that a delete is meant for.
    pub meant_for: Option<u64>,
    /// How often the bucket had been wiped when it was sent.
    pub wipes: usize,
    /// The revision that it won in the store, whatever was answered. For a purge: how many entries went.
    pub won: Option<u64>,
}

/// One bucket of a store, and everything that may befall it. Clones share it.
#[derive(Clone, Debug)]
pub struct Faulty {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    bucket: String,
    drop_bucket: DropBucket,
    state: Mutex<State>,
}

type DropBucket = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    /// The writes and purges that won, in order, since the bucket was raised.
    applied: Vec<Op>,
    /// The last write of each key, and whose it was.
    writer: HashMap<String, (u64, String)>,
    foreign: Vec<Op>,
    /// Keys whose deletion reads as if they had never been.
    forgotten: HashSet<String>,
    /// What to answer for the bucket's `created`.
    created: Option<u64>,
    ttl: Option<Duration>,
    no_markers: bool,
    wipes: usize,
}

impl Faulty {
    /// This bucket of this store, which `drop_bucket` makes nothing of.
    #[must_use]
    pub fn over(
        store: Arc<dyn Store>,
        bucket: &str,
        drop_bucket: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (bucket, drop_bucket) = (bucket.into(), Box::new(drop_bucket));
        Self { shared: Arc::new(Shared { store, bucket, drop_bucket, state: Mutex::default() }) }
    }

    /// A line to it.
    #[must_use]
    pub fn line(&self, who: &str) -> Line {
        Line::new(self.clone(), who)
    }

    /// The bucket without any fault, for a look at what is really there.
    ///
    /// # Errors
    /// The store's.
    pub async fn bare(&self) -> Result<Arc<dyn Bucket>, Fault> {
        self.shared.store.bucket(&self.shared.bucket).await
    }

    /// The bucket is dropped and raised again from nothing: another `created`, revisions from 1.
    ///
    /// # Errors
    /// The store's.
    pub async fn wipe(&self) -> Result<(), Fault> {
        self.raise_again().await?;
        let mut state = self.state();
        state.applied.clear();
        state.writer.clear();
        state.created = None;
        state.wipes += 1;
        Ok(())
    }

    /// The store forgets every write after `revision`, which it had acknowledged: it is the same bucket still,
    /// and gives the revisions above it once more.
    ///
    /// # Errors
    /// The store's.
    pub async fn roll_back(&self, revision: u64) -> Result<(), Fault> {
        let created = self.info().await?.created;
        self.raise_again().await?;
        let kept = {
            let mut state = self.state();
            state.created = Some(created);
            state.writer.clear();
            let mut applied = std::mem::take(&mut state.applied);
            applied.retain(|op| op.won.is_some_and(|won| won <= revision));
            applied
        };
        for op in kept {
            self.apply(&op).await?;
        }
        Ok(())
    }

    /// The store forgets a key, without a marker and without a word.
    ///
    /// # Errors
    /// The store's.
    pub async fn forget(&self, key: &str) -> Result<(), Fault> {
        if let Reading::Found(entry) = self.bare().await?.get(key).await? {
            self.bare().await?.delete(key, entry.revision, None).await?;
        }
        self.state().forgotten.insert(key.into());
        Ok(())
    }

    /// Keys that aged out leave no marker, as on older servers.
    pub fn drop_markers(&self) {
        self.state().no_markers = true;
    }

    /// The bucket says this ttl, whatever its own is.
    pub fn claim_ttl(&self, ttl: Duration) {
        self.state().ttl = Some(ttl);
    }

    /// Every operation so far, in the order sent.
    #[must_use]
    pub fn ops(&self) -> Vec<Op> {
        self.state().ops.clone()
    }

    /// The updates and deletes that won over a record that another line had written, and the purges that
    /// dropped one: there must be none.
    #[must_use]
    pub fn foreign(&self) -> Vec<Op> {
        self.state().foreign.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no panic while it is held")
    }

    async fn raise_again(&self) -> Result<(), Fault> {
        let Shared { store, bucket, drop_bucket, .. } = &*self.shared;
        let ttl = self.bare().await?.info().await?.ttl;
        drop_bucket(bucket);
        store.create_bucket(bucket, &BucketConfig { ttl, replicas: 1 }).await.map(drop)
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        let mut info = self.bare().await?.info().await?;
        let state = self.state();
        info.created = state.created.unwrap_or(info.created);
        info.ttl = state.ttl.unwrap_or(info.ttl);
        info.markers &= !state.no_markers;
        Ok(info)
    }

    /// A bucket, which may claim another's `created`, by its own.
    async fn by_its_own_name(&self, created: Option<u64>) -> Result<Option<u64>, Fault> {
        let own = self.bare().await?.info().await?.created;
        let claimed = self.info().await?.created;
        Ok(created.map(|created| if created == claimed { own } else { created }))
    }

    async fn read(&self, key: &str) -> Result<Reading, Fault> {
        let reading = self.bare().await?.get(key).await?;
        let state = self.state();
        Ok(match reading {
            Reading::Deleted(_) if state.forgotten.contains(key) => Reading::Absent,
            Reading::Aged(_) if state.no_markers => Reading::Absent,
            reading => reading,
        })
    }

    fn wipes(&self) -> usize {
        self.state().wipes
    }

    fn note(&self, op: &Op) -> usize {
        let mut state = self.state();
        state.ops.push(op.clone());
        state.ops.len() - 1
    }

    /// Do it in the store, and keep the books.
    async fn apply(&self, op: &Op) -> Result<Write, Fault> {
        let bucket = self.bare().await?;
        let (key, value) = (op.key.as_str(), op.value.as_deref().unwrap_or_default());
        let expected = op.expected.unwrap_or(0);
        let mut dropped = Vec::new();
        if op.kind == Kind::Purge {
            for key in bucket.keys(None, 1000).await? {
                let writer = self.state().writer.get(&key).cloned();
                dropped.extend(writer.filter(|(revision, _)| *revision < expected));
            }
        }
        let meant_for = self.by_its_own_name(op.meant_for).await?;
        // What a read would tell, which may know less than the store does.
        let told = if op.kind == Kind::Create { self.read(key).await? } else { Reading::Absent };
        let answer = match op.kind {
            Kind::Create if op.expected.is_some_and(|marker| marker != told.marker()) => {
                Ok(Write::Stale(None))
            }
            Kind::Create => bucket.create(key, value).await,
            Kind::Update => bucket.update(key, value, expected).await,
            Kind::Delete => bucket.delete(key, expected, meant_for).await,
            Kind::Purge => bucket.purge_below(expected).await.map(Write::Written),
            kind => unreachable!("{kind:?} is no write"),
        }?;
        if let Write::Written(won) = answer {
            let mut state = self.state();
            let touched = match op.kind {
                Kind::Update | Kind::Delete => state.writer.get(key).cloned().into_iter().collect(),
                _ => dropped,
            };
            let op = Op { won: Some(won), ..op.clone() };
            // What comes late into a bucket raised again may find its revision under another's record.
            if touched.iter().any(|(_, writer)| *writer != op.who) && op.wipes == state.wipes {
                state.foreign.push(op.clone());
            }
            if op.kind != Kind::Purge {
                state.writer.insert(key.into(), (won, op.who.clone()));
                state.forgotten.remove(key);
            }
            state.applied.push(op);
        }
        Ok(answer)
    }

    fn won(&self, index: usize, answer: &Result<Write, Fault>) {
        if let Ok(Write::Written(won)) = answer {
            self.state().ops[index].won = Some(*won);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("store", &self.store).finish_non_exhaustive()
    }
}
