//! Who holds what, for people who look.

use alloc::string::String;
use alloc::vec::Vec;

use crate::imports::{Imports, Reading, Role};
use crate::lease::{HeldLease, Holder, Trouble, not_a_holder};
use crate::record;

/// Who holds the lease now.
///
/// # Errors
/// [`Trouble::Unreadable`] and [`Trouble::NotAHolder`]: an error is an error, never "nobody".
pub fn current(io: &mut impl Imports, lease: &str) -> Result<Option<Holder>, Trouble> {
    match io.get(Role::Lease, lease).map_err(Trouble::Unreadable)? {
        Reading::Found(entry) => {
            record::read(&entry).map(Some).map_err(|why| Trouble::NotAHolder(not_a_holder(lease, &why)))
        }
        Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => Ok(None),
    }
}

/// The leases that have a record, in byte order of their names, those after `after`, `most` at the most.
///
/// # Errors
/// [`Trouble::Unreadable`]. A record that is no holder is a row of the list, not an error.
pub fn list(io: &mut impl Imports, after: Option<String>, most: u32) -> Result<Vec<HeldLease>, Trouble> {
    let keys = io.keys(Role::Lease, after.as_deref(), most).map_err(Trouble::Unreadable)?;
    let mut leases = Vec::with_capacity(keys.len());
    for name in keys {
        let holder = match current(io, &name) {
            Ok(Some(holder)) => Ok(holder),
            // Gone since the keys were read.
            Ok(None) => continue,
            Err(Trouble::NotAHolder(what)) => Err(what),
            Err(trouble) => return Err(trouble),
        };
        leases.push(HeldLease { name, holder });
    }
    Ok(leases)
}
