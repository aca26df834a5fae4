//! Renewing a lease, and finding out what became of a renewal.

use alloc::format;
use alloc::string::String;

use crate::imports::{Imports, Reading, Role, Write};
use crate::lease::{Certainty, Identity, Loss, Renewal, Setback, Tenure, not_a_holder};
use crate::record;
use crate::terms::Terms;

/// Renew, or find out what became of a renewal. A refusal shuts the gate before one looks why, because a
/// store that forgot an acknowledged renewal looks just like a stale read; a failure does not, because
/// until `until` nobody else can have taken the lease.
pub fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
    let now = io.now().steady_ns;
    // Never renewed past one's own time, whatever the store would answer.
    if now >= tenure.until_ns {
        return Renewal::Lost(Loss::Overdue);
    }
    match tenure.certainty {
        Certainty::Sure => update(io, terms, who, tenure),
        Certainty::Unsure => after_failure(io, terms, who, tenure),
        Certainty::Doubted(since) => after_refusal(io, terms, who, tenure, since),
    }
}

/// Write the record once more at the last known revision.
fn update(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
    let sent = io.now();
    // The look before it may have taken until then.
    if sent.steady_ns >= tenure.until_ns {
        return Renewal::Lost(Loss::Overdue);
    }
    let value = record::write(who, tenure.epoch, &tenure.taken, &record::rfc3339(sent.wall));
    let answer = io.update(Role::Lease, &who.lease, &value, tenure.revision);
    let now = io.now().steady_ns;
    // An answer that comes after its time grants nothing: the gate was shut, and lost is lost.
    if now >= tenure.until_ns {
        return Renewal::Lost(Loss::Overdue);
    }
    match answer {
        Ok(Write::Written(revision)) => Renewal::Kept(Tenure {
            revision,
            until_ns: terms.until(sent.steady_ns),
            certainty: Certainty::Sure,
            ..tenure
        }),
        Ok(Write::Stale(_)) => {
            let why = format!("the renewal at revision {} was refused", tenure.revision);
            refused(tenure, now, why)
        }
        Err(fault) => failed(tenure, format!("the renewal could not be made: {fault}")),
    }
}

/// The last renewal failed or got no answer: it may have landed, in which case its revision is the one to go on
/// from. Only an update that wins says so for certain.
fn after_failure(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
    let reading = match io.get(Role::Lease, &who.lease) {
        Ok(reading) => reading,
        Err(fault) => return failed(tenure, format!("the record cannot be read: {fault}")),
    };
    match Seen::of(reading, who, &tenure) {
        Seen::OwnNewer(revision) => update(io, terms, who, Tenure { revision, ..tenure }),
        Seen::Asked(revision, by) => asked(io, Tenure { revision, ..tenure }, by),
        Seen::Other(loss) => Renewal::Lost(loss),
        // Says nothing, or nothing for certain: the update is refused if it is so.
        Seen::Nothing => update(io, terms, who, tenure),
    }
}

/// The last renewal was refused and the gate is shut: look for one's own newer record, or for somebody
/// else's, for as long as one renewal interval.
fn after_refusal(
    io: &mut impl Imports,
    terms: &Terms,
    who: &Identity,
    tenure: Tenure,
    since: u64,
) -> Renewal {
    let bound = since.saturating_add(terms.renew_every_ns);
    let looked = io.info(Role::Lease).and_then(|bucket| {
        // Another bucket's revisions say nothing of this one's.
        if bucket.created != tenure.created {
            return Ok(Err(Loss::RaisedAgain));
        }
        Ok(Ok(Seen::of(io.get(Role::Lease, &who.lease)?, who, &tenure)))
    });
    let why = match looked {
        Ok(Err(loss) | Ok(Seen::Other(loss))) => return Renewal::Lost(loss),
        Ok(Ok(Seen::Asked(revision, by))) => return asked(io, Tenure { revision, ..tenure }, by),
        Ok(Ok(Seen::OwnNewer(revision))) => {
            return match update(io, terms, who, Tenure { revision, ..tenure }) {
                // It was one's own but has moved again, or the answer was lost: doubted still, and no longer
                // than from the first refusal.
                Renewal::Failed(set) | Renewal::Refused(set) => refused(set.tenure, since, set.why),
                ended => ended,
            };
        }
        Ok(Ok(Seen::Nothing)) => String::from("no record of this holder's that is new enough is there"),
        Err(fault) => format!("why it was refused cannot be read: {fault}"),
    };
    if io.now().steady_ns >= bound { Renewal::Lost(Loss::Gone) } else { refused(tenure, since, why) }
}

/// What a reading tells a holder. An entry older than one's own revision is stale and tells nothing; so does
/// an absence, which no read proves.
enum Seen {
    OwnNewer(u64),
    /// One's own, marked by somebody who asks to give way.
    Asked(u64, String),
    Other(Loss),
    Nothing,
}

impl Seen {
    fn of(reading: Reading, who: &Identity, tenure: &Tenure) -> Self {
        let entry = match reading {
            Reading::Found(entry) if entry.revision > tenure.revision => entry,
            Reading::Found(_)
            | Reading::Deleted(_)
            | Reading::Aged(_)
            | Reading::Absent
            | Reading::Erased(_) => {
                return Self::Nothing;
            }
        };
        match record::read_marked(&entry) {
            Ok((holder, _)) if !who.owns(&holder) => Self::Other(Loss::Superseded(holder)),
            // Not of this tenure: a create of one's own that came late, or twice.
            Ok((holder, _)) if holder.epoch != tenure.epoch => Self::Nothing,
            Ok((_, by)) if by.is_empty() => Self::OwnNewer(entry.revision),
            Ok((_, by)) => Self::Asked(entry.revision, by),
            Err(why) => Self::Other(Loss::Overwritten(not_a_holder(&who.lease, &why))),
        }
    }
}

/// Doubted from now on, so that no policy opens the gate again.
fn asked(io: &mut impl Imports, tenure: Tenure, by: String) -> Renewal {
    let certainty = Certainty::Doubted(io.now().steady_ns);
    Renewal::Asked(Setback { tenure: Tenure { certainty, ..tenure }, why: by })
}

fn failed(tenure: Tenure, why: String) -> Renewal {
    Renewal::Failed(Setback { tenure: Tenure { certainty: Certainty::Unsure, ..tenure }, why })
}

fn refused(tenure: Tenure, since: u64, why: String) -> Renewal {
    Renewal::Refused(Setback { tenure: Tenure { certainty: Certainty::Doubted(since), ..tenure }, why })
}
