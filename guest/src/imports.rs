//! All that a policy can reach, as a trait: the component fills it from its imports, a test from a script.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What a bucket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The leases.
    Lease,
    /// The delivery plans in their build phase.
    Plans,
    /// The checks that run.
    Running,
}

/// A key's value and the revision at which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Rises with every write to the bucket, never zero.
    pub revision: u64,
    /// What was written.
    pub value: Vec<u8>,
}

/// What a read found; it may be stale, and proves neither presence nor absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The key has a value.
    Found(Entry),
    /// Deleted at this revision.
    Deleted(u64),
    /// Aged out, as the store says.
    Aged(u64),
    /// Nothing is known of it.
    Absent,
    /// Taken away at this revision by none who could vouch for it.
    Erased(u64),
}

/// How a compare-and-set ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It won, at this revision.
    Written(u64),
    /// It lost for certain; what stands there, where the store says so at once.
    Stale(Option<Entry>),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not allowed; surely not applied.
    Denied(String),
    /// No such bucket; surely not applied.
    MissingBucket(String),
    /// Over a limit; surely not applied.
    TooLarge(String),
    /// Out of reach or busy; surely not applied.
    Unavailable(String),
    /// No answer: it may have been applied, or may be yet.
    Unknown(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(text)
            | Self::MissingBucket(text)
            | Self::TooLarge(text)
            | Self::Unavailable(text)
            | Self::Unknown(text) => f.write_str(text),
        }
    }
}

/// The state of a bucket, read fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Tells this bucket from one of the same name raised again from nothing.
    pub created: u64,
    /// How long a key lives unless written again; zero is for ever.
    pub ttl_ns: u64,
}

/// The time of day: fills text fields, is never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wall {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Never steps, and counts time asleep.
    pub steady_ns: u64,
    /// The time of day.
    pub wall: Wall,
}

/// One ask of a work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its place in the queue's stream.
    pub sequence: u64,
    /// When the queue stored it.
    pub stored: Option<Wall>,
    /// What was asked.
    pub body: Vec<u8>,
}

/// An ask taken from its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Names it towards the host.
    pub ticket: u64,
    /// What was taken.
    pub ask: Ask,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What happened as it should.
    Info,
    /// What an operator may want to look at.
    Warn,
}

/// What the host supplies. Documented in `wit/`, one file an interface.
#[expect(missing_docs, reason = "each function is documented where the contract is: in wit/")]
#[expect(clippy::missing_errors_doc, reason = "as above")]
pub trait Imports {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault>;
    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault>;
    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault>;
    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault>;
    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault>;
    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault>;

    fn last_sequence(&mut self) -> Result<u64, Fault>;
    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault>;

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault>;
    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault>;
    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault>;

    fn floor(&mut self) -> Result<u64, Fault>;
    fn moved(&mut self, was: u64, floor: u64);

    fn now(&mut self) -> Moment;
    fn log(&mut self, level: Level, target: &str, message: &str);
}
