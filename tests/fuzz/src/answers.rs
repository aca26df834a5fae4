//! A host whose answers are given: one key, what a write answers, one ask. It notes what is written.

use incumbent_policy::Imports;
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Level, Moment, Reading, Role, Taken, Wall, Write,
};

/// Answers the same at every call.
pub(crate) struct Answers {
    /// What every key has.
    pub(crate) there: Entry,
    /// What every write answers.
    pub(crate) write: Write,
    /// What waits in every queue, and is fetched from it.
    pub(crate) ask: Option<Ask>,
    /// What it is.
    pub(crate) now: Moment,
    /// The revisions that updates and deletes expected.
    pub(crate) expected: Vec<u64>,
    /// How many creates there were.
    pub(crate) created: u32,
}

impl Answers {
    /// 100 s by the steady clock, 2027-01-15T08:00:00Z by the other.
    pub(crate) fn new(there: Entry, write: Write) -> Self {
        let now =
            Moment { steady_ns: 100_000_000_000, wall: Wall { seconds: 1_800_000_000, nanoseconds: 0 } };
        Self { there, write, ask: None, now, expected: Vec::new(), created: 0 }
    }
}

impl Imports for Answers {
    fn get(&mut self, _: Role, _: &str) -> Result<Reading, Fault> {
        Ok(Reading::Found(self.there.clone()))
    }

    fn create(&mut self, _: Role, _: &str, _: &[u8]) -> Result<Write, Fault> {
        self.created += 1;
        Ok(self.write.clone())
    }

    fn update(&mut self, _: Role, _: &str, _: &[u8], expected: u64) -> Result<Write, Fault> {
        self.expected.push(expected);
        Ok(self.write.clone())
    }

    fn delete(&mut self, _: Role, _: &str, expected: u64) -> Result<Write, Fault> {
        self.expected.push(expected);
        Ok(self.write.clone())
    }

    fn keys(&mut self, _: Role, _: Option<&str>, _: u32) -> Result<Vec<String>, Fault> {
        Ok(Vec::new())
    }

    fn info(&mut self, _: Role) -> Result<BucketInfo, Fault> {
        Ok(BucketInfo { created: 7, ttl_ns: 15_000_000_000 })
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        Ok(self.there.revision)
    }

    fn purge_below(&mut self, _: u64) -> Result<u64, Fault> {
        panic!("nothing here calls for a purge")
    }

    fn oldest_waiting(&mut self, _: &str) -> Result<Option<Ask>, Fault> {
        Ok(self.ask.clone())
    }

    fn take(&mut self, _: &str, _: u64) -> Result<Option<Taken>, Fault> {
        Ok(self.ask.clone().map(|ask| Taken { ticket: 1, ask }))
    }

    fn hand_back(&mut self, _: u64, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        Ok(0)
    }

    fn moved(&mut self, _: u64, _: u64) {}

    fn now(&mut self) -> Moment {
        self.now
    }

    fn log(&mut self, _: Level, _: &str, _: &str) {}
}
