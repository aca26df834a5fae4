//! One state: the two buckets, the queue, who uses them, and the faults that are left. Small and copied.

use std::hash::Hash;
use std::ops::Range;

use super::{Faults, Invariant};
use crate::state::Mixer;

pub(super) const BUILDERS: usize = 3;
pub(super) const CONTROLLERS: usize = 2;
pub(super) const ACTORS: usize = BUILDERS + CONTROLLERS;

/// The most writes that may be on their way without anybody waiting for their answer.
pub(super) const LATE: usize = 3;

/// What every clock reads at the beginning, in ticks: zero is "must not run".
pub(super) const BEGIN: u8 = 8;

/// A key: the let-through key, or that of plan 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u8);

impl Place {
    pub(super) const LET_THROUGH: Self = Self(0);
    /// Each of them.
    pub(super) const ALL: [Self; 3] = [Self(0), Self(1), Self(2)];

    fn bucket(self) -> usize {
        usize::from(self != Self::LET_THROUGH)
    }
}

/// Who wrote a key: in the upper half which actor, in the lower which of its takings or begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Owner(pub(super) u8);

impl Owner {
    pub(super) fn new(actor: usize, nonce: u8) -> Self {
        Self(u8::try_from(actor).unwrap_or(15) << 4 | nonce & 15)
    }
}

/// What a key has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Record {
    #[default]
    Absent,
    Deleted,
    /// The bytes, by their number.
    Live {
        value: u16,
        owner: Owner,
        revision: u8,
        written: u8,
    },
}

/// What a write asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Write {
    Create(u16),
    Update(u16, u8),
    Delete(u8),
}

/// A write, where it goes, whose it is, and whether it begins a plan, which takes over another controller's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) place: Place,
    pub(super) write: Write,
    pub(super) owner: Owner,
    pub(super) begins: bool,
}

/// What an import answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Found(u8, u16),
    Deleted,
    Absent,
    Written(u8),
    Stale,
    /// A page with one key, by its place in the order of all; or an empty one.
    Key(u8),
    NoKey,
    /// An ask, by its place in the queue; or none.
    Asked(u8),
    NoAsk,
    HandedBack,
    Unavailable,
    Denied,
    Unknown,
}

/// What a builder or a controller does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// A builder looks whether checks are held.
    Assessing,
    /// It has taken one as usual, and looks again.
    AssessingAgain,
    /// An ordinary check runs.
    Check,
    Letting,
    /// The let-through key is held, and its check runs before `until`.
    Through,
    Keeping,
    /// The check is over; a write without an answer is looked for before the key is dropped.
    Looking,
    Dropping,
    /// The builder was killed; its guardian ends the check.
    Orphan,
    /// A controller begins.
    Beginning,
    Builds,
    Saying,
    Ending,
}

impl Phase {
    /// Whether no call is under way.
    pub(super) fn is_rest(self) -> bool {
        matches!(self, Self::Idle | Self::Check | Self::Through | Self::Orphan | Self::Builds)
    }
}

/// A builder or a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Actor {
    pub(super) phase: Phase,
    /// The call under way, by its number.
    pub(super) call: u32,
    /// The answer to a write that is on its way back.
    pub(super) answer: Option<Answer>,
    /// When the last write of the let-through key was sent, by its own clock.
    pub(super) sent: u8,
    pub(super) owner: Owner,
    /// What is known of its key.
    pub(super) revision: u8,
    pub(super) since: u16,
    /// Its let-through check runs before then; zero: must not run.
    pub(super) until: u8,
    /// A write of the let-through key was not answered.
    pub(super) unsettled: bool,
    /// The ask that it has taken.
    pub(super) ask: Option<u8>,
    /// The plans whose keys have stood since its look began, one bit each.
    pub(super) stood: u8,
    /// When its key is due to be written again.
    pub(super) next: u8,
    /// Ticks that its clock is behind the true time.
    pub(super) behind: u8,
}

impl Actor {
    /// Nothing is left but its clock.
    pub(super) fn rest(&mut self) {
        *self = Self { behind: self.behind, ..Self::default() };
    }
}

/// A state of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The true time, in ticks.
    pub(super) now: u8,
    /// Ticks that the store's clock is ahead of it.
    pub(super) ahead: u8,
    /// The last revision of each bucket.
    pub(super) last: [u8; 2],
    pub(super) records: [Record; 3],
    /// Writes on their way that nobody waits for, in order.
    pub(super) late: [Option<Sent>; LATE],
    /// Builders first.
    pub(super) actors: [Actor; ACTORS],
    /// The asks that wait, one bit each.
    pub(super) waiting: u8,
    pub(super) left: Faults,
    /// How many builders have begun to look.
    pub(super) begun: u8,
    /// A check was let through already.
    pub(super) had_one: bool,
    /// The invariants that a step broke, one bit each.
    pub(super) broken: u8,
}

impl State {
    pub(super) fn clock(&self, i: usize) -> u8 {
        self.now - self.actors[i].behind
    }

    /// Whether a let-through check of this builder runs.
    pub(super) fn runs_through(&self, i: usize) -> bool {
        self.actors[i].until > self.clock(i)
    }

    pub(super) fn let_through(&self) -> usize {
        (0..BUILDERS).filter(|i| self.runs_through(*i)).count()
    }

    pub(super) fn record(&self, place: Place) -> Record {
        self.records[usize::from(place.0)]
    }

    /// The plans whose keys stand, one bit each.
    pub(super) fn standing(&self) -> u8 {
        let stands = |plan: &u8| matches!(self.record(Place(*plan)), Record::Live { .. });
        [1, 2].iter().filter(|plan| stands(plan)).map(|plan| 1 << plan).sum()
    }

