//! Workers: background work of which each kind runs on exactly one instance, under a lease of its own.
//!
//! A worker stands for the lease of its name, works while it holds it, and stands again when it lost it. The
//! lease is given back only after the worker has ended, so that no two of them ever work at once.

mod event;
mod options;
mod stand;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lease::Line;
use crate::policy::Policy;
use crate::store::Store;

pub use event::Event;
pub use options::{LeaseOf, OnEvent, WorkersOptions};
pub use worker::{Duty, Worker};

use stand::Stand;

/// The ttl that a bucket for workers is made with unless there is a reason for another: renewed every 20 s, a worker
/// may be away for 40 s, and is succeeded within a minute.
pub const TTL: Duration = Duration::from_secs(60);

/// Those of one name that stand or work.
#[derive(Default)]
struct Namesakes {
    count: usize,
    /// Where they wait, one behind another: one lease, one look.
    line: Line,
}

/// The workers of one process. Clones are the same workers.
#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Policy,
    store: Arc<dyn Store>,
    bucket: String,
    options: WorkersOptions,
    stop: CancellationToken,
    /// Leases stood for so far, by which each has a time of its own to be renewed.
    stood: AtomicU64,
    /// Those that stand or work.
    alive: Mutex<BTreeMap<Arc<str>, Namesakes>>,
    /// How many that are.
    count: watch::Sender<usize>,
}

impl Workers {
    /// Workers whose leases are in this bucket.
    #[must_use]
    pub fn new(policy: &Policy, store: &Arc<dyn Store>, bucket: &str, options: WorkersOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                policy: policy.clone(),
                store: store.clone(),
                bucket: bucket.into(),
                options,
                stop: CancellationToken::new(),
                stood: AtomicU64::new(0),
                alive: Mutex::default(),
                count: watch::Sender::new(0),
            }),
        }
    }

    /// Have a worker stand for the lease of this name, in the background. It counts as alive from here on, so a
    /// [`wait`](Self::wait) that follows waits for it. Two of one name are two candidates, which stand in
    /// one [line](Line).
    ///
    /// Needs a Tokio runtime.
    pub fn spawn(&self, name: impl Into<String>, worker: impl Worker) {
        drop(tokio::spawn(self.run(name, worker)));
    }

    /// Stand for the lease of this name and work, until the work is finished or the workers are stopped.
    /// Whether it finished. Once called it counts as alive until the answer is there or dropped.
    ///
    /// Dropped, the worker is cut off where it is and its lease is left to expire.
    pub fn run(
        &self,
        name: impl Into<String>,
        worker: impl Worker,
    ) -> impl Future<Output = bool> + Send + 'static {
        let alive = self.shared.register(name.into().into());
        let stand = Stand::new(self.shared.clone(), alive.name.clone(), alive.line.clone(), Arc::new(worker));
        async move {
            let finished = stand.run().await;
            drop(alive);
            finished
        }
    }

    /// Tell all workers to stop, and those that come later.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Stop, and wait until all workers have ended and given their leases back, or for this long. The names of
    /// those that have not; their leases expire. One that was abandoned is not waited for: its gate is shut.
    pub async fn wait(&self, timeout: Duration) -> Vec<String> {
        self.stop();
        let mut count = self.shared.count.subscribe();
        // The sender lives as long as this.
        let _ = tokio::time::timeout(timeout, count.wait_for(|alive| *alive == 0)).await;
        self.shared.names()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers({}, {:?})", self.shared.bucket, self.shared.names())
    }
}

impl Shared {
    fn alive(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Namesakes>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of those alive, one for each.
    fn names(&self) -> Vec<String> {
        let alive = self.alive();
        alive.iter().flat_map(|(name, same)| std::iter::repeat_n(name.to_string(), same.count)).collect()
    }

    fn register(self: &Arc<Self>, name: Arc<str>) -> Alive {
        let line = {
            let mut alive = self.alive();
            let same = alive.entry(name.clone()).or_default();
            same.count += 1;
            same.line.clone()
        };
        self.count.send_modify(|count| *count += 1);
        Alive { shared: self.clone(), name, line }
    }

    /// The place of the next lease's renewals in the interval, in thousandths. Steps by the golden ratio fill
    /// it evenly, however many there come to be.
    fn next_place(&self) -> u16 {
        let step = self.stood.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        u16::try_from((step * 1000) >> 32).unwrap_or(1000)
    }

    fn tell(&self, name: &str, event: &Event) {
        (self.options.on_event)(name, event);
    }
}

/// One that stands or works.
struct Alive {
    shared: Arc<Shared>,
    name: Arc<str>,
    line: Line,
}

impl Drop for Alive {
    fn drop(&mut self) {
        {
            let mut alive = self.shared.alive();
            if let Some(same) = alive.get_mut(&self.name) {
                same.count -= 1;
                if same.count == 0 {
                    alive.remove(&self.name);
                }
            }
        }
        self.shared.count.send_modify(|count| *count -= 1);
    }
}
