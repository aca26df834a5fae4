//! What check holds can run into.

use super::authority::NotInOffice;
use crate::lie::Lie;
use crate::policy::PolicyError;
use crate::store::Fault;

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldsError {
    /// A bucket or a queue cannot be used.
    #[error(transparent)]
    Store(#[from] Fault),
    /// The policy failed. Nothing is let through by it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy said what cannot be so. Nothing is let through by it.
    #[error("the policy is not believed: {0}")]
    Lied(Lie),
    /// Only the lease's holder says that a plan builds.
    #[error("only the holder of the lease says what builds: {0}")]
    NotInOffice(NotInOffice),
    /// The settings do not fit; what and what would.
    #[error("{0}")]
    Misfit(String),
}
