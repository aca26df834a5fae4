//! One act under way.

use std::sync::Arc;

use crate::clock::Steady;
use crate::lease::{NotHeld, Shared};

/// One act under way: while it lives, the lease is not given back. It does not keep the gate open; a long act
/// asks [`epoch`](Self::epoch) again before each of its effects.
#[must_use = "the act is under way while the permit lives"]
pub struct Permit {
    shared: Arc<Shared>,
}

impl Permit {
    pub(super) fn enter(shared: &Arc<Shared>) -> Result<Self, NotHeld> {
        match shared.gate.enter(|| shared.clock.now().0) {
            Some(_) => Ok(Self { shared: shared.clone() }),
            None => {
                shared.quiet.notify_waiters();
                Err(shared.why_closed())
            }
        }
    }

    /// The gate, asked again.
    ///
    /// # Errors
    /// Why acts may not pass any more.
    pub fn epoch(&self) -> Result<u64, NotHeld> {
        self.shared.gate.pass(|| self.shared.clock.now().0).ok_or_else(|| self.shared.why_closed())
    }

    /// The instant at which the gate shuts unless renewed.
    #[must_use]
    pub fn until(&self) -> Option<Steady> {
        self.shared.gate.until().map(Steady)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.shared.gate.leave() {
            self.shared.quiet.notify_waiters();
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.shared.who.lease)
    }
}
