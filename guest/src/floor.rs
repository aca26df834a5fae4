//! No epoch is issued twice, even when the bucket was raised again from nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::imports::{Fault, Imports, Level, Role};
use crate::lease::{Identity, Trouble};
use crate::take::{Created, Provisional, create, give_back, renew};
use crate::terms::Terms;

/// How far past the floor the revisions are moved, at the least. The floor counts epochs while renewals push revisions
/// further, so with a jump of one an old holder's late update would quote a revision that the new
/// holder is given again. No tenure renews 2³² times: at one renewal a second that takes 136 years.
pub const STRIDE: u64 = 1 << 32;

/// How far past a move that was begun, and maybe never came to pass, the next one goes. Nobody held the lease there, so its
/// revisions are few; and a purge that fails at every poll does not use the epochs up: at one a second that takes
/// 4,000 years.
const STEP: u64 = 1 << 16;

/// Whether the host had raised the floor to this, just below the place of a move, before it sent the purge.
fn is_begun(floor: u64) -> bool {
    (floor + 1).is_multiple_of(STEP)
}

/// Where revisions are moved from this floor: the next but one multiple of [`STRIDE`], or a step past the last move that
/// was begun. Never twice to the same place: in a bucket wiped in between, its revisions would be given once more.
fn target(floor: u64) -> u64 {
    if is_begun(floor) { floor + 1 + STEP } else { (floor / STRIDE + 2) * STRIDE }
}

/// The highest epoch: above 2⁵³ a reader that keeps JSON numbers as doubles confuses neighbours.
pub const EPOCH_HIGHEST: u64 = 1 << 53;

/// Other live keys named when a move is refused.
const KEYS_NAMED: usize = 8;

/// Make sure that a provisional record's epoch was never issued, moving the bucket's revisions past the
/// floor where it must be. `None` when the record was lost to somebody else meanwhile.
///
/// # Errors
/// [`Trouble`], with the record given back where it can be.
pub(crate) fn clear(
    io: &mut impl Imports,
    terms: &Terms,
    who: &Identity,
    ours: Provisional,
) -> Result<Option<Provisional>, Trouble> {
    let floor = match io.floor() {
        Ok(floor) => floor,
        Err(fault) => {
            give_back(io, terms, who, &ours);
            return Err(Trouble::FloorUnreadable(fault));
        }
    };
    if floor > EPOCH_HIGHEST || ours.epoch > EPOCH_HIGHEST {
        give_back(io, terms, who, &ours);
        return Err(Trouble::FloorTooHigh(floor.max(ours.epoch)));
    }
    // Not one that would read as a move begun once it is the floor.
    if ours.epoch > floor && !is_begun(ours.epoch) {
        return Ok(Some(ours));
    }
    // So, or an earlier take of this record was counted as issued, and went no further. The next create is above it.
    if ours.revision > floor {
        give_back(io, terms, who, &ours);
        return Ok(None);
    }
    match move_past(io, terms, who, &ours, floor) {
        Ok(()) => stand_anew(io, terms, who, ours.created, floor),
        // A purge that may yet be applied must find nobody else's record: this one stays and expires.
        Err(trouble @ Trouble::FloorUnmoved(Fault::Unknown(_))) => Err(trouble),
        Err(trouble) => {
            give_back(io, terms, who, &ours);
            Err(trouble)
        }
    }
}

/// Move the revisions past the floor while owning the key, so that the purge removes one's own provisional
/// record and nothing else.
fn move_past(
    io: &mut impl Imports,
    terms: &Terms,
    who: &Identity,
    ours: &Provisional,
    floor: u64,
) -> Result<(), Trouble> {
    let target = target(floor);
    if target > EPOCH_HIGHEST {
        return Err(Trouble::FloorTooHigh(floor));
    }
    let others = other_keys(io, who).map_err(Trouble::FloorUnmoved)?;
    if !others.is_empty() {
        return Err(Trouble::FloorBlocked(others));
    }
    let was = io.last_sequence().map_err(Trouble::FloorUnmoved)?;
    // Owned by the clock too: past this instant the key may be somebody else's, and the purge would
    // take theirs.
    if io.now().steady_ns >= terms.until(ours.sent_ns) {
        return Err(Trouble::FloorUnmoved(Fault::Unavailable(
            "the record's time ran out before the move".into(),
        )));
    }
    io.purge_below(target).map_err(Trouble::FloorUnmoved)?;
    io.moved(was, floor);
    io.log(
        Level::Warn,
        "lease",
        &format!(
            "the bucket was at revision {was} while epoch {floor} had been issued: it was raised again from \
             nothing, and its revisions were moved past that epoch"
        ),
    );
    Ok(())
}

/// Take the key anew after the move: the record there before went with the purge.
fn stand_anew(
    io: &mut impl Imports,
    terms: &Terms,
    who: &Identity,
    created: u64,
    floor: u64,
) -> Result<Option<Provisional>, Trouble> {
    let Created::Ours(ours) = create(io, who, created).map_err(Trouble::Unsure)? else { return Ok(None) };
    let revision = ours.revision;
    if revision > EPOCH_HIGHEST {
        give_back(io, terms, who, &ours);
        return Err(Trouble::FloorTooHigh(revision));
    }
    if revision <= floor {
        give_back(io, terms, who, &ours);
        let why = format!("after the move the bucket gave revision {revision}, not above {floor}");
        return Err(Trouble::FloorUnmoved(Fault::Unavailable(why)));
    }
    // A store that lost the record with the purge it was racing (seen with NATS servers up to 2.14.3) says
    // so now, before anything acts on it.
    let first = ours.clone();
    renew(io, who, ours).map_err(|fault| {
        give_back(io, terms, who, &first);
        Trouble::Unsure(fault)
    })
}

fn other_keys(io: &mut impl Imports, who: &Identity) -> Result<Vec<String>, Fault> {
    let mut keys = io.keys(Role::Lease, None, u32::try_from(KEYS_NAMED + 1).unwrap_or(u32::MAX))?;
    keys.retain(|key| *key != who.lease);
    keys.truncate(KEYS_NAMED);
    Ok(keys)
}
