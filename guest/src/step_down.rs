//! Asking a holder to give way.

use alloc::format;
use alloc::string::String;

use crate::imports::{Fault, Imports, Reading, Role, Write};
use crate::lease::{Holder, Request, Trouble, not_a_holder};
use crate::record;

/// How often it is tried: a holder that renews meanwhile moves its record.
const TRIES: u32 = 3;

/// Ask whoever holds the lease to give way. The mark is written at the very revision that was read, so it never
/// lands on another holder's record; the holder's next renewal is refused by it, and finds it.
///
/// # Errors
/// [`Trouble`]; after [`Trouble::Unsure`] the holder may have been asked.
pub fn step_down(io: &mut impl Imports, lease: &str, by: &str) -> Result<Request, Trouble> {
    if by.is_empty() {
        return Err(Trouble::Misfit(
            "a holder is asked to give way in somebody's name, which is empty".into(),
        ));
    }
    let mut known: Option<Holder> = None;
    for _ in 0..TRIES {
        let entry = match io.get(Role::Lease, lease).map_err(Trouble::Unreadable)? {
            Reading::Found(entry) => entry,
            Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => {
                return Ok(Request::Nobody);
            }
        };
        let no_holder = |why: String| Trouble::NotAHolder(not_a_holder(lease, &why));
        let (holder, asked) = record::read_marked(&entry).map_err(no_holder)?;
        if known.as_ref().is_some_and(|known| known.epoch != holder.epoch) {
            let why = format!("{} took over meanwhile; look, and ask again", holder.instance);
            return Err(Trouble::Unsure(Fault::Unavailable(why)));
        }
        if !asked.is_empty() {
            return Ok(Request::AskedBefore(holder));
        }
        let value = record::mark(&entry, holder.epoch, by).map_err(no_holder)?;
        match io.update(Role::Lease, lease, &value, entry.revision) {
            Ok(Write::Written(_)) => return Ok(Request::Asked(holder)),
            Ok(Write::Stale(_)) => known = Some(holder),
            Err(fault @ (Fault::Unknown(_) | Fault::Unavailable(_))) => return Err(Trouble::Unsure(fault)),
            Err(fault) => return Err(Trouble::Unwritable(fault)),
        }
    }
    Err(Trouble::Unsure(Fault::Unavailable("the record kept moving; try again".into())))
}
