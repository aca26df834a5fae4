//! The guard rails: what a lease object's policy may do and is believed, whatever it says.
//!
//! Remembers which revisions are this lease object's own: those a write of it was acknowledged at, that of an
//! entry whose bytes equal a write of it whose answer was lost, and that of such a record marked by somebody who
//! asks it to give way. Nothing else is updated, deleted, or taken for a tenure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Steady;
use crate::lie::Lie;
use crate::store::Entry;

/// Own revisions remembered. Only the last few can still be somebody's expectation.
const OWN: usize = 32;
/// Writes remembered whose answer never came. One more than is ever under way at the retry pace of a ttl.
const PENDING: usize = 32;

/// The field of a record in which its holder is asked to give way. The rest of a record is the policy's affair.
const MARK: &str = "step_down";

/// What is known of one lease object's writes.
#[derive(Debug)]
pub(crate) struct Rails {
    /// The ttl less the margin.
    validity: Duration,
    own: VecDeque<Own>,
    /// What stands at the last of them.
    last_value: Vec<u8>,
    pending: VecDeque<Pending>,
    /// The revision that a rewriting replaced, and the one that it won.
    rewritten: Option<(u64, u64)>,
    /// The bucket as it was last told, by its creation.
    bucket: Option<u64>,
    epoch: Option<u64>,
    last_ticket: u64,
    /// Writes up to this ticket may have been undone by a deletion sent after them.
    void: u64,
    /// Whether a write was refused since the lease was taken, or one was last acknowledged.
    refused: bool,
    /// Whether a purge was sent that was not answered, and so may arrive yet.
    purging: bool,
    finished: bool,
}

#[derive(Debug)]
struct Own {
    revision: u64,
    sent: Sent,
}

#[derive(Debug)]
struct Pending {
    value: Vec<u8>,
    sent: Sent,
}

/// The sending of a write.
#[derive(Clone, Copy, Debug)]
struct Sent {
    ticket: u64,
    at: Steady,
    /// The bucket that was known then, which it is meant for.
    bucket: Option<u64>,
}

/// Whose an entry is that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Not known to be ours.
    Others,
    /// Ours.
    Ours,
    /// Ours, but meant for another bucket than the one that was told last: it came late.
    Stray,
}

impl Rails {
    pub(crate) fn new(validity: Duration) -> Self {
        Self {
            validity,
            own: VecDeque::new(),
            last_value: Vec::new(),
            pending: VecDeque::new(),
            rewritten: None,
            bucket: None,
            epoch: None,
            last_ticket: 0,
            void: 0,
            refused: false,
            purging: false,
            finished: false,
        }
    }

    /// A write is about to be sent. It counts as one whose answer was lost until it is told otherwise, so
    /// that a call cut off in the middle leaves the right thing behind.
    pub(crate) fn sending(&mut self, value: &[u8], sent: Steady) -> u64 {
        self.last_ticket += 1;
        let sent = Sent { ticket: self.last_ticket, at: sent, bucket: self.bucket };
        keep(&mut self.pending, Pending { value: value.to_vec(), sent }, PENDING);
        self.last_ticket
    }

    /// The write was acknowledged.
    pub(crate) fn acknowledged(&mut self, ticket: u64, revision: u64) {
        if let Some(write) = self.settle(ticket) {
            self.last_value = write.value;
            self.refused = false;
            self.owned(Own { revision, sent: write.sent });
        }
    }

    fn owned(&mut self, own: Own) {
        // Given once more, it stands for itself again.
        self.rewritten = self.rewritten.filter(|(from, _)| *from != own.revision);
        keep(&mut self.own, own, OWN);
    }

    /// The write was surely not applied.
    pub(crate) fn not_applied(&mut self, ticket: u64) {
        self.settle(ticket);
    }

    /// Something else stands there than the write expected, and it was not applied.
    pub(crate) fn refused(&mut self, ticket: u64) {
        self.not_applied(ticket);
        self.refused = true;
    }

