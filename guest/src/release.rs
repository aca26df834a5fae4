//! Giving a lease back, so that the next candidate takes it at once.

use crate::imports::{Fault, Imports, Reading, Role, Write};
use crate::lease::{Identity, Release, Tenure};
use crate::record;

/// How often a deletion is tried: once, once more for a renewal that was in flight and landed first, and
/// once for an answer that was lost.
const TRIES: u32 = 3;

/// Give it back. Only a record known by revision to be one's own is deleted.
pub fn release(io: &mut impl Imports, who: &Identity, tenure: &Tenure) -> Release {
    let mut revision = tenure.revision;
    let mut left = Fault::Unavailable("the record kept moving".into());
    for _ in 0..TRIES {
        // Nor in a bucket raised again, where its revision may be another's once its time is over.
        if io.now().steady_ns >= tenure.until_ns {
            return Release::Left(Fault::Unavailable(
                "its time is over; the record expires by itself".into(),
            ));
        }
        match io.delete(Role::Lease, &who.lease, revision) {
            Ok(Write::Written(_)) => return Release::GivenBack,
            Ok(Write::Stale(_)) => {}
            Err(fault @ Fault::Unknown(_)) => left = fault,
            Err(fault) => return Release::Left(fault),
        }
        // Refused, or the answer was lost: what stands there now?
        revision = match io.get(Role::Lease, &who.lease) {
            Ok(Reading::Found(entry)) if entry.revision < revision => return Release::Left(left),
            Ok(Reading::Found(entry)) => match record::read(&entry) {
                Ok(holder) if who.owns(&holder) => entry.revision,
                Ok(_) | Err(_) => return Release::NotOurs,
            },
            // Gone, by the deletion whose answer was lost or by its age.
            Ok(Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent) => return Release::GivenBack,
            // By somebody who gave nothing back.
            Ok(Reading::Erased(_)) => return Release::NotOurs,
            Err(fault) => return Release::Left(fault),
        };
    }
    Release::Left(left)
}
