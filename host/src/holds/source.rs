//! A queue that asks are taken from, and an ask that was taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::HoldsError;
use super::keeper::validity;
use crate::clock::{Clock, Steady};
use crate::store::queue::{Queue, Taken};
use crate::store::{Fault, Store};

/// The shortest ack wait that a builder can keep an ask under on a busy machine.
const ACK_WAIT_SHORTEST: Duration = Duration::from_secs(1);

/// A queue, and how long what is taken from it stays the taker's.
pub(super) struct Source {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) ack_wait: Duration,
}

/// An ask that was taken, and since when it surely is the taker's.
pub(super) struct Fetched {
    pub(super) source: Arc<Source>,
    pub(super) taken: Arc<dyn Taken>,
    from: Steady,
}

impl Source {
    pub(super) async fn open(store: &Arc<dyn Store>, name: &str) -> Result<Arc<Self>, HoldsError> {
        let queue = store.queue(name).await?;
        let ack_wait = queue.info().await?.ack_wait;
        if ack_wait < ACK_WAIT_SHORTEST {
            return Err(HoldsError::Misfit(format!(
                "the queue {name} gives an ask again after {ack_wait:?}, which is too soon for a builder to keep \
                 it; give it an ack wait of at least {ACK_WAIT_SHORTEST:?}"
            )));
        }
        Ok(Arc::new(Self { queue, ack_wait }))
    }

    pub(super) fn name(&self) -> &str {
        self.queue.name()
    }

    /// Take one, waiting for it at most this long.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        clock: &Clock,
        within: Duration,
    ) -> Result<Option<Fetched>, Fault> {
        // Before the asking: it is the taker's from then, or later.
        let from = clock.now();
        let taken = self.queue.take(within).await?;
        Ok(taken.map(|taken| Fetched { source: self.clone(), taken: Arc::from(taken), from }))
    }
}

impl Fetched {
    /// Until when it surely is the taker's.
    pub(super) fn until(&self) -> Steady {
        self.from.plus(validity(self.source.ack_wait))
    }

    /// Hand it back. One that may be the next taker's by now is left alone.
    pub(super) async fn hand_back(&self, clock: &Clock, delay: Duration) -> Result<(), Fault> {
        if clock.now() < self.until() { self.taken.hand_back(delay).await } else { Ok(()) }
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetched({} of {})", self.taken.ask().sequence, self.source.name())
    }
}
