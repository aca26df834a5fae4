//! The gate that every act passes, and its counterpart at the receiving side.

use crate::lease::{Certainty, Tenure};

/// Where a lease object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not taken.
    Candidate,
    /// Held.
    Held(Tenure),
    /// Being given back, or given back.
    Released,
    /// Lost.
    Lost,
}

/// The gate is open: acts go through at `epoch` while the steady clock is below `until_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// What each act carries.
    pub epoch: u64,
    /// The first steady instant at which acts are refused.
    pub until_ns: u64,
}

/// Why there is no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Not taken.
    NotHeld,
    /// A renewal was refused and the reason is being looked for.
    Doubted,
    /// The last renewal is too old.
    Overdue,
    /// Given back.
    Released,
    /// Lost.
    Lost,
}

/// Whether acts may pass at this steady instant, and until when without asking again.
///
/// # Errors
/// Why not.
pub fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
    match standing {
        Standing::Candidate => Err(Closed::NotHeld),
        Standing::Released => Err(Closed::Released),
        Standing::Lost => Err(Closed::Lost),
        Standing::Held(Tenure { certainty: Certainty::Doubted(_), .. }) => Err(Closed::Doubted),
        // At `until` itself it is shut.
        Standing::Held(tenure) if now_ns >= tenure.until_ns => Err(Closed::Overdue),
        Standing::Held(tenure) => Ok(Open { epoch: tenure.epoch, until_ns: tenure.until_ns }),
    }
}

/// Whether an act at `epoch` is admitted where `heard` is the highest heard so far, zero for none.
/// Answers the highest now.
///
/// # Errors
/// The epoch heard, above the act's. An act at epoch zero is never admitted: none was ever issued.
pub fn admit(heard: u64, epoch: u64) -> Result<u64, u64> {
    if epoch == 0 || epoch < heard { Err(heard) } else { Ok(epoch) }
}
