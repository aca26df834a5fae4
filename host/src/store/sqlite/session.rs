//! What is done to the file: one transaction for each call of the contract.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Statement, TransactionBehavior, params};

use super::age::{self, Age, ClockRun};
use super::fault::Failed;
use crate::clock::{Clock, Steady, nanos};
use crate::limits::{NAME_BYTES, VALUE_BYTES};
use crate::store::{BucketConfig, BucketInfo, Entry, Fault, Reading, Write};

/// A connection, and the clock that its rows are stamped by.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) clock: &'a Clock,
    pub(super) run: &'a ClockRun,
}

impl Session<'_> {
    /// Make a bucket, or find it made with the same ttl.
    pub(super) fn create_bucket(&mut self, name: &str, config: &BucketConfig) -> Result<(), Failed> {
        let created = created(name)?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match bucket(&transaction, name)? {
            Some(there) if there.ttl == config.ttl => {}
            Some(there) => {
                return Err(Failed::Said(Fault::Denied(format!(
                    "the bucket {name} has a ttl of {:?}, not {:?}; use that, or another bucket",
                    there.ttl, config.ttl
                ))));
            }
            None => {
                transaction.execute(
                    "INSERT INTO buckets (name, created, ttl_ns, last_revision) VALUES (?1, ?2, ?3, 0)",
                    params![name, created, nanos(config.ttl)],
                )?;
            }
        }
        transaction.commit().map_err(Failed::Commit)
    }

    /// The bucket's state, and the highest revision it gave.
    pub(super) fn info(&mut self, name: &str) -> Result<(BucketInfo, u64), Failed> {
        let there = bucket(self.connection, name)?.ok_or_else(|| Failed::Missing(name.into()))?;
        let info = BucketInfo { created: there.created.unsigned_abs(), ttl: there.ttl, markers: true };
        Ok((info, there.last_revision))
    }

    /// Read a key.
    pub(super) fn get(&mut self, name: &str, key: &str) -> Result<Reading, Failed> {
        let seen = self.look_and_stamp(name, key)?;
        seen.reading(self.clock.now())
    }

    /// A key's state, for a watch to compare with.
    pub(super) fn mark(&mut self, name: &str, key: &str) -> Result<Mark, Failed> {
        Ok(self.look_and_stamp(name, key)?.mark(self.clock.now()))
    }

    /// Write `value` (`None`: a delete) where `when` holds.
    pub(super) fn write(
        &mut self,
        name: &str,
        key: &str,
        value: Option<&[u8]>,
        when: When,
    ) -> Result<Write, Failed> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read under the lock: every stamp that is there was made before.
        let now = self.clock.now();
        let mut seen =
            look(&transaction, name, key, self.run)?.ok_or_else(|| Failed::Missing(name.into()))?;
        if seen.is_uncomparable(now) {
            age::stamp_anew(&transaction, seen.bucket.created, self.run, now)?;
            seen = look(&transaction, name, key, self.run)?.ok_or_else(|| Failed::Missing(name.into()))?;
        }
        let write = if seen.is(when, now) {
            let revision = seen.bucket.last_revision + 1;
            if !matches!(when, When::ValueAt(..)) && revision % FORGET_EVERY == 0 {
                age::forget(&transaction, seen.bucket.created, seen.bucket.ttl, self.run, now)?;
            }
            transaction
                .prepare("UPDATE buckets SET last_revision = ?2 WHERE created = ?1")?
                .execute(params![seen.bucket.created, revision])?;
            transaction.prepare(PUT)?.execute(params![
                seen.bucket.created,
                key,
                revision,
                value.is_none(),
                self.run.as_str(),
                now.0,
                value.unwrap_or_default()
            ])?;
            Write::Written(revision)
        } else {
            match seen.reading(now)? {
                Reading::Found(entry) => Write::Stale(Some(entry)),
                _ => Write::Stale(None),
            }
        };
        transaction.commit().map_err(Failed::Commit)?;
        Ok(write)
    }

    /// The keys that have a value, in byte order: those after `after` only, `most` at the most.
    pub(super) fn keys(
        &mut self,
        name: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, Failed> {
        let there = bucket(self.connection, name)?.ok_or_else(|| Failed::Missing(name.into()))?;
        if age::any_uncomparable(self.connection, there.created, self.run, self.clock.now())? {
            self.stamp_anew(there.created)?;
        }
        let aged = nanos(self.clock.now().since(Steady(nanos(there.ttl))));
        let mut statement = self.connection.prepare(
            "SELECT CASE WHEN octet_length(key) <= ?4 THEN key END FROM entries
             WHERE bucket = ?1 AND key > ?6 AND deleted = 0 AND (run <> ?2 OR written_ns > ?3)
             ORDER BY key LIMIT ?5",
        )?;
        // No key is empty, so all of them come after the empty one.
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows =
            params![there.created, self.run.as_str(), aged, NAME_BYTES, most, after.unwrap_or_default()];
        statement
            .query_map(rows, |row| row.get(0))?
            .collect::<Result<Option<Vec<String>>, _>>()?
            .ok_or_else(|| Failed::TooLarge(format!("a name is over {NAME_BYTES} bytes; remove that row")))
    }

    /// Drop what is below `revision` and give nothing below it again; how many went.
    pub(super) fn purge_below(&mut self, name: &str, revision: u64) -> Result<u64, Failed> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let there = bucket(&transaction, name)?.ok_or_else(|| Failed::Missing(name.into()))?;
        let gone = transaction.execute(
            "DELETE FROM entries WHERE bucket = ?1 AND revision < ?2",
            params![there.created, revision],
        )?;
        transaction.execute(
            "UPDATE buckets SET last_revision = max(last_revision, ?2) WHERE created = ?1",
            params![there.created, revision - 1],
        )?;
        transaction.commit().map_err(Failed::Commit)?;
        Ok(gone as u64)
    }

    /// A key, after whatever in its bucket cannot be compared with now was stamped anew.
    fn look_and_stamp(&mut self, name: &str, key: &str) -> Result<Seen, Failed> {
        let seen = look(self.connection, name, key, self.run)?.ok_or_else(|| Failed::Missing(name.into()))?;
        // Read after the row: a stamp made in this run of the clock cannot lie ahead of it.
        if !seen.is_uncomparable(self.clock.now()) {
            return Ok(seen);
        }
        self.stamp_anew(seen.bucket.created)?;
        look(self.connection, name, key, self.run)?.ok_or_else(|| Failed::Missing(name.into()))
    }

    fn stamp_anew(&mut self, bucket: i64) -> Result<(), Failed> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        age::stamp_anew(&transaction, bucket, self.run, self.clock.now())?;
        transaction.commit().map_err(Failed::Commit)
    }
}

