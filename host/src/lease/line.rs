//! Where the candidates of one process stand, one behind another.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

/// A line of candidates for one lease. Clones are the same line.
///
/// Of the candidates that share a line only the first looks at the store: a release wakes one of them, not all.
/// Nothing but the turn is shared, so different leases that share a line by mistake wait for one another, and
/// are as safe as ever. Whoever has the turn keeps it until it has taken the lease or stopped: a take that is
/// neither polled nor dropped holds up those behind it.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<Mutex<()>>);

impl Line {
    /// The turn, once those ahead have taken the lease or stopped. `behind` is told when there are any. Whoever
    /// drops it while it waits has left the line.
    pub(super) async fn turn(&self, behind: impl FnOnce()) -> MutexGuard<'_, ()> {
        if let Ok(turn) = self.0.try_lock() {
            return turn;
        }
        behind();
        self.0.lock().await
    }
}
