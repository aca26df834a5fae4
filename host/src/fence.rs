//! The receiving side: a machine that heard epoch 57 refuses an act at 41.
//!
//! The gate is the best bound that a sender can have; what makes a stale act harmless is the receiver.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::clock::Clock;
use crate::floor::Floor;
use crate::imports::ClockOnly;
use crate::policy::{Policy, PolicyError};

/// The memory of the highest epoch heard.
#[derive(Debug)]
pub struct Fence {
    policy: Policy,
    memory: Arc<dyn Floor>,
    heard: Mutex<u64>,
}

/// Why an act is not admitted.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A later holder was heard from.
    #[error("an act at epoch {epoch} is refused: epoch {heard} was heard")]
    Stale {
        /// The act's epoch.
        epoch: u64,
        /// The highest epoch heard.
        heard: u64,
    },
    /// The policy failed, so nothing is admitted.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A new highest epoch cannot be kept, so the act is not admitted: after a restart an older one would be.
    #[error("the highest epoch heard cannot be kept: {0}")]
    Memory(std::io::Error),
}

impl Fence {
    /// A fence that goes on from what its memory has heard.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub async fn open(policy: &Policy, memory: Arc<dyn Floor>) -> std::io::Result<Self> {
        let heard = memory.highest().await?;
        Ok(Self { policy: policy.clone(), memory, heard: Mutex::new(heard) })
    }

    /// Admit an act at `epoch`, or refuse it. Acts are judged one after the other.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn admit(&self, epoch: u64) -> Result<(), Refused> {
        let mut heard = self.heard.lock().await;
        let answer = self.policy.admit(ClockOnly(Clock::machine()), *heard, epoch).await?;
        // The policy may be stricter, never laxer: the memory does not fall.
        if epoch == 0 || epoch < *heard || answer.is_err() {
            return Err(Refused::Stale { epoch, heard: *heard });
        }
        if epoch > *heard {
            self.memory.raise(epoch).await.map_err(Refused::Memory)?;
            *heard = epoch;
        }
        Ok(())
    }

    /// The highest epoch heard, zero for none.
    pub async fn heard(&self) -> u64 {
        *self.heard.lock().await
    }
}