/// A key's state without its value: equal as long as nothing happened to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    bucket: i64,
    /// The last write's revision and whether its value is live still. `None`: nothing is known.
    last: Option<(u64, bool)>,
    /// When the value ages out.
    pub(super) until: Option<Steady>,
}

/// What a write is conditional on.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// The key has no value.
    NoValue,
    /// Nor anything but what a read told to stand there instead; see [`Reading::marker`].
    Marker(u64),
    /// It has one at this revision, in the bucket created so or (`None`) in whichever there is.
    ValueAt(u64, Option<u64>),
}

/// A bucket and one key in it.
#[derive(Debug)]
pub(super) struct Seen {
    bucket: BucketRow,
    last: Option<Last>,
}

#[derive(Debug)]
struct BucketRow {
    created: i64,
    ttl: Duration,
    last_revision: u64,
}

/// The last write of a key.
#[derive(Debug)]
struct Last {
    revision: u64,
    deleted: bool,
    /// Stamped in this run of the clock.
    ours: bool,
    written: Steady,
    size: u64,
    /// `None` when it is over the limit.
    value: Option<Vec<u8>>,
}

impl Seen {
    /// A key's state at `now`.
    pub(super) fn mark(&self, now: Steady) -> Mark {
        let until = match self.age(now) {
            Some(Age::LiveUntil(until)) => Some(until),
            _ => None,
        };
        let live = self.live_revision(now);
        let last = self.last.as_ref().map(|last| (last.revision, live.is_some()));
        Mark { bucket: self.bucket.created, last, until }
    }

    /// The age of the key's value, `None` when it has none.
    fn age(&self, now: Steady) -> Option<Age> {
        let last = self.last.as_ref().filter(|last| !last.deleted)?;
        Some(age::age(last.written, last.ours, self.bucket.ttl, now))
    }

