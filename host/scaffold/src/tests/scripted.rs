//! A host whose answers are written down beforehand, and which writes down what it was asked.

use std::collections::VecDeque;
use std::format;
use std::string::String;
use std::vec::Vec;

use incumbent_policy::Imports;
use incumbent_policy::imports::{Ask, BucketInfo, Fault, Level, Moment, Reading, Role, Taken, Wall, Write};

/// The mocked host.
pub struct Scripted {
    /// What it was asked, in order; clock, log and `moved` are not written down.
    pub asked: Vec<String>,
    /// The time, which stands still.
    pub now_ns: u64,
    answers: VecDeque<Answer>,
}

/// One answer.
#[derive(Debug)]
#[allow(dead_code, reason = "each test needs some of them")]
pub enum Answer {
    /// Of `get`.
    Reading(Reading),
    /// Of `create`, `update` and `delete`.
    Write(Write),
    /// Of `keys`.
    Keys(Vec<String>),
    /// Of `info`.
    Info(BucketInfo),
    /// Of `last_sequence`, `purge_below` and `floor`.
    Number(u64),
    /// Of `oldest_waiting`.
    Waiting(Option<Ask>),
    /// Of `take`.
    Taken(Option<Taken>),
    /// Of `hand_back`.
    Done(()),
    /// Of each of them.
    Fault(Fault),
}

impl Scripted {
    /// A host that answers so, in this order.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { asked: Vec::new(), now_ns: 3_600_000_000_000, answers: answers.into_iter().collect() }
    }

    fn answer(&mut self, asked: String) -> Result<Answer, Fault> {
        let answer = self.answers.pop_front().unwrap_or_else(|| panic!("no answer is left for {asked}"));
        self.asked.push(asked);
        match answer {
            Answer::Fault(fault) => Err(fault),
            answer => Ok(answer),
        }
    }
}

/// The next answer, which must be of this kind.
macro_rules! answer {
    ($host:ident, $kind:ident, $($asked:tt)+) => {
        match $host.answer(format!($($asked)+))? {
            Answer::$kind(answer) => Ok(answer),
            other => panic!("{other:?} is no answer to {:?}", $host.asked.last()),
        }
    };
}

impl Imports for Scripted {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        answer!(self, Reading, "get {bucket:?} {key}")
    }

    fn create(&mut self, bucket: Role, key: &str, _value: &[u8]) -> Result<Write, Fault> {
        answer!(self, Write, "create {bucket:?} {key}")
    }

    fn update(&mut self, bucket: Role, key: &str, _value: &[u8], expected: u64) -> Result<Write, Fault> {
        answer!(self, Write, "update {bucket:?} {key} at {expected}")
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        answer!(self, Write, "delete {bucket:?} {key} at {expected}")
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        answer!(self, Keys, "keys {bucket:?} after {after:?}, {most}")
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        answer!(self, Info, "info {bucket:?}")
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        answer!(self, Number, "last sequence")
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        answer!(self, Number, "purge below {sequence}")
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        answer!(self, Waiting, "oldest waiting {queue}")
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        answer!(self, Taken, "take {queue} within {within_ns}")
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        answer!(self, Done, "hand back {ticket} after {delay_ns}")
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        answer!(self, Number, "floor")
    }

    fn moved(&mut self, _was: u64, _floor: u64) {}

    fn now(&mut self) -> Moment {
        Moment { steady_ns: self.now_ns, wall: Wall { seconds: 1_767_225_600, nanoseconds: 0 } }
    }

    fn log(&mut self, _level: Level, _target: &str, _message: &str) {}
}
