//! Who may say that plans build: the lease's holder alone.

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::lease::{Lease, current};
use crate::policy::Policy;
use crate::store::Bucket;

/// Why one is not in office.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInOffice {
    /// For good: another is, or nobody.
    #[error("{0}")]
    Over(String),
    /// It cannot be told now, or acts may not pass for now; it may turn out well.
    #[error("{0}")]
    Unsure(String),
}

/// Whether whoever acts is in office. Asked before every write.
#[async_trait]
pub trait Authority: Send + Sync {
    /// The epoch, while in office.
    ///
    /// # Errors
    /// Why not.
    async fn in_office(&self) -> Result<u64, NotInOffice>;
}

/// A lease held by this process: its gate.
#[async_trait]
impl Authority for Lease {
    async fn in_office(&self) -> Result<u64, NotInOffice> {
        self.epoch().map_err(|why| match self.ended() {
            Some(_) => NotInOffice::Over(why.to_string()),
            // Refused a renewal, or not taken yet.
            None => NotInOffice::Unsure(why.to_string()),
        })
    }
}

/// A lease held by another process, which runs this one as its command: what its record says now.
///
/// Weaker than a gate, since a record that was read may be an old one; the process that holds the lease ends
/// its command in time, and that is what bounds it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Reads the record.
    pub policy: Policy,
    /// Where the lease is.
    pub bucket: Arc<dyn Bucket>,
    /// The clock.
    pub clock: Clock,
    /// The lease.
    pub lease: String,
    /// The epoch that is claimed.
    pub epoch: u64,
}

#[async_trait]
impl Authority for Claim {
    async fn in_office(&self) -> Result<u64, NotInOffice> {
        let Self { lease, epoch, .. } = self;
        match current(&self.policy, &self.bucket, &self.clock, lease).await {
            Ok(Some(holder)) if holder.epoch == *epoch => Ok(*epoch),
            Ok(Some(holder)) => Err(NotInOffice::Over(format!(
                "{lease} is held at epoch {} by {}, not at epoch {epoch}",
                holder.epoch, holder.instance
            ))),
            Ok(None) => Err(NotInOffice::Over(format!("nobody holds {lease}"))),
            Err(why) => Err(NotInOffice::Unsure(format!("who holds {lease} cannot be read: {why}"))),
        }
    }
}
