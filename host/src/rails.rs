//! The guard rails: what a lease object's policy may do and is believed, whatever it says.
//!
//! Remembers which revisions are this lease object's own: those a write of it was acknowledged at, and that
//! of an entry whose bytes equal a write of it whose answer was lost. Nothing else is updated, deleted, or
//! taken for a tenure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Steady;
use crate::store::Entry;

/// Own revisions remembered. Only the last few can still be somebody's expectation.
const OWN: usize = 32;
/// Writes remembered whose answer never came. One more than is ever under way at the retry pace of a ttl.
const PENDING: usize = 32;

/// What is known of one lease object's writes.
#[derive(Debug)]
pub(crate) struct Rails {
    /// The ttl less the margin.
    validity: Duration,
    own: VecDeque<Own>,
    pending: VecDeque<Pending>,
    epoch: Option<u64>,
    last_ticket: u64,
    /// Writes up to this ticket may have been undone by a deletion sent after them.
    void: u64,
    finished: bool,
}

#[derive(Debug)]
struct Own {
    revision: u64,
    ticket: u64,
    sent: Steady,
}

#[derive(Debug)]
struct Pending {
    ticket: u64,
    value: Vec<u8>,
    sent: Steady,
}

/// What a policy said that cannot be so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lie {
    /// A tenure at a revision that no write of this lease object won.
    #[error("it answered a tenure at revision {0}, which this lease object never wrote")]
    NotOurs(u64),
    /// An epoch that this lease object never held, or another one than before.
    #[error("it answered epoch {said}, where {known} is this lease object's")]
    OtherEpoch {
        /// What the policy said.
        said: u64,
        /// What is known; zero when it cannot have one.
        known: u64,
    },
    /// An epoch that may have been issued before.
    #[error("it answered epoch {said}, which is not above {floor}, the highest that was issued")]
    BelowFloor {
        /// What the policy said.
        said: u64,
        /// The highest issued.
        floor: u64,
    },
}

impl Rails {
    pub(crate) fn new(validity: Duration) -> Self {
        Self {
            validity,
            own: VecDeque::new(),
            pending: VecDeque::new(),
            epoch: None,
            last_ticket: 0,
            void: 0,
            finished: false,
        }
    }

    /// A write is about to be sent. It counts as one whose answer was lost until it is told otherwise, so
    /// that a call cut off in the middle leaves the right thing behind.
    pub(crate) fn sending(&mut self, value: &[u8], sent: Steady) -> u64 {
        self.last_ticket += 1;
        keep(&mut self.pending, Pending { ticket: self.last_ticket, value: value.to_vec(), sent }, PENDING);
        self.last_ticket
    }

    /// The write was acknowledged.
    pub(crate) fn acknowledged(&mut self, ticket: u64, revision: u64) {
        if let Some(write) = self.settle(ticket) {
            keep(&mut self.own, Own { revision, ticket, sent: write.sent }, OWN);
        }
    }

    /// The write was surely not applied.
    pub(crate) fn not_applied(&mut self, ticket: u64) {
        self.settle(ticket);
    }

    fn settle(&mut self, ticket: u64) -> Option<Pending> {
        let at = self.pending.iter().position(|write| write.ticket == ticket)?;
        self.pending.remove(at)
    }

    /// An entry was read: is it a write of ours whose answer was lost?
    pub(crate) fn saw(&mut self, entry: &Entry) {
        if self.owns(entry.revision) {
            return;
        }
        // The earliest of equal writes, whose time runs out first.
        if let Some(write) = self.pending.iter().find(|write| write.value == entry.value) {
            let own = Own { revision: entry.revision, ticket: write.ticket, sent: write.sent };
            keep(&mut self.own, own, OWN);
        }
    }

    /// A deletion is about to be sent: nothing written before it is believed any more.
    pub(crate) fn deleting(&mut self) {
        self.void = self.last_ticket;
    }

    /// Whether an update or a delete may expect this revision.
    pub(crate) fn owns(&self, revision: u64) -> bool {
        self.own.iter().any(|own| own.revision == revision)
    }

    /// The last revision known to be ours, unless a deletion was sent after it.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.own.back().filter(|own| own.ticket > self.void).map(|own| own.revision)
    }

    /// Whether the key is ours at this instant, by the clock too, so that a purge takes only our own record.
    pub(crate) fn owns_key(&self, now: Steady) -> bool {
        let valid = |own: &Own| own.ticket > self.void && now < own.sent.plus(self.validity);
        !self.finished && self.own.back().is_some_and(valid)
    }

    /// Whether anything may be written at all: not any more once the lease is given back or lost.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Given back or lost.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    /// What may be believed of a tenure just taken: its `until`, cut to what the write allows.
    pub(crate) fn believe_taken(
        &mut self,
        epoch: u64,
        revision: u64,
        until: Steady,
        floor: u64,
    ) -> Result<Steady, Lie> {
        let cut = self.cut(revision, until)?;
        if !self.owns(epoch) || epoch > revision {
            return Err(Lie::OtherEpoch { said: epoch, known: 0 });
        }
        if epoch <= floor {
            return Err(Lie::BelowFloor { said: epoch, floor });
        }
        self.epoch = Some(epoch);
        Ok(cut)
    }

    /// What may be believed of a tenure that goes on.
    pub(crate) fn believe(&self, epoch: u64, revision: u64, until: Steady) -> Result<Steady, Lie> {
        let known = self.epoch.unwrap_or(0);
        if known != epoch {
            return Err(Lie::OtherEpoch { said: epoch, known });
        }
        self.cut(revision, until)
    }

    fn cut(&self, revision: u64, until: Steady) -> Result<Steady, Lie> {
        let counts = |own: &&Own| own.revision == revision && own.ticket > self.void;
        let own = self.own.iter().find(counts).ok_or(Lie::NotOurs(revision))?;
        Ok(until.min(own.sent.plus(self.validity)))
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(item);
}
