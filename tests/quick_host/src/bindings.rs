//! The types of the contract: the policy's own, where the host has those that are generated.

use crate::store;

pub use incumbent_policy::gate::{Closed, Open, Standing};
pub use incumbent_policy::holds::{Admitted, Building, Kept, LetThrough, Report, Verdict};
pub use incumbent_policy::imports::Fault as PolicyFault;
pub use incumbent_policy::lease::{
    Attempt, Certainty, HeldLease, Holder, Identity, Loss, Release as ReleaseOutcome, Renewal, Request,
    Setback, Sighting, Tenure, Terms, Trouble, Vacancy, Waiting,
};

impl From<PolicyFault> for store::Fault {
    fn from(fault: PolicyFault) -> Self {
        match fault {
            PolicyFault::Denied(text) => Self::Denied(text),
            PolicyFault::MissingBucket(text) => Self::MissingBucket(text),
            PolicyFault::TooLarge(text) => Self::TooLarge(text),
            PolicyFault::Unavailable(text) => Self::Unavailable(text),
            PolicyFault::Unknown(text) => Self::Unknown(text),
        }
    }
}
