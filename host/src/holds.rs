//! Check holds: on one build seat deliveries have the right of way. While any delivery plan builds, checks
//! wait; a check that has waited half an hour is let through, one at a time.
//!
//! * The delivery's side, [`Plans`]: the lease's holder alone says that a plan builds, again and again, until
//!   it has built. What is said no more ages out.
//! * The builder's side, [`Builder`]: takes the next [`Job`] that may run, and keeps it while it runs.
//! * The reader's side, [`status`]: why checks wait.
//!
//! Every decision is the policy's. A bucket that cannot be read holds no check: it is said once, and again
//! when it recovered and failed anew.

mod authority;
mod builder;
mod error;
mod event;
mod imports;
mod job;
mod keeper;
mod places;
mod plans;
mod source;

use std::sync::Arc;

use crate::bindings::Report;
use crate::clock::Clock;
use crate::policy::Policy;
use crate::store::{Fault, Store};

pub use authority::{Authority, Claim, NotInOffice};
pub use builder::{Builder, BuilderOptions};
pub use error::HoldsError;
pub use event::Event;
pub use job::{Job, Kind, Lost};
pub use places::{Buckets, PLANS, RUNNING, TTL};
pub use plans::{Building, Plans};

/// The key of the one check let through, in the bucket of the checks that run.
pub const LET_THROUGH: &str = "let-through";

/// Why checks wait, for people who look: the plans that build, and the check let through.
///
/// # Errors
/// A bucket cannot be read.
pub async fn status(
    policy: &Policy,
    store: &Arc<dyn Store>,
    buckets: &Buckets,
    clock: &Clock,
) -> Result<Report, HoldsError> {
    let reader = imports::Reader::new(clock, &places::Places::new(store, buckets));
    Ok(policy.holds_status(reader).await?.map_err(Fault::from)?)
}
