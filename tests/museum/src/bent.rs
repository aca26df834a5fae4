//! Imports that tell a decision something else than there is, or do something else than it asked for.

use incumbent_policy::Imports;
use incumbent_policy::imports::{Ask, BucketInfo, Entry, Fault, Level, Moment, Reading, Role, Taken, Write};
use incumbent_policy::lease::Identity;

/// What is bent.
pub(crate) enum Bend {
    /// The floor reads so much lower.
    FloorLower(u64),
    /// Revisions are moved no further than one past the floor.
    JumpOfOne,
    /// Revisions are moved as far as they go.
    JumpTooFar,
    /// An update is made at whatever revision is there.
    PutForUpdate,
    /// A create is made over whatever is there.
    PutForCreate,
    /// A delete takes whatever is there.
    DeleteForDelete,
    /// A write without an answer is taken for one that won.
    UnknownIsWon,
    /// A write that surely failed is taken for one that won.
    FailedIsWon,
    /// A write that lost is taken for one that won.
    LostIsWon,
    /// Every record of the same instance reads as one's own.
    SameInstance(Identity),
    /// Every record reads as one's own.
    EveryRecord(Identity),
    /// No record reads as one's own.
    NoRecord,
    /// The bucket is always this one.
    OneBucket(u64),
    /// The clock stands still.
    NoTime(Option<Moment>),
    /// An older entry reads as the one that comes after this revision.
    OlderIsNewer(u64),
    /// What cannot be read is taken for absent.
    UnreadableIsAbsent,
    /// What was erased reads as deleted by its owner.
    ErasedIsGivenBack,
}

/// Bent imports.
pub(crate) struct Bent<'a, I> {
    pub(crate) io: &'a mut I,
    pub(crate) bend: Bend,
}

impl<I: Imports> Bent<'_, I> {
    /// The revision that stands there now.
    fn standing(&mut self, bucket: Role, key: &str) -> Option<u64> {
        match self.io.get(bucket, key) {
            Ok(Reading::Found(entry)) => Some(entry.revision),
            _ => None,
        }
    }

    /// The revision that a write may have won.
    fn guess(&mut self) -> u64 {
        self.io.last_sequence().unwrap_or(1)
    }

    fn answered(&mut self, answer: Result<Write, Fault>) -> Result<Write, Fault> {
        let won = matches!(
            (&self.bend, &answer),
            (Bend::UnknownIsWon, Err(Fault::Unknown(_)))
                | (Bend::FailedIsWon, Err(_))
                | (Bend::LostIsWon, Ok(Write::Stale(_)))
        );
        if won { Ok(Write::Written(self.guess())) } else { answer }
    }
}

impl<I: Imports> Imports for Bent<'_, I> {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        let reading = match self.io.get(bucket, key) {
            Err(_) if matches!(self.bend, Bend::UnreadableIsAbsent) => Ok(Reading::Absent),
            Ok(Reading::Erased(revision)) if matches!(self.bend, Bend::ErasedIsGivenBack) => {
                Ok(Reading::Deleted(revision))
            }
            reading => reading,
        }?;
        let Reading::Found(entry) = reading else { return Ok(reading) };
        Ok(Reading::Found(match &self.bend {
            Bend::SameInstance(who) => told(entry, |record, text| {
                if record.instance == who.instance { text.replace(&record.nonce, &who.nonce) } else { text }
            }),
            Bend::EveryRecord(who) => told(entry, |record, text| {
                text.replace(&record.nonce, &who.nonce).replace(&record.instance, &who.instance)
            }),
            Bend::NoRecord => told(entry, |record, text| text.replace(&record.nonce, "another")),
            Bend::OlderIsNewer(revision) => {
                Entry { revision: entry.revision.max(revision.saturating_add(1)), ..entry }
            }
            _ => entry,
        }))
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        if matches!(self.bend, Bend::PutForCreate)
            && let Some(revision) = self.standing(bucket, key)
        {
            return self.io.update(bucket, key, value, revision);
        }
        let answer = self.io.create(bucket, key, value);
        self.answered(answer)
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        let expected = match &self.bend {
            Bend::PutForUpdate => self.standing(bucket, key).unwrap_or(expected),
            _ => expected,
        };
        let answer = self.io.update(bucket, key, value, expected);
        self.answered(answer)
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        let expected = match &self.bend {
            Bend::DeleteForDelete => self.standing(bucket, key).unwrap_or(expected),
            _ => expected,
        };
        self.io.delete(bucket, key, expected)
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        self.io.keys(bucket, after, most)
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        let info = self.io.info(bucket)?;
        match self.bend {
            Bend::OneBucket(created) => Ok(BucketInfo { created, ..info }),
            _ => Ok(info),
        }
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.io.last_sequence()
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        match self.bend {
            Bend::JumpOfOne => {
                let floor = self.io.floor()?;
                self.io.purge_below(floor + 1)
            }
            Bend::JumpTooFar => self.io.purge_below(u64::MAX),
            _ => self.io.purge_below(sequence),
        }
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        self.io.oldest_waiting(queue)
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        self.io.take(queue, within_ns)
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        self.io.hand_back(ticket, delay_ns)
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        let floor = self.io.floor()?;
        match self.bend {
            Bend::FloorLower(by) => Ok(floor.saturating_sub(by)),
            _ => Ok(floor),
        }
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.io.moved(was, floor);
    }

    fn now(&mut self) -> Moment {
        match &mut self.bend {
            Bend::NoTime(first) => *first.get_or_insert_with(|| self.io.now()),
            _ => self.io.now(),
        }
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        self.io.log(level, target, message);
    }
}

/// An entry whose record reads otherwise.
fn told(entry: Entry, bend: impl FnOnce(&incumbent_policy::lease::Holder, String) -> String) -> Entry {
    let Ok(record) = incumbent_policy::record::read(&entry) else { return entry };
    match String::from_utf8(entry.value.clone()) {
        Ok(text) => Entry { value: bend(&record, text).into_bytes(), ..entry },
        Err(_) => entry,
    }
}
