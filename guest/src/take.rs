//! Taking a lease: one try, which ends as taken, as waiting, or as trouble, and never as a guess.

use alloc::format;
use alloc::string::String;

use crate::floor;
use crate::imports::{Fault, Imports, Reading, Role, Write};
use crate::lease::{
    Attempt, Certainty, Holder, Identity, Sighting, Tenure, Trouble, Vacancy, Waiting, not_a_holder,
};
use crate::record;
use crate::terms::Terms;

/// Try to take the lease, once. `seen` is what the last try answered to be handed back.
///
/// # Errors
/// [`Trouble`]; nothing is held then, though a write whose answer was lost may have left a record of
/// one's own, which the next try finds.
pub fn take(
    io: &mut impl Imports,
    terms: &Terms,
    who: &Identity,
    rule: Vacancy,
    seen: Option<Sighting>,
) -> Result<Attempt, Trouble> {
    who.check().map_err(Trouble::Misfit)?;
    let began_ns = io.now().steady_ns;
    let bucket = io.info(Role::Lease).map_err(Trouble::Unreadable)?;
    terms.fit(&bucket).map_err(Trouble::Misfit)?;
    if rule == Vacancy::Delayed {
        terms.fit_delayed().map_err(Trouble::Misfit)?;
    }
    let look = Look { terms, who, rule, seen, created: bucket.created, began_ns, was_free: false };

    let reading = io.get(Role::Lease, &who.lease).map_err(Trouble::Unreadable)?;
    match look.judge(io, reading)? {
        Found::Free(sighting) => stand(io, &look, sighting),
        Found::Ours(own) => adopt(io, &look, own),
        Found::Wait(waiting) => Ok(Attempt::Waiting(waiting)),
    }
}

/// One look at the key: what it is judged by.
struct Look<'a> {
    terms: &'a Terms,
    who: &'a Identity,
    rule: Vacancy,
    seen: Option<Sighting>,
    created: u64,
    /// A steady reading made before the first look.
    began_ns: u64,
    /// Whether this very try found the key free, and only then wrote.
    was_free: bool,
}

enum Found {
    /// Nobody's.
    Free(Sighting),
    /// A record of one's own, from a write whose answer was lost.
    Ours(Holder),
    /// Somebody else's, or not surely free yet.
    Wait(Waiting),
}

impl Look<'_> {
    fn judge(&self, io: &mut impl Imports, reading: Reading) -> Result<Found, Trouble> {
        // Read after the answer came: whatever it told was written before this instant.
        let now = io.now().steady_ns;
        let (created, seen) = (self.created, self.seen);
        Ok(match reading {
            Reading::Found(entry) => {
                let holder = record::read(&entry)
                    .map_err(|why| Trouble::NotAHolder(not_a_holder(&self.who.lease, &why)))?;
                if self.who.owns(&holder) {
                    self.judge_own(holder, now)
                } else {
                    let sighting = Sighting::of_record(seen, created, entry.revision, now);
                    // What the watched rule needs: to have seen the record just when it can be renewed no more.
                    let at = self.terms.until(sighting.since_ns);
                    let again_at_ns = Some(at).filter(|at| self.rule == Vacancy::Watched && now < *at);
                    Found::Wait(Waiting { holder: Some(holder), sighting, again_at_ns })
                }
            }
            // Its owner gave it up, or the store vouches for its age; but not one that may have forgotten what came
            // after.
            Reading::Deleted(_) | Reading::Aged(_) if self.rule != Vacancy::Delayed => {
                Found::Free(Sighting::new(created, None, now))
            }
            // Whoever's it was may act for as long as if it stood there still; and may have come and gone unseen.
            Reading::Erased(revision) if self.rule == Vacancy::Watched => {
                self.free_after(Sighting::of_record(seen, created, revision, now), now)
            }
            Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => {
                self.free_after(self.absence(now), now)
            }
        })
    }

    /// Whether a key that is nobody's has been watched for long enough.
    fn free_after(&self, sighting: Sighting, now: u64) -> Found {
        // A whole ttl, not the ttl less the margin: the margin is what pays for clocks that run at
        // different rates and for acts under way, here as everywhere.
        let free_at = sighting.since_ns.saturating_add(self.terms.ttl_ns);
        if self.rule == Vacancy::Trusted || now >= free_at {
            return Found::Free(sighting);
        }
        Found::Wait(Waiting { holder: None, sighting, again_at_ns: Some(free_at) })
    }

    fn absence(&self, now: u64) -> Sighting {
        Sighting::of_absence(self.seen, self.created, self.rule, self.terms, self.began_ns, now)
    }

    /// A record of one's own, from a write whose answer was lost. It may have been so long on its way that it came into a
    /// bucket raised again meanwhile, or after somebody else's record that was forgotten: it counts where the key had
    /// been watched as one watches an absence, and is no more than an absence until then.
    fn judge_own(&self, own: Holder, now: u64) -> Found {
        let announced = self.seen.filter(|old| old.announces(self.created, own.revision));
        match announced {
            Some(sighting) if now < sighting.since_ns => {
                Found::Wait(Waiting { holder: None, sighting, again_at_ns: Some(sighting.since_ns) })
            }
            Some(_) => Found::Ours(own),
            None => match self.free_after(self.absence(now), now) {
                wait @ Found::Wait(_) if !self.was_free => wait,
                _ if self.rule == Vacancy::Delayed => Found::Wait(self.announce(own.revision, now)),
                _ => Found::Ours(own),
            },
        }
    }

    /// Written, and not yet acted on: everybody else who stands sees it first, so that nobody's wait for an absence goes on
    /// across it, should the store forget it.
    fn announce(&self, revision: u64, now: u64) -> Waiting {
        let sighting = Sighting::announced(self.created, revision, now, self.terms);
        Waiting { holder: None, sighting, again_at_ns: Some(sighting.since_ns) }
    }

    fn wait(&self, io: &mut impl Imports, created: u64) -> Attempt {
        let sighting = Sighting::new(created, None, io.now().steady_ns);
        Attempt::Waiting(Waiting { holder: None, sighting, again_at_ns: None })
    }
}

