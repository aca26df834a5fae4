//! The store of one machine: a SQLite file that many processes share.
//!
//! What it acknowledged was synced to the disk. Keys age by the steady clock, so a wall clock that steps
//! frees nothing; see [`ClockRun`] for what happens at a reboot. It needs a disk of this machine: SQLite's
//! write-ahead log does not work over a network. Processes in several time namespaces must not share one
//! file: each would stamp the other's keys anew, and those of a dead holder would never age.

mod age;
mod asks;
mod fault;
mod file;
mod layout;
mod queue;
mod session;
mod watching;

pub use age::ClockRun;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::timeout_at;

use self::fault::{Failed, Kind};
use self::file::File;
use self::queue::SqliteQueue;
use self::session::{Session, When};
use self::watching::Watching;
use super::queue::{Queue, QueueConfig, check_queue};
use super::{
    Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write, check_config, check_key,
    check_purge, check_value,
};
use crate::clock::Clock;

/// How much longer a call may take that opens the file or lays something out in it. A disk under load syncs
/// for seconds, and there is no gate yet that would have to shut.
const STARTING: Duration = Duration::from_secs(10);

/// A store in a SQLite file. Clones share one connection.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    clock: Clock,
    run: ClockRun,
    timeout: Duration,
    /// Held for the length of a call, by the blocking thread that does the work: a caller that goes away
    /// leaves the work to end by itself.
    file: Arc<Mutex<File>>,
    watching: Arc<Watching>,
}

impl Sqlite {
    /// The store in the file at `path`, made with its folders when it is not there. Keys age by `clock`.
    /// Every call ends within `timeout` (above zero, at most an hour); this one, and those that make a bucket
    /// or a queue, within 10 s more. Needs a Tokio runtime with its time enabled, as all calls do.
    ///
    /// # Errors
    /// [`Fault::Denied`] when the path is a folder, cannot be written, is no database or another
    /// application's or a newer version's; [`Fault::Unavailable`] when the file is locked or damaged.
    pub async fn open(path: &Path, clock: Clock, timeout: Duration) -> Result<Self, Fault> {
        Self::open_in(path, clock, ClockRun::of_this_machine()?, timeout).await
    }

    /// As [`open`](Self::open), with the clock's run named by the caller: a test reboots by it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_in(path: &Path, clock: Clock, run: ClockRun, timeout: Duration) -> Result<Self, Fault> {
        if timeout.is_zero() || timeout > Duration::from_secs(3600) {
            return Err(Fault::Denied(format!(
                "a time-out of {timeout:?} does not fit {}; give it more than zero and at most 1 h",
                path.display()
            )));
        }
        // The current folder may be another one when the file is opened anew.
        let path = std::path::absolute(path)
            .map_err(|error| Fault::Denied(format!("{path:?} is no path of a database: {error}")))?;
        let store = Self {
            shared: Arc::new(Shared {
                file: Arc::new(Mutex::new(File::at(path.clone()))),
                path,
                watching: Arc::new(Watching::new(clock.clone(), run.clone(), timeout)),
                clock,
                run,
                timeout,
            }),
        };
        store.call_within(store.starting(), Kind::Read, store.place(), |_| Ok(())).await?;
        Ok(store)
    }

    /// The time-out of what a program does before it stands for anything.
    fn starting(&self) -> Duration {
        self.shared.timeout + STARTING
    }

    /// As [`call_within`](Self::call_within) the store's own time-out.
    async fn call<T: Send + 'static>(
        &self,
        kind: Kind,
        about: String,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Fault> {
        self.call_within(self.shared.timeout, kind, about, work).await
    }

    /// Do `work` on a blocking thread, one call at a time, within this time-out. `about` names what it is about when it
    /// fails.
    async fn call_within<T: Send + 'static>(
        &self,
        timeout: Duration,
        kind: Kind,
        about: String,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Fault> {
        let start = Instant::now();
        // A quarter is left for the work itself, so that a lock in the way is told as busy, which is
        // certain, and not as no answer.
        let waits = start + timeout * 3 / 4;
        let Ok(mut file) = timeout_at(waits.into(), Arc::clone(&self.shared.file).lock_owned()).await else {
            return Err(Fault::Unavailable(format!("{about}: the calls before it take too long; try again")));
        };
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || {
            let connection = file.connection(waits);
            let done = connection.and_then(|(connection, _)| {
                work(&mut Session { connection, clock: &shared.clock, run: &shared.run })
            });
            if file.in_transaction() || matches!(done, Err(Failed::Commit(_))) {
                file.close();
            }
            if kind == Kind::Write {
                shared.watching.wrote();
            }
            done
        });
        match timeout_at((start + timeout).into(), work).await {
            Ok(Ok(done)) => done.map_err(|failed| failed.into_fault(kind, about)),
            Ok(Err(_)) | Err(_) => Err(kind.unanswered(about)),
        }
    }

    fn place(&self) -> String {
        self.shared.path.display().to_string()
    }

    fn handle(&self, name: &str) -> Arc<SqliteBucket> {
        Arc::new(SqliteBucket { store: self.clone(), name: name.into() })
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sqlite({})", self.place())
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        let bucket = self.handle(name);
        bucket.info().await?;
        Ok(bucket)
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        check_config(name, config)?;
        if config.replicas != 1 {
            return Err(Fault::Denied(format!(
                "the bucket {name} cannot have {} replicas: {} is one file; give it 1",
                config.replicas,
                self.place()
            )));
        }
        let bucket = self.handle(name);
        let (name, config) = (bucket.name.clone(), config.clone());
        self.call_within(self.starting(), Kind::Write, bucket.about(), move |session| {
            session.create_bucket(&name, &config)
        })
        .await?;
        Ok(bucket)
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        let queue = SqliteQueue::new(self, name);
        queue.info().await?;
        Ok(Arc::new(queue))
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        check_queue(name, config)?;
        if config.replicas != 1 {
            return Err(Fault::Denied(format!(
                "the queue {name} cannot have {} replicas: {} is one file; give it 1",
                config.replicas,
                self.place()
            )));
        }
        let queue = SqliteQueue::new(self, name);
        let (name, ack_wait) = (name.to_owned(), config.ack_wait);
        self.call_within(self.starting(), Kind::Write, queue.about(), move |session| {
            session.create_queue(&name, ack_wait)
        })
        .await?;
        Ok(Arc::new(queue))
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug)]
struct SqliteBucket {
    store: Sqlite,
    name: String,
}

