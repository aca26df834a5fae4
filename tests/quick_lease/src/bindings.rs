//! The types of the contract: the policy's own, where the host has those that are generated.

use incumbent_policy::imports::{self, Fault};

use crate::store;

pub use incumbent_policy::gate::{Closed, Open, Standing};
pub use incumbent_policy::imports::Fault as PolicyFault;
pub use incumbent_policy::lease::{
    Attempt, Certainty, HeldLease, Holder, Identity, Loss, Release as ReleaseOutcome, Renewal, Request,
    Setback, Sighting, Tenure, Terms, Trouble, Vacancy, Waiting,
};

impl From<Fault> for store::Fault {
    fn from(fault: imports::Fault) -> Self {
        match fault {
            Fault::Denied(text) => Self::Denied(text),
            Fault::MissingBucket(text) => Self::MissingBucket(text),
            Fault::TooLarge(text) => Self::TooLarge(text),
            Fault::Unavailable(text) => Self::Unavailable(text),
            Fault::Unknown(text) => Self::Unknown(text),
        }
    }
}
