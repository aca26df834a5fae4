//! What happens to a lease, each in one plain line.

use std::fmt;

use crate::bindings::{Holder, Loss};
use crate::clock::Steady;

/// Something that happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Waiting behind another candidate of its [`Line`](crate::lease::Line), without a look at the store.
    InLine,
    /// Waiting for this holder, or for a lease to be surely free.
    Waiting {
        /// Who holds it, when anybody does.
        holder: Option<Holder>,
    },
    /// Something is in the way that may pass; said once until it has passed.
    Retrying {
        /// What it is.
        why: String,
    },
    /// The bucket was found below the highest epoch issued: it was raised again from nothing.
    Moved {
        /// The revision it was at.
        was: u64,
        /// The highest epoch issued.
        floor: u64,
    },
    /// Taken.
    Taken {
        /// At this epoch.
        epoch: u64,
        /// Unless renewed, the gate shuts then.
        until: Steady,
    },
    /// Renewed.
    Renewed {
        /// Unless renewed again, the gate shuts then.
        until: Steady,
    },
    /// A renewal failed; tried again until `until`.
    RenewalFailed {
        /// What happened.
        why: String,
        /// When the gate shuts.
        until: Steady,
    },
    /// A renewal was refused: the gate is shut while one looks why.
    Refused {
        /// What happened.
        why: String,
    },
    /// Another version of the policy keeps the gate shut.
    Shut {
        /// What it says.
        why: String,
    },
    /// An operator asks to give way: the gate is shut, and the lease is not renewed any more.
    Asked {
        /// Who that is.
        by: String,
        /// When it is lost, unless given back before.
        until: Steady,
    },
    /// Over, and not by this instance's will.
    Lost {
        /// The epoch it was held at.
        epoch: u64,
        /// Why.
        loss: Loss,
    },
    /// Over by this instance's will.
    Released {
        /// The epoch it was held at.
        epoch: u64,
        /// How that went.
        outcome: Released,
    },
}

/// How giving a lease back went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The record is deleted: the next candidate may take it at once.
    GivenBack,
    /// It was no longer this instance's; nothing was touched.
    NotOurs,
    /// It is left to expire.
    Left(String),
    /// There was nothing to give back.
    NeverHeld,
}

/// How a lease object ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Lost.
    Lost(Loss),
    /// Given back, or at least let go.
    GivenBack,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InLine => write!(f, "waiting behind another candidate of this process"),
            Self::Waiting { holder: Some(holder) } => {
                write!(
                    f,
                    "waiting for {} (epoch {}, taken {})",
                    holder.instance.escape_debug(),
                    holder.epoch,
                    holder.taken.escape_debug()
                )
            }
            Self::Waiting { holder: None } => write!(f, "waiting until the lease is surely free"),
            Self::Retrying { why } => write!(f, "trying again: {why}"),
            Self::Moved { was, floor } => write!(
                f,
                "the bucket was at revision {was} though epoch {floor} had been issued; moved past it, so that \
                 no epoch is issued twice"
            ),
            Self::Taken { epoch, .. } => write!(f, "taken at epoch {epoch}"),
            Self::Renewed { .. } => write!(f, "renewed"),
            Self::RenewalFailed { why, .. } => write!(f, "renewal failed, trying again: {why}"),
            Self::Refused { why } => write!(f, "gate shut, looking why: {why}"),
            Self::Shut { why } => write!(f, "gate shut: {why}"),
            Self::Asked { by, .. } => write!(f, "asked to give way by {by}: gate shut"),
            Self::Lost { epoch, loss: why } => write!(f, "lost (epoch {epoch}): {}", loss(why)),
            Self::Released { epoch, outcome } => match outcome {
                Released::GivenBack => write!(f, "given back (epoch {epoch})"),
                Released::NotOurs => {
                    write!(f, "not given back (epoch {epoch}): it was no longer this instance's")
                }
                Released::Left(why) => write!(f, "left to expire (epoch {epoch}): {why}"),
                Released::NeverHeld => write!(f, "nothing to give back"),
            },
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) => write!(f, "lost: {}", loss(why)),
            Self::GivenBack => write!(f, "given back"),
        }
    }
}

/// A loss in words.
pub(super) fn loss(loss: &Loss) -> String {
    match loss {
        Loss::Overdue => "no renewal was acknowledged in time".into(),
        Loss::Superseded(holder) => {
            format!("{} holds it at epoch {}", holder.instance.escape_debug(), holder.epoch)
        }
        Loss::Overwritten(what) => what.clone(),
        Loss::Gone => "its record is gone".into(),
        Loss::RaisedAgain => "the bucket was raised again from nothing".into(),
    }
}
