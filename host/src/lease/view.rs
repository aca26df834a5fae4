//! Leases as their records tell them, for people who look.

use std::sync::Arc;

use crate::bindings::{HeldLease, Holder};
use crate::clock::Clock;
use crate::imports::Looking;
use crate::lease::LeaseError;
use crate::policy::Policy;
use crate::store::{Bucket, check_key};

/// Who holds a lease, for people who look.
///
/// # Errors
/// It cannot be read, or is no holder: never "nobody".
pub async fn current(
    policy: &Policy,
    bucket: &Arc<dyn Bucket>,
    clock: &Clock,
    lease: &str,
) -> Result<Option<Holder>, LeaseError> {
    check_key(lease).map_err(LeaseError::Store)?;
    let looking = Looking { clock: clock.clone(), bucket: bucket.clone() };
    Ok(policy.current(looking, lease).await??)
}

/// The leases of a bucket that have a record, in byte order of their names, those after `after`, `most` at
/// the most.
///
/// # Errors
/// The bucket cannot be read.
pub async fn list(
    policy: &Policy,
    bucket: &Arc<dyn Bucket>,
    clock: &Clock,
    after: Option<&str>,
    most: u32,
) -> Result<Vec<HeldLease>, LeaseError> {
    let looking = Looking { clock: clock.clone(), bucket: bucket.clone() };
    Ok(policy.list(looking, after, most).await??)
}
