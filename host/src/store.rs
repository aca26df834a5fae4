//! What a store must do. Stores know nothing of leases.
//!
//! # The contract
//!
//! One suite (`tests/store_contract.rs`) holds every backend to these rules; the memory backend is
//! their plainest statement.
//!
//! 1. **Revisions** belong to the bucket. Every write that wins (create, update, delete) gets one above
//!    every earlier one. Zero is never given.
//! 2. **Compare-and-set only.** `create` wins when the key has no value: never written, deleted, aged
//!    out, or purged; `create_over` when, moreover, the marker there is still the one that was read. `update`
//!    and `delete` win when the key's last revision is the expected one *and* it has a value. Anything else is
//!    [`Write::Stale`], with nothing changed.
//! 3. **Age.** A value not written again for the bucket's ttl is gone: reads do not find it and `create`
//!    wins. Never earlier than the ttl after the write was applied, by the store's own clock; how much
//!    later is the store's affair. A write renews the age.
//! 4. **Markers.** A deleted key reads as [`Reading::Deleted`] and an aged one as [`Reading::Aged`] where
//!    the store knows; a store that does not know says [`Reading::Absent`]. Either may turn into `Absent`
//!    later. A deletion that names the bucket it is meant for is refused as stale in another one, raised again
//!    meanwhile, where the store can tell in time; else the key reads as [`Reading::Erased`]. So does one that
//!    another program purged, or deleted whatever stood there, where the store knows.
//! 5. **Purge.** `purge_below(n)` drops every entry below `n`, live ones too, leaves no marker, and the
//!    next revision is at least `n`. It never lowers anything. Zero and one are refused as `Denied`.
//! 6. **Faults tell certain from unknown.** Every fault but [`Fault::Unknown`] means surely not applied,
//!    now or later. Busy is `Unavailable`.
//! 7. **Bounded.** Every call ends by itself within the time that the store was opened with. A value
//!    above [`VALUE_BYTES`](crate::limits::VALUE_BYTES) is refused on write and on read as `TooLarge`.
//! 8. **Cancel-safe.** Dropping a call's future leaves the store usable; a write so dropped may or may not
//!    be applied.
//! 9. **Any name.** A key is any UTF-8 of 1 to [`NAME_BYTES`](crate::limits::NAME_BYTES) bytes, others
//!    are refused as `Denied` before any I/O. `keys` answers the names as they were given, page by page.
//! 10. **Watch.** After a change of the key a watcher is woken, soon; it may also be woken for nothing.
//!     A store that cannot watch says so, and the caller polls.

pub mod memory;
pub mod name;
pub mod nats;
pub mod open;
pub mod queue;
pub mod sqlite;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::queue::{Queue, QueueConfig};

/// A key's value and the revision at which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Rises with every write to the bucket, never zero.
    pub revision: u64,
    /// What was written.
    pub value: Vec<u8>,
}

/// What a read found. A read may be stale: it proves neither presence nor absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The key has a value.
    Found(Entry),
    /// The key was deleted, at this revision, by a deletion meant for this very bucket or for whichever it came to.
    Deleted(u64),
    /// The store says that the key's last value aged out; the revision of its marker, or of the value.
    Aged(u64),
    /// Nothing is known of the key.
    Absent,
    /// Its value was taken away, at this revision, by none who could vouch for it: purged, deleted whatever stood there,
    /// or by a deletion meant for another bucket.
    Erased(u64),
}

impl Reading {
    /// The revision of what stands there instead of a value; zero where nothing is known to.
    #[must_use]
    pub fn marker(&self) -> u64 {
        match self {
            Self::Deleted(revision) | Self::Aged(revision) | Self::Erased(revision) => *revision,
            Self::Found(_) | Self::Absent => 0,
        }
    }
}

/// How a compare-and-set ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It won, at this revision.
    Written(u64),
    /// It lost for certain. What stands there now, where the store says so at once; `None` is "not said".
    Stale(Option<Entry>),
}

/// What went wrong with a store. The text names the bucket, the key and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not allowed. Surely not applied. Remedy: permissions, or the name.
    #[error("{0}")]
    Denied(String),
    /// The bucket does not exist. Surely not applied. Remedy: `incumbent bucket create`, which its text ends with.
    #[error("{0}")]
    MissingBucket(String),
    /// A value over the limit. Surely not applied.
    #[error("{0}")]
    TooLarge(String),
    /// The store cannot be reached or is busy. Surely not applied. Remedy: try again.
    #[error("{0}")]
    Unavailable(String),
    /// No answer: it may have been applied, or may be yet. Remedy: look.
    #[error("{0}")]
    Unknown(String),
}

/// The state of a bucket, read fresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Tells this bucket from one of the same name raised again from nothing.
    pub created: u64,
    /// How long a key lives unless written again; zero is for ever.
    pub ttl: Duration,
    /// Whether a key that aged out leaves a marker that readers and watchers see.
    pub markers: bool,
}

/// What a bucket is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// How long a key lives unless written again, within
    /// [`TTL_SHORTEST`](crate::limits::TTL_SHORTEST) and [`TTL_LONGEST`](crate::limits::TTL_LONGEST).
    pub ttl: Duration,
    /// On how many servers it is kept. One for a store of one machine.
    pub replicas: usize,
}