/// A record of one's own that is not yet known to be above the floor: nothing may act on it.
#[derive(Clone)]
pub(crate) struct Provisional {
    pub(crate) epoch: u64,
    pub(crate) revision: u64,
    pub(crate) taken: String,
    /// A steady reading made before the write at `revision` was sent.
    pub(crate) sent_ns: u64,
    /// The bucket that it was meant for.
    pub(crate) created: u64,
}

/// Create the record of a key that is free.
fn stand(io: &mut impl Imports, look: &Look<'_>, sighting: Sighting) -> Result<Attempt, Trouble> {
    match create(io, look.who, look.created) {
        Ok(Created::Ours(ours)) if look.rule == Vacancy::Delayed => {
            Ok(Attempt::Waiting(look.announce(ours.revision, io.now().steady_ns)))
        }
        Ok(Created::Ours(ours)) => confirm(io, look, ours),
        // Somebody's record was there just now: whatever was seen before is over.
        Ok(Created::Lost) => look_again(io, &Look { seen: None, ..*look }, None),
        Err(fault @ Fault::Unknown(_)) => look_again(io, &Look { was_free: true, ..*look }, Some(fault)),
        // Surely refused, for good: is it still nobody's? Only then may a caller serve without it.
        Err(fault @ (Fault::Denied(_) | Fault::TooLarge(_))) => {
            let reading = io.get(Role::Lease, &look.who.lease).map_err(Trouble::Unreadable)?;
            match (Look { seen: Some(sighting), was_free: true, ..*look }).judge(io, reading)? {
                Found::Free(_) => Err(Trouble::Unwritable(fault)),
                Found::Ours(_) => Err(Trouble::Unsure(fault)),
                Found::Wait(waiting) => Ok(Attempt::Waiting(waiting)),
            }
        }
        Err(fault @ Fault::MissingBucket(_)) => Err(Trouble::Unreadable(fault)),
        Err(fault @ Fault::Unavailable(_)) => Err(Trouble::Unsure(fault)),
    }
}

pub(crate) enum Created {
    Ours(Provisional),
    Lost,
}

/// Write the record of a key that has none.
pub(crate) fn create(io: &mut impl Imports, who: &Identity, created: u64) -> Result<Created, Fault> {
    let sent = io.now();
    let taken = record::rfc3339(sent.wall);
    let value = record::write(who, 0, &taken, &taken);
    Ok(match io.create(Role::Lease, &who.lease, &value)? {
        Write::Written(revision) => {
            Created::Ours(Provisional { epoch: revision, revision, taken, sent_ns: sent.steady_ns, created })
        }
        Write::Stale(_) => Created::Lost,
    })
}