    fn is_uncomparable(&self, now: Steady) -> bool {
        let bounded = self.last.as_ref().is_some_and(|last| last.value.is_some());
        bounded && self.age(now) == Some(Age::Uncomparable)
    }

    /// The revision of the key's value, `None` when it has none. What cannot be compared lives.
    fn live_revision(&self, now: Steady) -> Option<u64> {
        self.age(now).filter(|age| *age != Age::Aged).and(self.last.as_ref()).map(|last| last.revision)
    }

    fn is(&self, when: When, now: Steady) -> bool {
        let live = self.live_revision(now);
        match when {
            When::NoValue => live.is_none(),
            When::Marker(marker) => {
                live.is_none() && self.last.as_ref().map_or(0, |last| last.revision) == marker
            }
            When::ValueAt(revision, bucket) => {
                live == Some(revision)
                    && bucket.is_none_or(|created| created == self.bucket.created.unsigned_abs())
            }
        }
    }

    fn reading(self, now: Steady) -> Result<Reading, Failed> {
        let live = self.live_revision(now);
        Ok(match (self.last, live) {
            (None, _) => Reading::Absent,
            (Some(last), _) if last.deleted => Reading::Deleted(last.revision),
            (Some(last), None) => Reading::Aged(last.revision),
            (Some(Last { value: Some(value), .. }), Some(revision)) => {
                Reading::Found(Entry { revision, value })
            }
            (Some(last), Some(_)) => {
                return Err(Failed::TooLarge(format!(
                    "the value has {} bytes, above the limit of {VALUE_BYTES}; remove that row",
                    last.size
                )));
            }
        })
    }
}

/// A bucket and one key in it, as they are now; `None` when there is no such bucket.
fn look(connection: &Connection, name: &str, key: &str, run: &ClockRun) -> rusqlite::Result<Option<Seen>> {
    look_by(&mut connection.prepare(LOOK)?, name, key, run)
}

/// As [`look`], by the statement [`LOOK`] prepared once for many keys.
pub(super) fn look_by(
    statement: &mut Statement<'_>,
    name: &str,
    key: &str,
    run: &ClockRun,
) -> rusqlite::Result<Option<Seen>> {
    statement.query_row(params![name, key, run.as_str(), VALUE_BYTES], seen).optional()
}

/// What tells a bucket, or a queue, from others of its name. Not a time: a clock that was set back would give
/// one that was given before.
pub(super) fn created(name: &str) -> Result<u64, Fault> {
    let random = getrandom::u64().map_err(|error| {
        Fault::Unavailable(format!("no random number to make {name} with ({error}); try again"))
    })?;
    Ok(random >> 1)
}

fn bucket(connection: &Connection, name: &str) -> rusqlite::Result<Option<BucketRow>> {
    connection
        .prepare("SELECT created, ttl_ns, last_revision FROM buckets WHERE name = ?1")?
        .query_row([name], bucket_row)
        .optional()
}

fn bucket_row(row: &Row<'_>) -> rusqlite::Result<BucketRow> {
    Ok(BucketRow { created: row.get(0)?, ttl: Duration::from_nanos(row.get(1)?), last_revision: row.get(2)? })
}

fn seen(row: &Row<'_>) -> rusqlite::Result<Seen> {
    let last = match row.get::<_, Option<u64>>(3)? {
        None => None,
        Some(revision) => Some(Last {
            revision,
            deleted: row.get(4)?,
            ours: row.get(5)?,
            written: Steady(row.get(6)?),
            size: row.get(7)?,
            value: row.get(8)?,
        }),
    };
    Ok(Seen { bucket: bucket_row(row)?, last })
}

/// Created keys between two sweeps of old markers: a sweep reads the whole bucket.
const FORGET_EVERY: u64 = 64;

pub(super) const LOOK: &str = "
    SELECT b.created, b.ttl_ns, b.last_revision, e.revision, e.deleted, e.run = ?3, e.written_ns,
           octet_length(e.value), CASE WHEN octet_length(e.value) <= ?4 THEN e.value END
    FROM buckets b LEFT JOIN entries e ON e.bucket = b.created AND e.key = ?2
    WHERE b.name = ?1";

const PUT: &str = "
    INSERT INTO entries (bucket, key, revision, deleted, run, written_ns, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (bucket, key) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted,
        run = excluded.run, written_ns = excluded.written_ns, value = excluded.value";