    /// Whether what stands there may be another's: a write was refused and none acknowledged since, which alone proves
    /// that it is not. A record that is read may be an old one.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    fn settle(&mut self, ticket: u64) -> Option<Pending> {
        let at = self.pending.iter().position(|write| write.sent.ticket == ticket)?;
        self.pending.remove(at)
    }

    /// An entry was read: is it a write of ours whose answer was lost, or one of ours that was marked?
    pub(crate) fn saw(&mut self, entry: &Entry) -> Whose {
        let known = self.own_at(entry.revision).map(|own| own.sent);
        // The earliest of equal writes, whose time runs out first.
        let equal = self.pending.iter().find(|write| write.value == entry.value);
        // A mark came on top of its write, so the key lives longer than the write alone lets it.
        let of = equal.map(|write| write.sent).or_else(|| self.marked(entry));
        let acknowledged = known.filter(|_| entry.value == self.last_value);
        let Some(sent) = of.or(acknowledged) else { return Whose::Others };
        if sent.bucket != self.bucket {
            return Whose::Stray;
        }
        // A bucket raised again from nothing gives its revisions once more: then to a later write.
        if let Some(sent) = of.filter(|sent| known.is_none_or(|known| known.ticket < sent.ticket)) {
            self.owned(Own { revision: entry.revision, sent });
            self.last_value.clone_from(&entry.value);
        }
        Whose::Ours
    }

    /// The write of ours that an entry is, but for a mark that asks to give way.
    fn marked(&self, entry: &Entry) -> Option<Sent> {
        let last =
            self.own.back().filter(|own| is_marked(&entry.value, &self.last_value, Some(own.revision)));
        let lost = || self.pending.iter().find(|write| is_marked(&entry.value, &write.value, None));
        last.map(|own| own.sent).or_else(|| lost().map(|write| write.sent))
    }

    /// A deletion is about to be sent: nothing written before it is believed any more.
    pub(crate) fn deleting(&mut self) {
        self.void = self.last_ticket;
    }

    /// Whether an update or a delete may expect this revision.
    pub(crate) fn owns(&self, revision: u64) -> bool {
        self.own_at(revision).is_some()
    }

    /// The last of equal ones: a bucket raised again from nothing gives its revisions once more.
    fn own_at(&self, revision: u64) -> Option<&Own> {
        self.own.iter().rev().find(|own| own.revision == revision)
    }

    /// The bucket was looked at.
    pub(crate) fn saw_bucket(&mut self, created: u64) {
        self.bucket = Some(created);
    }

    /// The bucket that the write at one's own revision was meant for, where one was known.
    pub(crate) fn meant_for(&self, revision: u64) -> Option<u64> {
        self.own_at(revision)?.sent.bucket
    }

    /// The last revision known to be ours, unless a deletion was sent after it.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.own.back().filter(|own| own.sent.ticket > self.void).map(|own| own.revision)
    }

    /// The last revision known to be ours and what stands there, unless a deletion was sent after it.
    pub(crate) fn standing(&self) -> Option<(u64, Vec<u8>)> {
        self.latest().map(|revision| (revision, self.last_value.clone()))
    }

    /// What stood at the one revision stands at the other now, which the policy does not know.
    pub(crate) fn rewrote(&mut self, from: u64, to: u64) {
        self.rewritten = Some((from, to));
    }

    /// The revision at which what the policy knows at this one stands.
    pub(crate) fn stands_at(&self, revision: u64) -> u64 {
        self.rewritten.filter(|(from, _)| *from == revision).map_or(revision, |(_, to)| to)
    }

    /// Whether the key is ours at this instant, by the clock too, so that a purge takes only our own record.
    pub(crate) fn owns_key(&self, now: Steady) -> bool {
        let valid = |own: &Own| own.sent.ticket > self.void && now < own.sent.at.plus(self.validity);
        !self.finished && self.own.back().is_some_and(valid)
    }

    /// A purge is about to be sent.
    pub(crate) fn purging(&mut self) {
        self.purging = true;
    }

    /// The purge was applied, or surely was not and will not be.
    pub(crate) fn purged(&mut self) {
        self.purging = false;
    }

    /// Whether a purge may arrive yet.
    pub(crate) fn may_purge(&self) -> bool {
        self.purging
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
        let cut = self.may_take(epoch, revision, until, floor)?;
        self.epoch = Some(epoch);
        self.refused = false;
        Ok(cut)
    }

    fn may_take(&self, epoch: u64, revision: u64, until: Steady, floor: u64) -> Result<Steady, Lie> {
        let cut = self.cut(revision, until)?;
        if !self.owns(epoch) || epoch > revision {
            return Err(Lie::OtherEpoch { said: epoch, known: 0 });
        }
        if epoch <= floor {
            return Err(Lie::BelowFloor { said: epoch, floor });
        }
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

    /// Whether a tenure can be so: one just taken, above this floor, or one that goes on.
    pub(crate) fn judge(
        &self,
        epoch: u64,
        revision: u64,
        until: Steady,
        taken_above: Option<u64>,
    ) -> Result<(), Lie> {
        let allowed = match taken_above {
            None => self.believe(epoch, revision, Steady(u64::MAX))?,
            Some(floor) => self.may_take(epoch, revision, Steady(u64::MAX), floor)?,
        };
        if until > allowed {
            return Err(Lie::TooLong { by: until.since(allowed) });
        }
        Ok(())
    }

    /// Whether a write was sent whose answer is not known.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// When a key known at this revision could be gone at the earliest: it has no epoch to be believed.
    pub(crate) fn until(&self, revision: u64) -> Result<Steady, Lie> {
        self.cut(revision, Steady(u64::MAX))
    }

    fn cut(&self, revision: u64, until: Steady) -> Result<Steady, Lie> {
        let counts = |own: &&Own| own.sent.ticket > self.void;
        let own = self.own_at(revision).filter(counts).ok_or(Lie::NotOurs(revision))?;
        Ok(until.min(own.sent.at.plus(self.validity)))
    }
}

/// Whether `value` is the record `of`, but for the mark that asks its holder to give way. A record that does not
/// say its epoch, which is then its revision, has it written down with the mark.
pub(crate) fn is_marked(value: &[u8], of: &[u8], revision: Option<u64>) -> bool {
    type Record = serde_json::Map<String, serde_json::Value>;
    let parse = |bytes: &[u8]| serde_json::from_slice::<Record>(bytes).ok();
    let (Some(mut marked), Some(mut of)) = (parse(value), parse(of)) else { return false };
    let has_epoch = of.get("epoch").is_some_and(|epoch| epoch.as_u64() != Some(0));
    if !has_epoch {
        let written = marked.remove("epoch").and_then(|epoch| epoch.as_u64());
        of.remove("epoch");
        if revision.is_some_and(|revision| written != Some(revision)) {
            return false;
        }
    }
    of.remove(MARK);
    marked.remove(MARK).is_some_and(|by| by.as_str().is_some_and(|by| !by.is_empty())) && marked == of
}

fn keep<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(item);
}

// By its path: other crates include this file.
#[cfg(test)]
#[path = "rails/tests.rs"]
mod tests;
