//! What a policy can say that cannot be so.

use std::time::Duration;

/// What a policy said that cannot be so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lie {
    /// A tenure at a revision that no write of this lease object won.
    #[error("it answered a tenure at revision {0}, which this lease object never wrote")]
    NotOurs(u64),
    /// An epoch that this lease object never held, or another one than before.
    #[error("it answered epoch {said}, where {known} is this lease object's")]
    OtherEpoch {
        /// What the policy said.
        said: u64,
        /// What is known; zero when it cannot have one.
        known: u64,
    },
    /// A gate open for longer than the write it rests on allows.
    #[error("it answered a gate open for {by:?} longer than its write allows")]
    TooLong {
        /// How much longer.
        by: Duration,
    },
    /// A gate open for one who holds nothing.
    #[error("it opened the gate of one who does not hold the lease")]
    Unheld,
    /// An epoch that may have been issued before.
    #[error("it answered epoch {said}, which is not above {floor}, the highest that was issued")]
    BelowFloor {
        /// What the policy said.
        said: u64,
        /// The highest issued.
        floor: u64,
    },
}
