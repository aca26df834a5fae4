//! What goes wrong with a lease, in types.

use std::time::Duration;

use crate::bindings::{Holder, Loss, PolicyFault, Trouble};
use crate::lease::event::{Ended, loss};
use crate::lie::Lie;
use crate::policy::{Misdeed, PolicyError};
use crate::store::Fault;

/// Why a lease was not taken, or could not be looked at.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// The store refused before the lease came into it: a name, a missing bucket, a server out of reach.
    #[error("{0}")]
    Store(Fault),
    /// The timings do not fit each other or the bucket. Remedy: the numbers are in the text.
    #[error("{0}")]
    Misfit(String),
    /// Somebody else holds it.
    #[error("{} holds the lease at epoch {}", .0.instance.escape_debug(), .0.epoch)]
    Taken(Box<Holder>),
    /// Nobody's record is there, but an earlier holder's gate may still be open.
    #[error("the lease is not surely free yet")]
    NotYetFree,
    /// Who holds it cannot be read.
    #[error("who holds the lease cannot be read: {0}")]
    Unreadable(Fault),
    /// What is there is no holder, which is not the same as nobody. Remedy: find out who wrote it.
    #[error("{0}")]
    NotAHolder(String),
    /// The store definitely refused the write and nobody holds the lease: the one case in which a caller may
    /// serve without it.
    #[error("nobody holds the lease, and the store does not let this instance write it: {0}")]
    Unwritable(Fault),
    /// A write was refused for a passing reason or got no answer.
    #[error("{0}")]
    Unsure(Fault),
    /// A try took longer than the record would have been good for.
    #[error("it took longer than a record is good for")]
    TooSlow,
    /// The highest epoch issued cannot be read, so none can be issued that is surely higher.
    #[error("the highest epoch issued cannot be read: {0}")]
    FloorUnreadable(String),
    /// The new epoch cannot be kept, so it must not be used.
    #[error("the epoch cannot be kept on record, so the lease was not taken: {0}")]
    FloorUnwritable(String),
    /// There is no room above the highest epoch issued.
    #[error("the highest epoch issued is {0}; above 9007199254740992 there is none")]
    FloorTooHigh(u64),
    /// The bucket was raised again and has other live keys. Remedy: one lease a bucket, or wait for them.
    #[error(
        "the bucket was raised again from nothing, and moving its revisions past the highest epoch issued would \
         drop other live keys: {}; give each lease a bucket of its own, or try again when they are gone",
        .0.join(", ")
    )]
    FloorBlocked(Vec<String>),
    /// The bucket was raised again and its revisions could not be moved.
    #[error("the bucket's revisions could not be moved past the highest epoch issued: {0}")]
    FloorUnmoved(Fault),
    /// The policy failed.
    #[error(transparent)]
    Policy(PolicyError),
    /// The policy said what cannot be so.
    #[error("the policy is not believed: {0}")]
    Lied(#[from] Lie),
    /// The record is this instance's, and the policy does not open the gate.
    #[error("the policy keeps the gate shut: {0}")]
    NotOpened(String),
    /// It was taken, and its gate is shut now.
    #[error(transparent)]
    Shut(#[from] NotHeld),
    /// This lease object had its tenure. Remedy: a new one.
    #[error("this lease object is finished: {0}")]
    Over(Ended),
    /// The machine has no randomness to make a nonce of.
    #[error("no randomness: {0}")]
    Nonce(String),
}

impl LeaseError {
    /// Whether trying again may end otherwise without anybody doing anything.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Taken(_) | Self::NotYetFree | Self::Unsure(_) | Self::TooSlow => true,
            // Another instance may have raised the floor after the policy looked.
            Self::Lied(Lie::BelowFloor { .. }) => true,
            Self::Unreadable(fault) | Self::FloorUnmoved(fault) | Self::Store(fault) => {
                matches!(fault, Fault::Unavailable(_) | Fault::Unknown(_))
            }
            _ => false,
        }
    }

    /// Whether the bucket is missing, which somebody has to make.
    #[must_use]
    pub fn is_missing_bucket(&self) -> bool {
        match self {
            Self::Unreadable(fault)
            | Self::Unwritable(fault)
            | Self::Unsure(fault)
            | Self::FloorUnmoved(fault)
            | Self::Store(fault) => matches!(fault, Fault::MissingBucket(_)),
            _ => false,
        }
    }
}

impl From<PolicyError> for LeaseError {
    fn from(why: PolicyError) -> Self {
        match why.what {
            Misdeed::Lied(lie) => Self::Lied(lie),
            _ => Self::Policy(why),
        }
    }
}

impl From<Trouble> for LeaseError {
    fn from(trouble: Trouble) -> Self {
        let plain = |fault: PolicyFault| Fault::from(fault);
        match trouble {
            Trouble::Misfit(text) => Self::Misfit(text),
            Trouble::Unreadable(fault) => Self::Unreadable(plain(fault)),
            Trouble::NotAHolder(text) => Self::NotAHolder(text),
            Trouble::Unwritable(fault) => Self::Unwritable(plain(fault)),
            Trouble::Unsure(fault) => Self::Unsure(plain(fault)),
            Trouble::FloorUnreadable(fault) => Self::FloorUnreadable(plain(fault).to_string()),
            Trouble::FloorTooHigh(floor) => Self::FloorTooHigh(floor),
            Trouble::FloorBlocked(keys) => Self::FloorBlocked(keys),
            Trouble::FloorUnmoved(fault) => Self::FloorUnmoved(plain(fault)),
        }
    }
}

/// Why an act may not pass the gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// The lease was not taken yet.
    #[error("this instance has not taken the lease")]
    NotTaken,
    /// The last renewal is too old: another instance may be about to take over.
    #[error("the last renewal is overdue by {by:?}")]
    Overdue {
        /// For how long the gate has been shut.
        by: Duration,
    },
    /// A renewal was refused, and the reason is being looked for.
    #[error("a renewal was refused, and whether the lease is still held is not known")]
    Doubted,
    /// An operator asked to give way.
    #[error("this instance was asked to give way")]
    Asked,
    /// It was given back.
    #[error("the lease was given back")]
    Released,
    /// It was lost.
    #[error("the lease was lost: {}", loss(.0))]
    Lost(Box<Loss>),
}
