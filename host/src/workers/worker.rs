//! What a worker is, and what it is given.

use std::future::Future;
use std::sync::Weak;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::lease::{Lease, NotHeld, Permit};

/// Work of which one instance does.
///
/// A closure that answers a future is one: `workers.spawn("cleanup", |duty: Duty| async move { … })`.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Work until it is finished, or `duty` is [over](Duty::over). Called again after an error, a panic, and
    /// whenever the lease was lost, whatever it answered then.
    ///
    /// # Errors
    /// What went wrong; said, and tried again.
    async fn work(&self, duty: Duty) -> anyhow::Result<()>;

    /// Whether it is well, asked before each renewal of its lease; must not block. A worker that is wedged
    /// steps down, so that another instance does its work.
    ///
    /// # Errors
    /// In what way it is not.
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }
}

#[async_trait]
impl<F, Fut> Worker for F
where
    F: Fn(Duty) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    async fn work(&self, duty: Duty) -> anyhow::Result<()> {
        self(duty).await
    }
}

/// A worker's time in office.
#[derive(Clone, Debug)]
pub struct Duty {
    /// Weak, so that a worker that does not end does not keep its lease. `None` without election.
    pub(super) lease: Option<Weak<Lease>>,
    pub(super) over: CancellationToken,
}

impl Duty {
    /// The gate: the epoch, the fence that each act carries; zero without election.
    ///
    /// # Errors
    /// Why acts may not pass.
    pub fn epoch(&self) -> Result<u64, NotHeld> {
        match &self.lease {
            Some(lease) => lease.upgrade().ok_or(NotHeld::Released)?.epoch(),
            None => Ok(0),
        }
    }

    /// Guard one act: the lease is not given back while it is under way. `None` without election.
    ///
    /// # Errors
    /// Why acts may not pass.
    pub fn permit(&self) -> Result<Option<Permit>, NotHeld> {
        match &self.lease {
            Some(lease) => lease.upgrade().ok_or(NotHeld::Released)?.permit().map(Some),
            None => Ok(None),
        }
    }

    /// Until the work must end: the lease was lost, or the workers are being stopped.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Whether the work must end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Fires when the work must end.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.over.clone()
    }
}