/// A connection to a store that holds buckets, and [work queues](queue).
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The bucket of this name, looked up now.
    ///
    /// # Errors
    /// [`Fault::MissingBucket`] when there is none.
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault>;

    /// Make a bucket. One that is there already with the same settings is left alone, one with others
    /// is refused as [`Fault::Denied`] with both named.
    ///
    /// # Errors
    /// A fault as the store said it.
    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault>;

    /// The work queue of this name, looked up now.
    ///
    /// # Errors
    /// [`Fault::MissingBucket`] when there is none.
    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault>;

    /// Make a work queue. One that is there already with the same settings is left alone, one with others
    /// is refused as [`Fault::Denied`] with both named.
    ///
    /// # Errors
    /// A fault as the store said it.
    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault>;

    /// What an absence in this store is worth: whether it keeps what it acknowledged.
    fn keeps_what_it_acknowledged(&self) -> bool;
}

/// One bucket of a store. See the [contract](self).
#[async_trait]
pub trait Bucket: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// Read a key.
    ///
    /// # Errors
    /// A [`Fault`]; `Unknown` is never answered for a read.
    async fn get(&self, key: &str) -> Result<Reading, Fault>;

    /// Write a key that has no value.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault>;

    /// Write a key where still that stands which was read instead of a value: [`Reading::marker`]. In a bucket raised
    /// again meanwhile that revision may be a value's, which is then written over.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault>;

    /// Write a key whose last revision is `expected`.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault>;

    /// Delete a key whose last revision is `expected`. `meant_for` is the bucket, by its
    /// [`created`](BucketInfo::created), that it is to leave a marker in; `None` is whichever it comes to.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault>;

    /// The keys that have a value, in byte order: those after `after` only, `most` at the most.
    ///
    /// # Errors
    /// A [`Fault`]; `TooLarge` where the store must read all of them to answer and there are more than
    /// [`KEYS`](crate::limits::KEYS).
    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault>;

    /// The bucket's state.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn info(&self) -> Result<BucketInfo, Fault>;

    /// The highest revision given so far, zero when none was.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn last_revision(&self) -> Result<u64, Fault>;

    /// Drop every entry below `revision` and give no revision below it again. Answers how many went.
    ///
    /// # Errors
    /// A [`Fault`].
    async fn purge_below(&self, revision: u64) -> Result<u64, Fault>;

    /// Watch a key.
    ///
    /// # Errors
    /// A [`Fault`] when the store does not let this one watch; the caller polls instead.
    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault>;
}

/// Waits for changes of one key. Dropping it ends the watch.
#[async_trait]
pub trait Watch: Send {
    /// Until the key may have changed since the last call (or since the watch began). `false`: the watch
    /// has ended and the caller polls, or watches anew. Cancel-safe.
    async fn changed(&mut self) -> bool;
}

/// Refuses a key that no store takes, before any I/O.
///
/// # Errors
/// [`Fault::Denied`] with the length and the limit.
pub fn check_key(key: &str) -> Result<(), Fault> {
    let limit = crate::limits::NAME_BYTES;
    match key.len() {
        0 => Err(Fault::Denied("the name is empty; give it 1 to 200 bytes".into())),
        n if n > limit => Err(Fault::Denied(format!(
            "the name {:?}… is {n} bytes long; the limit is {limit}",
            key.chars().take(24).collect::<String>()
        ))),
        _ => Ok(()),
    }
}

/// Refuses a value over the limit.
///
/// # Errors
/// [`Fault::TooLarge`] with the size and the limit.
pub fn check_value(key: &str, value: &[u8]) -> Result<(), Fault> {
    let limit = crate::limits::VALUE_BYTES;
    if value.len() > limit {
        return Err(Fault::TooLarge(format!(
            "the value of {key:?} has {} bytes; the limit is {limit}",
            value.len()
        )));
    }
    Ok(())
}

/// Refuses a bucket's settings that no store takes.
///
/// # Errors
/// [`Fault::Denied`] with the figure and the bounds.
pub fn check_config(name: &str, config: &BucketConfig) -> Result<(), Fault> {
    check_made(("bucket", name), ("a ttl", config.ttl), config.replicas)
}

/// Refuses what no store takes, of a bucket or of a queue: its name, its time and its replicas.
fn check_made(
    (what, name): (&str, &str),
    (time, duration): (&str, Duration),
    replicas: usize,
) -> Result<(), Fault> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 200 || !name.chars().all(allowed) {
        return Err(Fault::Denied(format!(
            "the {what} name {:?} does not fit; use 1 to 200 of the characters a-z A-Z 0-9 _ -",
            name.chars().take(200).collect::<String>()
        )));
    }
    let (shortest, longest) = (crate::limits::TTL_SHORTEST, crate::limits::TTL_LONGEST);
    if duration < shortest || duration > longest {
        return Err(Fault::Denied(format!(
            "{time} of {duration:?} does not fit the {what} {name}; it must lie within {shortest:?} and \
             {longest:?}"
        )));
    }
    if replicas == 0 {
        return Err(Fault::Denied(format!("the {what} {name} cannot have 0 replicas; give it 1, 3 or 5")));
    }
    Ok(())
}

/// Refuses a purge that no bucket outlives: at 0 or 1 some servers wipe it, and above
/// [`REVISION_HIGHEST`](crate::limits::REVISION_HIGHEST) some forget what they acknowledged.
///
/// # Errors
/// [`Fault::Denied`] with the figure and the bounds.
pub fn check_purge(bucket: &str, revision: u64) -> Result<(), Fault> {
    let highest = crate::limits::REVISION_HIGHEST;
    if revision < 2 || revision > highest {
        return Err(Fault::Denied(format!(
            "a purge below {revision} does not fit the bucket {bucket}; give it 2 to {highest}"
        )));
    }
    Ok(())
}
