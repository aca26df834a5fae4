//! What is known of a lease: who stands, who holds, what a candidate has seen, what a holder knows.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::imports::Fault;

pub use crate::release::release;
pub use crate::renew::renew;
pub use crate::step_down::step_down;
pub use crate::take::take;
pub use crate::terms::Terms;
pub use crate::view::{current, list};

/// What an absence is worth, and a record that was erased; one that its holder deleted or that surely aged is free at
/// once, but where the store may forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// Free at once.
    Trusted,
    /// Free once the candidate has seen bucket and record unchanged for so long that no gate can be open.
    Watched,
    /// Free a whole ttl after the absence was first seen, a deletion or an age no less, because the store may forget what
    /// it acknowledged; and acted on once everybody who watches has seen the new record.
    Delayed,
}

/// Who stands: one lease object of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The lease, which is the key in the bucket.
    pub lease: String,
    /// The process.
    pub instance: String,
    /// The machine; may be empty.
    pub host: String,
    /// What was built; may be empty.
    pub build: String,
    /// Made anew for each lease object, never empty.
    pub nonce: String,
}

impl Identity {
    /// Whether a record is this lease object's own. The instance alone would not do: two lease objects of
    /// one process, or of two that were named alike, would take each other's record for their own.
    #[must_use]
    pub fn owns(&self, holder: &Holder) -> bool {
        holder.instance == self.instance && holder.nonce == self.nonce
    }

    /// Whether it can tell itself apart from everybody else.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.instance.is_empty() || self.nonce.is_empty() {
            return Err(
                "a candidate needs an instance and a nonce, or it could not know its own record".into()
            );
        }
        Ok(())
    }
}

/// Who holds a lease, as its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub instance: String,
    /// The machine; empty when not said.
    pub host: String,
    /// What was built; empty when not said.
    pub build: String,
    /// The epoch; the record's own revision where the holder never renewed.
    pub epoch: u64,
    /// When it was taken, by the holder's own time of day.
    pub taken: String,
    /// When it was last renewed, by the holder's own time of day.
    pub renewed: String,
    /// The lease object; empty for an older controller.
    pub nonce: String,
    /// The revision at which this record was read.
    pub revision: u64,
}

/// What a candidate has seen, kept for it by the host between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The bucket.
    pub created: u64,
    /// The revision of the last record seen, or of what erased it.
    pub revision: Option<u64>,
    /// Since when nothing changed, steady: an instant after the first look at it. For a record of one's own that others
    /// are to see first: when it may be acted on.
    pub since_ns: u64,
    /// When it was last seen so, steady.
    pub last_ns: u64,
}

impl Sighting {
    /// A sighting that begins now.
    #[must_use]
    pub fn new(created: u64, revision: Option<u64>, now_ns: u64) -> Self {
        Self { created, revision, since_ns: now_ns, last_ns: now_ns }
    }

    /// A record of one's own, written just now, that is not acted on before everybody who watches has seen it.
    #[must_use]
    pub fn announced(created: u64, revision: u64, now_ns: u64, terms: &Terms) -> Self {
        let since_ns = now_ns.saturating_add(terms.announced_ns());
        Self { created, revision: Some(revision), since_ns, last_ns: now_ns }
    }

    /// Whether it is of a record of one's own, this one, that others are to see first: nothing else is known of a later
    /// instant than that of the look.
    pub(crate) fn announces(&self, created: u64, revision: u64) -> bool {
        self.created == created && self.revision == Some(revision) && self.last_ns < self.since_ns
    }

    /// What is known after a record was seen, or what erased one.
    #[must_use]
    pub fn of_record(seen: Option<Self>, created: u64, revision: u64, now_ns: u64) -> Self {
        let same = |old: &Self| old.created == created && old.revision == Some(revision);
        seen.filter(same)
            .map_or(Self::new(created, Some(revision), now_ns), |old| Self { last_ns: now_ns, ..old })
    }