/// After a create that was refused, or whose answer was lost: whose record is it?
fn look_again(io: &mut impl Imports, look: &Look<'_>, lost: Option<Fault>) -> Result<Attempt, Trouble> {
    let reading = match (io.get(Role::Lease, &look.who.lease), &lost) {
        (Ok(reading), _) => reading,
        (Err(_), Some(fault)) => return Err(Trouble::Unsure(fault.clone())),
        (Err(fault), None) => return Err(Trouble::Unreadable(fault)),
    };
    match (look.judge(io, reading)?, lost) {
        (Found::Ours(own), _) => adopt(io, look, own),
        // Lost to somebody who is gone again, or a reading that is stale: the next try will tell.
        (Found::Free(sighting), None) => {
            Ok(Attempt::Waiting(Waiting { holder: None, sighting, again_at_ns: None }))
        }
        // The write may still arrive.
        (Found::Free(_), Some(fault)) => Err(Trouble::Unsure(fault)),
        (Found::Wait(waiting), Some(fault)) if waiting.holder.is_none() => Err(Trouble::Unsure(fault)),
        (Found::Wait(waiting), _) => Ok(Attempt::Waiting(waiting)),
    }
}

/// A record of one's own was found: an answer had been lost. It counts once an update at its revision has
/// won, and is held at its first epoch.
fn adopt(io: &mut impl Imports, look: &Look<'_>, own: Holder) -> Result<Attempt, Trouble> {
    if own.epoch > own.revision {
        let why = format!("it claims epoch {} at revision {}", own.epoch, own.revision);
        return Err(Trouble::NotAHolder(not_a_holder(&look.who.lease, &why)));
    }
    let (epoch, revision, taken) = (own.epoch, own.revision, own.taken);
    let ours = Provisional { epoch, revision, taken, sent_ns: 0, created: look.created };
    match renew(io, look.who, ours) {
        Ok(Some(ours)) => confirm(io, look, ours),
        Ok(None) => Ok(look.wait(io, look.created)),
        Err(fault) => Err(Trouble::Unsure(fault)),
    }
}

/// Write one's own record once more at its revision; `None` when it has moved.
pub(crate) fn renew(
    io: &mut impl Imports,
    who: &Identity,
    ours: Provisional,
) -> Result<Option<Provisional>, Fault> {
    let sent = io.now();
    let value = record::write(who, ours.epoch, &ours.taken, &record::rfc3339(sent.wall));
    Ok(match io.update(Role::Lease, &who.lease, &value, ours.revision)? {
        Write::Written(revision) => Some(Provisional { revision, sent_ns: sent.steady_ns, ..ours }),
        Write::Stale(_) => None,
    })
}

/// From a record of one's own to a tenure: the same bucket still, an epoch never issued, and in time.
/// On every other way out the record is given back, or left to expire.
fn confirm(io: &mut impl Imports, look: &Look<'_>, ours: Provisional) -> Result<Attempt, Trouble> {
    let epoch = ours.epoch;
    let created = match io.info(Role::Lease) {
        Ok(bucket) => bucket.created,
        Err(fault) => {
            give_back(io, look.terms, look.who, &ours);
            return Err(Trouble::Unsure(fault));
        }
    };
    // What was seen was seen in another bucket, so this one's emptiness has not been watched. The record is left to
    // expire: its revision may be another's by the time it could be deleted.
    if created != look.created {
        return Ok(look.wait(io, created));
    }
    let ours = match floor::clear(io, look.terms, look.who, ours) {
        // Written anew after the move, which nobody has seen yet.
        Ok(Some(anew)) if anew.epoch != epoch && look.rule == Vacancy::Delayed => {
            return Ok(Attempt::Waiting(look.announce(anew.revision, io.now().steady_ns)));
        }
        Ok(Some(ours)) => ours,
        Ok(None) => return Ok(look.wait(io, created)),
        Err(trouble) => return Err(trouble),
    };
    let until_ns = look.terms.until(ours.sent_ns);
    // An answer that comes after its time grants nothing.
    if io.now().steady_ns >= until_ns {
        return Err(Trouble::Unsure(Fault::Unavailable(
            "taking the lease took longer than the record is good for".into(),
        )));
    }
    Ok(Attempt::Taken(Tenure {
        epoch: ours.epoch,
        revision: ours.revision,
        created,
        taken: ours.taken,
        until_ns,
        certainty: Certainty::Sure,
    }))
}

/// Give a provisional record back, so that nobody waits for it. What cannot be deleted expires. Only in the bucket that it
/// was meant for, and not after its time: in one raised again meanwhile its revision may be another's, whose record is then
/// erased.
pub(crate) fn give_back(io: &mut impl Imports, terms: &Terms, who: &Identity, ours: &Provisional) {
    if io.now().steady_ns < terms.until(ours.sent_ns)
        && io.info(Role::Lease).is_ok_and(|bucket| bucket.created == ours.created)
    {
        let _ = io.delete(Role::Lease, &who.lease, ours.revision);
    }
}
