//! One thread that looks for changes on behalf of all watchers, and runs only while there are any.
//!
//! SQLite tells nobody of a change. It has a counter, `data_version`, that moves when another connection
//! committed: reading it costs microseconds, and the watched keys are read when it moved.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;

use super::age::ClockRun;
use super::fault::Failed;
use super::file::File;
use super::session::{LOOK, Mark, look_by};
use crate::clock::Clock;
use crate::store::{Fault, Watch};

/// Who watches what in one store.
#[derive(Debug)]
pub(super) struct Watching {
    clock: Clock,
    run: ClockRun,
    timeout: Duration,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// By bucket and key, `None` when there is no such bucket. One that nobody listens to is dropped at the next look.
    marks: HashMap<Name, watch::Sender<Option<Mark>>>,
    /// Somebody began to watch since the last look.
    more: bool,
    thread: Option<Thread>,
}

type Name = (String, String);

impl Watching {
    pub(super) fn new(clock: Clock, run: ClockRun, timeout: Duration) -> Self {
        Self { clock, run, timeout, watched: Mutex::default() }
    }

    /// Watch a key that was last seen at `mark`. `file` gives the thread, when it is not running, a
    /// connection of its own: on the one that commits, `data_version` stands still.
    pub(super) fn watch(
        self: &Arc<Self>,
        bucket: &str,
        key: &str,
        mark: Mark,
        file: impl FnOnce() -> File,
    ) -> Result<Box<dyn Watch>, Fault> {
        let mut watched = self.lock();
        if watched.thread.is_none() {
            let (me, file) = (Arc::clone(self), file());
            let started = std::thread::Builder::new().name("sqlite-watch".into()).spawn(move || me.run(file));
            let thread = started.map_err(|error| {
                Fault::Unavailable(format!("no thread to watch {key:?} with ({error}); poll it"))
            })?;
            watched.thread = Some(thread.thread().clone());
        }
        watched.more = true;
        let name = (bucket.into(), key.into());
        let changes = watched.marks.entry(name).or_insert_with(|| watch::Sender::new(Some(mark))).subscribe();
        Ok(Box::new(SqliteWatch { changes }))
    }

    /// Look soon: this process wrote.
    pub(super) fn wrote(&self) {
        if let Some(thread) = &self.lock().thread {
            thread.unpark();
        }
    }

    /// The thread.
    fn run(&self, mut file: File) {
        let mut version = None;
        let mut answered = Instant::now();
        loop {
            std::thread::park_timeout(LOOK_EVERY);
            let mut watched = self.lock();
            watched.marks.retain(|_, mark| mark.receiver_count() > 0);
            // Under the lock, so that nobody counts on a thread that is about to end.
            if watched.marks.is_empty() {
                *watched = Watched::default();
                return;
            }
            let more = std::mem::take(&mut watched.more);
            drop(watched);
            match self.look(&mut file, &mut version, more) {
                Ok(()) => answered = Instant::now(),
                Err(failed) => {
                    tracing::debug!(fault = %file.tell(failed), "a look for changes failed");
                    let mut watched = self.lock();
                    if answered.elapsed() > self.timeout {
                        // The file stays out of reach: every watcher hears that its watch ended.
                        *watched = Watched::default();
                        return;
                    }
                    watched.more = true;
                }
            }
        }
    }

    /// Read what may have changed, and wake those for whom it did.
    fn look(&self, file: &mut File, version: &mut Option<(u64, i64)>, more: bool) -> Result<(), Failed> {
        let (connection, opened) = file.connection(Instant::now() + self.timeout)?;
        // Before the keys: a commit between the two is seen again at the next look.
        let counter = connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        let moved = *version != Some((opened, counter));
        let now = self.clock.now();
        let aged = |mark: &Mark| mark.until.is_some_and(|until| until <= now);
        let names: Vec<Name> = {
            let watched = self.lock();
            let due = |mark: &watch::Sender<Option<Mark>>| {
                moved || more || mark.borrow().as_ref().is_some_and(aged)
            };
            watched.marks.iter().filter(|(_, mark)| due(mark)).map(|(name, _)| name.clone()).collect()
        };
        if names.is_empty() {
            *version = Some((opened, counter));
            return Ok(());
        }
        let transaction = connection.transaction()?;
        let mut statement = transaction.prepare(LOOK)?;
        for name in &names {
            let seen =
                look_by(&mut statement, &name.0, &name.1, &self.run)?.map(|seen| seen.mark(self.clock.now()));
            if let Some(mark) = self.lock().marks.get(name) {
                mark.send_if_modified(|mark| std::mem::replace(mark, seen) != seen);
            }
        }
        drop(statement);
        transaction.commit()?;
        *version = Some((opened, counter));
        // However much this process writes, most of the time goes to it and not to looking.
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        // Each change under it is whole, so what a panic left is too.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SqliteWatch {
    changes: watch::Receiver<Option<Mark>>,
}

#[async_trait]
impl Watch for SqliteWatch {
    async fn changed(&mut self) -> bool {
        self.changes.changed().await.is_ok()
    }
}

/// How often to look for what other processes changed and for what aged out.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// The least time between two readings of the watched keys.
const PAUSE: Duration = Duration::from_millis(5);