    pub(super) fn oldest(&self) -> Option<u8> {
        (0..3).find(|ask| self.waiting & 1 << ask != 0)
    }

    /// Somebody takes the oldest ask.
    pub(super) fn take(&mut self, i: usize) -> Option<u8> {
        let oldest = self.oldest()?;
        self.waiting &= !(1 << oldest);
        self.actors[i].ask = Some(oldest);
        Some(oldest)
    }

    /// What it has taken waits again.
    pub(super) fn hand_back(&mut self, i: usize) {
        if let Some(ask) = self.actors[i].ask.take() {
            self.waiting |= 1 << ask;
        }
    }

    pub(super) fn read(&self, place: Place) -> Answer {
        match self.record(place) {
            Record::Absent => Answer::Absent,
            Record::Deleted => Answer::Deleted,
            Record::Live { value, revision, .. } => Answer::Found(revision, value),
        }
    }

    /// A write arrives.
    pub(super) fn apply(&mut self, sent: Sent) -> Answer {
        let record = self.record(sent.place);
        let is_live = matches!(record, Record::Live { .. });
        let is_at = |at: u8| matches!(record, Record::Live { revision, .. } if revision == at);
        let value = match sent.write {
            Write::Create(value) if !is_live => Some(value),
            Write::Update(value, at) if is_at(at) => Some(value),
            Write::Delete(at) if is_at(at) => None,
            _ => return Answer::Stale,
        };
        if matches!(record, Record::Live { owner, .. } if owner != sent.owner && !sent.begins) {
            self.broken |= Invariant::OnlyYourOwn as u8;
        }
        let written = self.now + self.ahead;
        let last = &mut self.last[sent.place.bucket()];
        *last += 1;
        let revision = *last;
        self.records[usize::from(sent.place.0)] = match value {
            Some(value) => Record::Live { value, owner: sent.owner, revision, written },
            None => Record::Deleted,
        };
        Answer::Written(revision)
    }

    /// Whether a key may go by its age.
    pub(super) fn is_old(&self, place: Place, ttl: u8) -> bool {
        matches!(self.record(place), Record::Live { written, .. } if self.now + self.ahead >= written + ttl)
    }

    pub(super) fn expire(&mut self, place: Place) {
        self.records[usize::from(place.0)] = Record::Absent;
    }

    /// A write stays on its way. The bounds of a run leave room for it.
    pub(super) fn on_its_way(&mut self, sent: Sent) {
        if let Some(free) = self.late.iter_mut().find(|late| late.is_none()) {
            *free = Some(sent);
        }
    }

    /// One form for all states that go on in the same way.
    pub(super) fn settle(&mut self, ttl: u8) {
        let (standing, oldest) = (self.standing(), (self.now + self.ahead).saturating_sub(ttl));
        for i in 0..ACTORS {
            let clock = self.clock(i);
            let one = &mut self.actors[i];
            one.stood &= standing;
            if one.next <= clock {
                one.next = 0;
            }
            if one.until <= clock {
                one.until = 0;
                if one.phase == Phase::Orphan {
                    one.rest();
                }
            }
        }
        for record in &mut self.records {
            if let Record::Live { written, .. } = record {
                *written = oldest.max(*written);
            }
        }
        for at in 0..LATE {
            // Revisions are never given again: what cannot land now never will.
            if let Some(Sent { place, write: Write::Update(_, expected) | Write::Delete(expected), .. }) =
                self.late[at]
                && !matches!(self.record(place), Record::Live { revision, .. } if revision == expected)
            {
                self.late[at] = None;
            }
        }
        self.late.sort_unstable();
    }

    /// The revisions of a bucket as small as they can be in the same order, which is all that a policy may make of
    /// them. Only while no call under way has one in it.
    pub(super) fn renumber(&mut self, bucket: usize) {
        let (places, actors) =
            if bucket == 0 { (0..1, 0..BUILDERS) } else { (1..self.records.len(), BUILDERS..ACTORS) };
        let mut known = [0; 2 * ACTORS];
        let mut count = 0;
        let mut each = |revision: &mut u8| {
            known[count] = *revision;
            count += 1;
        };
        self.revisions(places.clone(), actors.clone(), &mut each);
        let known = &mut known[..count];
        known.sort_unstable();
        // Zero stands for none, and stays.
        let rank = |revision: u8| {
            let below = known.iter().enumerate();
            let below =
                below.filter(|(at, one)| **one > 0 && **one < revision && known[..*at].last() != Some(*one));
            if revision == 0 { 0 } else { 1 + below.count() }
        };
        let mut last = 0;
        let mut each = |revision: &mut u8| {
            *revision = u8::try_from(rank(*revision)).unwrap_or(u8::MAX);
            last = last.max(*revision);
        };
        self.revisions(places, actors, &mut each);
        self.last[bucket] = last;
    }

    fn revisions(&mut self, places: Range<usize>, actors: Range<usize>, each: &mut impl FnMut(&mut u8)) {
        for sent in self.late.iter_mut().flatten() {
            if places.contains(&usize::from(sent.place.0))
                && let Write::Update(_, expected) | Write::Delete(expected) = &mut sent.write
            {
                each(expected);
            }
        }
        for record in &mut self.records[places] {
            if let Record::Live { revision, .. } = record {
                each(revision);
            }
        }
        for one in &mut self.actors[actors] {
            each(&mut one.revision);
        }
    }

    /// A fingerprint of 128 bits, by which states are told apart.
    pub(super) fn digest(&self) -> u128 {
        let mut mixer = Mixer::new();
        self.hash(&mut mixer);
        mixer.whole()
    }
}