impl SqliteBucket {
    fn about(&self) -> String {
        format!("the bucket {:?} in {}", self.name, self.store.place())
    }

    fn about_key(&self, key: &str) -> String {
        format!("{key:?} in {}", self.about())
    }

    async fn write(&self, key: &str, value: Option<&[u8]>, when: When) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value.unwrap_or_default())?;
        let about = self.about_key(key);
        let (name, key, value) = (self.name.clone(), key.to_owned(), value.map(<[u8]>::to_vec));
        let work = move |session: &mut Session<'_>| session.write(&name, &key, value.as_deref(), when);
        self.store.call(Kind::Write, about, work).await
    }

    async fn info_and_last(&self) -> Result<(BucketInfo, u64), Fault> {
        let name = self.name.clone();
        self.store.call(Kind::Read, self.about(), move |session| session.info(&name)).await
    }
}

#[async_trait]
impl Bucket for SqliteBucket {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        check_key(key)?;
        let about = self.about_key(key);
        let (name, key) = (self.name.clone(), key.to_owned());
        self.store.call(Kind::Read, about, move |session| session.get(&name, &key)).await
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.write(key, Some(value), When::NoValue).await
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        self.write(key, Some(value), When::Marker(marker)).await
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.write(key, Some(value), When::ValueAt(expected, None)).await
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        self.write(key, None, When::ValueAt(expected, meant_for)).await
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        let (name, after) = (self.name.clone(), after.map(str::to_owned));
        let work = move |session: &mut Session<'_>| session.keys(&name, after.as_deref(), most);
        self.store.call(Kind::Read, self.about(), work).await
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        Ok(self.info_and_last().await?.0)
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        Ok(self.info_and_last().await?.1)
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        check_purge(&self.name, revision)?;
        let name = self.name.clone();
        let work = move |session: &mut Session<'_>| session.purge_below(&name, revision);
        self.store.call(Kind::Write, self.about(), work).await
    }

    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault> {
        check_key(key)?;
        let (name, owned) = (self.name.clone(), key.to_owned());
        let work = move |session: &mut Session<'_>| session.mark(&name, &owned);
        let mark = self.store.call(Kind::Read, self.about_key(key), work).await?;
        self.store.shared.watching.watch(&self.name, key, mark, || File::at(self.store.shared.path.clone()))
    }
}
