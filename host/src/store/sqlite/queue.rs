//! Work queues in the file, for the [contract](crate::store::queue).
//!
//! SQLite tells nobody of a change, so a taker looks again and again; between two looks it holds nothing.

use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Sqlite;
use super::asks::Taking;
use super::fault::{Failed, Kind};
use super::session::Session;
use crate::store::Fault;
use crate::store::queue::{Ask, OnItsWay, Queue, QueueInfo, Take, Taken, check_ask};

#[derive(Clone, Debug)]
pub(super) struct SqliteQueue {
    store: Sqlite,
    name: String,
}

impl SqliteQueue {
    pub(super) fn new(store: &Sqlite, name: &str) -> Self {
        Self { store: store.clone(), name: name.into() }
    }

    pub(super) fn about(&self) -> String {
        format!("the queue {:?} in {}", self.name, self.store.place())
    }

    /// Do `work` with this queue's name.
    async fn call<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnOnce(&mut Session<'_>, &str) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Fault> {
        let name = self.name.clone();
        self.store.call(kind, self.about(), move |session| work(session, &name)).await
    }

    /// Look for an ask once, and take it.
    async fn look(&self) -> Take {
        if !self.call(Kind::Read, |session, name| session.is_worth_a_take(name)).await? {
            return Ok(None);
        }
        let (queue, runtime) = (self.clone(), Handle::current());
        let take = move |session: &mut Session<'_>, name: &str| {
            let taken = session.take(name)?;
            let taken =
                taken.map(|(ask, taking)| Box::new(SqliteTaken { queue, ask, taking }) as Box<dyn Taken>);
            // The work goes on when its caller was dropped, or gave up waiting.
            Ok(OnItsWay::new(taken, runtime))
        };
        Ok(self.call(Kind::Write, take).await?.arrived())
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    fn name(&self) -> &str {
        &self.name
    }

    async fn put(&self, body: &[u8]) -> Result<u64, Fault> {
        check_ask(&self.name, body)?;
        let body = body.to_vec();
        self.call(Kind::Write, move |session, name| session.put(name, &body)).await
    }

    async fn oldest_waiting(&self) -> Result<Option<Ask>, Fault> {
        self.call(Kind::Read, |session, name| session.oldest_waiting(name)).await
    }

    async fn take(&self, within: Duration) -> Take {
        let start = Instant::now();
        loop {
            if let Some(taken) = self.look().await? {
                return Ok(Some(taken));
            }
            let left = within.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
        }
    }

    async fn info(&self) -> Result<QueueInfo, Fault> {
        self.call(Kind::Read, |session, name| session.queue_info(name)).await
    }
}

#[derive(Debug)]
struct SqliteTaken {
    queue: SqliteQueue,
    ask: Ask,
    taking: Taking,
}

impl SqliteTaken {
    /// Change the ask, while it is this taker's.
    async fn own(
        &self,
        change: impl FnOnce(&mut Session<'_>) -> Result<bool, Failed> + Send + 'static,
    ) -> Result<(), Fault> {
        let (sequence, queue) = (self.ask.sequence, &self.queue);
        let about = format!("the ask {sequence} of {}", queue.about());
        if queue.store.call(Kind::Write, about, change).await? {
            return Ok(());
        }
        Err(Fault::Denied(format!("the ask {sequence} of the queue {} is this taker's no more", queue.name)))
    }
}

#[async_trait]
impl Taken for SqliteTaken {
    fn ask(&self) -> &Ask {
        &self.ask
    }

    fn deliveries(&self) -> u64 {
        self.taking.deliveries
    }

    async fn working(&self) -> Result<(), Fault> {
        let taking = self.taking;
        self.own(move |session| session.working(taking)).await
    }

    async fn done(&self) -> Result<(), Fault> {
        let taking = self.taking;
        self.own(move |session| session.done(taking)).await
    }

    async fn hand_back(&self, delay: Duration) -> Result<(), Fault> {
        let taking = self.taking;
        self.own(move |session| session.hand_back(taking, delay)).await
    }
}

/// How often a taker that waits looks: a look costs some microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
