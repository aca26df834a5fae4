//! The store: compare-and-set over one key, ages and markers by its own clock, and what it may do wrong.

use crate::check::Invariant;
use crate::config::LATE;
use crate::state::{Answer, Object, Record, Rev, State, Value, Write};

impl State {
    /// What a read finds now.
    pub(crate) fn read(&self) -> Answer {
        reading(self.store.record)
    }

    /// What a read finds that does not know of the last change.
    pub(crate) fn read_stale(&self) -> Option<Answer> {
        let (_, before) = self.store.before?;
        Some(reading(before)).filter(|answer| *answer != self.read())
    }

    /// A write arrives.
    pub(crate) fn apply(&mut self, from: Object, write: Write) -> Answer {
        let (record, last) = (self.store.record, self.store.last);
        let live = matches!(record.value, Value::Live(..));
        let expected = |revision: Rev| live && record.revision == revision;
        let value =
            match write {
                // Whatever it is that stands there, a server does not look.
                Write::Create(value, marker) if record.revision == marker => Value::Live(value, from),
                Write::Update(value, revision) if expected(revision) => Value::Live(value, from),
                Write::Delete(revision, meant_for) if expected(revision) => {
                    if meant_for == self.store.created { Value::Deleted } else { Value::Erased }
                }
                Write::Purge(below) => {
                    self.purge(from, below);
                    return Answer::Purged;
                }
                Write::Create(..) | Write::Update(..) | Write::Delete(..) => return Answer::Stale,
            };
        if matches!(record.value, Value::Live(_, owner) if owner != from) {
            self.broken |= Invariant::OnlyYourOwn as u8;
        }
        self.store.before = Some((last, record));
        let revision = last.next();
        self.store.last = revision;
        self.store.record = Record { revision, value, written: self.store_clock() };
        Answer::Written(revision)
    }

    fn purge(&mut self, from: Object, below: Rev) {
        let record = self.store.record;
        if record.revision < below && record != Record::default() {
            if matches!(record.value, Value::Live(_, owner) if owner != from) {
                self.broken |= Invariant::OnlyYourOwn as u8;
            }
            self.store.before = Some((self.store.last, record));
            self.store.record = Record::default();
        }
        self.store.last = self.store.last.max(Rev::of(below.number().saturating_sub(1)));
    }

    /// Whether the record may go by its age.
    pub(crate) fn is_old(&self, ttl: u8) -> bool {
        let record = self.store.record;
        matches!(record.value, Value::Live(..)) && self.store_clock() >= record.written.saturating_add(ttl)
    }

    /// It goes by its age.
    pub(crate) fn expire(&mut self, marked: bool) {
        self.store.before = Some((self.store.last, self.store.record));
        if marked {
            self.store.record.value = Value::Aged;
        } else {
            self.store.record = Record::default();
        }
    }

    /// Raised again from nothing.
    pub(crate) fn wipe(&mut self) {
        self.store.created += 1;
        self.store.last = Rev::ZERO;
        self.store.before = None;
        self.store.record = Record::default();
    }

    /// Whether the last write, which stands there, was a renewal; `None` when there is none to be forgotten.
    pub(crate) fn last_write_renewed(&self) -> Option<bool> {
        let (last, before) = self.store.before?;
        let is_last = matches!(self.store.record.value, Value::Live(..)) && last < self.store.last;
        is_last.then_some(matches!(before.value, Value::Live(..)))
    }

    /// As if the last write had never been.
    pub(crate) fn forget(&mut self) {
        if let Some((last, record)) = self.store.before.take() {
            self.store.last = last;
            self.store.record = record;
        }
    }

    /// An operator's mark is written at the revision that was read.
    pub(crate) fn overwrite(&mut self, value: Value) {
        self.store.before = Some((self.store.last, self.store.record));
        self.store.last = self.store.last.next();
        self.store.record = Record { revision: self.store.last, value, written: self.store_clock() };
    }

    /// A write stays on its way with nobody waiting for its answer. The bounds of a run leave room for it.
    pub(crate) fn on_its_way(&mut self, from: Object, write: Write) {
        if let Some(free) = self.store.late.iter_mut().find(|late| late.is_none()) {
            *free = Some((from, write));
        }
    }

    /// One form for all states that go on in the same way: what can never show again is dropped.
    pub(crate) fn settle(&mut self) {
        let left = self.left;
        if left.stale + left.forget_create + left.forget_renewal == 0 {
            self.store.before = None;
        }
        if self.store.late == [None; LATE] {
            return;
        }
        let record = self.store.record;
        let live = matches!(record.value, Value::Live(..));
        for late in &mut self.store.late {
            let lost = match late {
                Some((_, Write::Update(_, revision) | Write::Delete(revision, _))) => {
                    !(left.revisions_fall() || live && record.revision == *revision)
                }
                _ => false,
            };
            if lost {
                *late = None;
            }
        }
        self.store.late.sort_unstable();
    }
}

fn reading(record: Record) -> Answer {
    match record.value {
        Value::Absent => Answer::Absent,
        Value::Deleted => Answer::Deleted(record.revision),
        Value::Aged => Answer::Aged(record.revision),
        Value::Erased => Answer::Erased(record.revision),
        Value::Live(value, _) => Answer::Found(record.revision, value),
    }
}