    /// What is known after no record was seen, by a look that began at `began_ns`.
    ///
    /// The wait began with the last record seen, when that stood unchanged until its holder could not renew it any more:
    /// one that went earlier may have been renewed unseen and then forgotten. Under [`Vacancy::Delayed`] it begins with the
    /// absence, and anew when so much time passed between two looks that a record may have come and been forgotten.
    #[must_use]
    pub fn of_absence(
        seen: Option<Self>,
        created: u64,
        rule: Vacancy,
        terms: &Terms,
        began_ns: u64,
        now_ns: u64,
    ) -> Self {
        let delayed = rule == Vacancy::Delayed;
        let last_ns = if delayed { began_ns } else { now_ns };
        let expired = |old: &Self| !delayed && old.last_ns >= terms.until(old.since_ns);
        let unbroken = |old: &Self| !delayed || now_ns.saturating_sub(old.last_ns) <= terms.gap_ns();
        let counts = |old: &Self| match old.revision {
            None => unbroken(old),
            Some(_) => expired(old),
        };
        match seen.filter(|old| old.created == created && counts(old)) {
            Some(old) if old.revision.is_none() => Self { last_ns, ..old },
            Some(old) => old,
            None => Self { last_ns, ..Self::new(created, None, now_ns) },
        }
    }
}

/// Why a candidate waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The holder, where there is one.
    pub holder: Option<Holder>,
    /// To be handed back at the next look.
    pub sighting: Sighting,
    /// When the next look is due, steady, unless the key changes or the poll is sooner.
    pub again_at_ns: Option<u64>,
}

/// How sure a holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The last write was acknowledged.
    Sure,
    /// A renewal failed or got no answer.
    Unsure,
    /// A renewal was refused at this steady instant: the gate is shut.
    Doubted(u64),
}

/// What a holder knows of its own lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The revision at which it was taken.
    pub epoch: u64,
    /// The revision of one's own last known write.
    pub revision: u64,
    /// The bucket it was taken in.
    pub created: u64,
    /// When it was taken, RFC 3339.
    pub taken: String,
    /// The steady instant at which the gate shuts.
    pub until_ns: u64,
    /// Whether the last renewal is certain.
    pub certainty: Certainty,
}

/// Why a lease could not be taken; nothing is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The terms do not fit.
    Misfit(String),
    /// Who holds it cannot be read.
    Unreadable(Fault),
    /// The record is no holder.
    NotAHolder(String),
    /// Definitely refused, and nobody holds it.
    Unwritable(Fault),
    /// A passing reason, or no answer: look again.
    Unsure(Fault),
    /// The highest epoch issued cannot be read.
    FloorUnreadable(Fault),
    /// The highest epoch issued leaves no room above it.
    FloorTooHigh(u64),
    /// Moving the revisions would drop these other live keys.
    FloorBlocked(Vec<String>),
    /// The revisions could not be moved.
    FloorUnmoved(Fault),
}

/// How a try to take it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Taken.
    Taken(Tenure),
    /// Somebody else's, or not surely free yet.
    Waiting(Waiting),
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The time ran out before a renewal was acknowledged.
    Overdue,
    /// Somebody else's record stands there.
    Superseded(Holder),
    /// Something that is no holder stands there.
    Overwritten(String),
    /// The record is gone.
    Gone,
    /// The bucket was raised again from nothing.
    RaisedAgain,
}

/// A tenure after a renewal that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What is known now.
    pub tenure: Tenure,
    /// What happened.
    pub why: String,
}

/// How a renewal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Renewed.
    Kept(Tenure),
    /// Not renewed, not lost.
    Failed(Setback),
    /// Refused: the gate shuts now.
    Refused(Setback),
    /// Asked by an operator to give way: the gate shuts now, and it is not renewed any more.
    Asked(Setback),
    /// Lost, for good.
    Lost(Loss),
}

/// How giving back ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Given back.
    GivenBack,
    /// No longer one's own; nothing was touched.
    NotOurs,
    /// It could not be given back and expires by itself.
    Left(Fault),
}

/// How asking a holder to give way ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asked.
    Asked(Holder),
    /// It had been asked before.
    AskedBefore(Holder),
    /// Nobody holds it.
    Nobody,
}

/// A lease and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// The lease.
    pub name: String,
    /// The holder, or what stands there instead of one.
    pub holder: Result<Holder, String>,
}

/// The sentence for a record that is no holder.
pub(crate) fn not_a_holder(lease: &str, why: &str) -> String {
    format!("the record of the lease {lease:?} is no holder: {why}")
}
