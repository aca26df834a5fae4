//! What is done to the file for a work queue: one transaction for each call of its contract.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params};

use super::age::ClockRun;
use super::fault::Failed;
use super::session::{Session, created};
use crate::clock::{Steady, nanos};
use crate::limits::ASK_BYTES;
use crate::store::Fault;
use crate::store::queue::{Ask, QueueInfo};

/// One taking of one ask. The count tells it from every other taking of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    queue: i64,
    sequence: u64,
    pub(super) deliveries: u64,
}

impl Session<'_> {
    /// Make a queue, or find it made with the same ack wait.
    pub(super) fn create_queue(&mut self, name: &str, ack_wait: Duration) -> Result<(), Failed> {
        let created = created(name)?;
        let transaction = immediate(self.connection)?;
        match queue(&transaction, name)? {
            Some(there) if there.ack_wait == ack_wait => {}
            Some(QueueRow { ack_wait: there, .. }) => {
                return Err(Failed::Said(Fault::Denied(format!(
                    "the queue {name} has an ack wait of {there:?}, not {ack_wait:?}; use that, or another queue"
                ))));
            }
            None => {
                transaction.execute(
                    "INSERT INTO queues (name, created, ack_wait_ns, last_sequence) VALUES (?1, ?2, ?3, 0)",
                    params![name, created, nanos(ack_wait)],
                )?;
            }
        }
        transaction.commit().map_err(Failed::Commit)
    }

    /// The queue's state.
    pub(super) fn queue_info(&mut self, name: &str) -> Result<QueueInfo, Failed> {
        let counted = self.connection.prepare(COUNT)?.query_row([name], |row| {
            let (all, waiting) = (row.get::<_, u64>(1)?, row.get::<_, u64>(2)?);
            let ack_wait = Duration::from_nanos(row.get(0)?);
            Ok(QueueInfo { ack_wait, waiting, taken: all.saturating_sub(waiting) })
        });
        counted.optional()?.ok_or_else(|| Failed::NoQueue(name.into()))
    }

    /// Put an ask; its sequence.
    pub(super) fn put(&mut self, name: &str, body: &[u8]) -> Result<u64, Failed> {
        let transaction = immediate(self.connection)?;
        let there = existing(&transaction, name)?;
        let sequence = there.last_sequence + 1;
        let since_1970 = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).ok();
        let stored = since_1970.and_then(|since| i64::try_from(since.as_nanos()).ok());
        transaction.execute(
            "UPDATE queues SET last_sequence = ?2 WHERE created = ?1",
            params![there.created, sequence],
        )?;
        transaction.execute(
            "INSERT INTO asks (queue, sequence, stored_ns, deliveries, owned, body)
             VALUES (?1, ?2, ?3, 0, 0, ?4)",
            params![there.created, sequence, stored, body],
        )?;
        transaction.commit().map_err(Failed::Commit)?;
        Ok(sequence)
    }

    /// The waiting ask of the lowest sequence.
    pub(super) fn oldest_waiting(&mut self, name: &str) -> Result<Option<Ask>, Failed> {
        let there = existing(self.connection, name)?;
        if any_unsettled(self.connection, there.created, self.run, self.clock.now())? {
            let transaction = immediate(self.connection)?;
            settle(&transaction, there.created, self.run, self.clock.now())?;
            transaction.commit().map_err(Failed::Commit)?;
        }
        first_waiting(self.connection, there.created)?.map(Waiting::into_ask).transpose()
    }

    /// Whether a [`take`](Self::take) has something to do. A look that finds nothing takes no lock.
    pub(super) fn is_worth_a_take(&mut self, name: &str) -> Result<bool, Failed> {
        let there = existing(self.connection, name)?;
        Ok(self.connection.prepare(ANY_WAITING)?.query_row([there.created], |row| row.get(0))?
            || any_unsettled(self.connection, there.created, self.run, self.clock.now())?)
    }

    /// Take the waiting ask of the lowest sequence.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<(Ask, Taking)>, Failed> {
        let transaction = immediate(self.connection)?;
        // Read under the lock: every stamp that is there was made before.
        let now = self.clock.now();
        let there = existing(&transaction, name)?;
        settle(&transaction, there.created, self.run, now)?;
        let taken = match first_waiting(&transaction, there.created)? {
            None => None,
            Some(next) => {
                let deliveries = next.deliveries + 1;
                let ask = next.into_ask()?;
                transaction.prepare(TAKE)?.execute(params![
                    there.created,
                    ask.sequence,
                    deliveries,
                    self.run.as_str(),
                    now.0,
                    again(now, there.ack_wait)
                ])?;
                let taking = Taking { queue: there.created, sequence: ask.sequence, deliveries };
                Some((ask, taking))
            }
        };
        transaction.commit().map_err(Failed::Commit)?;
        Ok(taken)
    }

    /// Keep an ask from all others for another ack wait. `false`: it is this taker's no more.
    pub(super) fn working(&mut self, taking: Taking) -> Result<bool, Failed> {
        let transaction = immediate(self.connection)?;
        let now = self.clock.now();
        let ack_wait = transaction
            .prepare("SELECT ack_wait_ns FROM queues WHERE created = ?1")?
            .query_row([taking.queue], |row| row.get(0))
            .optional()?;
        let until = again(now, Duration::from_nanos(ack_wait.unwrap_or_default()));
        let Taking { queue, sequence, deliveries } = taking;
        finish(transaction, WORKING, params![queue, sequence, deliveries, self.run.as_str(), now.0, until])
    }

    /// Remove an ask. `false`: it is this taker's no more.
    pub(super) fn done(&mut self, taking: Taking) -> Result<bool, Failed> {
        let Taking { queue, sequence, deliveries } = taking;
        finish(immediate(self.connection)?, DONE, params![queue, sequence, deliveries])
    }

    /// Let an ask be given again after `delay`. `false`: it is this taker's no more.
    pub(super) fn hand_back(&mut self, taking: Taking, delay: Duration) -> Result<bool, Failed> {
        let transaction = immediate(self.connection)?;
        let now = self.clock.now();
        let Taking { queue, sequence, deliveries } = taking;
        finish(
            transaction,
            HAND_BACK,
            params![queue, sequence, deliveries, self.run.as_str(), now.0, again(now, delay)],
        )
    }
}

#[derive(Debug)]
struct QueueRow {
    created: i64,
    ack_wait: Duration,
    last_sequence: u64,
}

/// An ask that waits.
#[derive(Debug)]
struct Waiting {
    sequence: u64,
    deliveries: u64,
    stored: Option<Duration>,
    size: u64,
    /// `None` when it is over the limit.
    body: Option<Vec<u8>>,
}

impl Waiting {
    fn into_ask(self) -> Result<Ask, Failed> {
        let Self { sequence, stored, size, .. } = self;
        let body = self.body.ok_or_else(|| {
            Failed::TooLarge(format!(
                "the ask {sequence} has {size} bytes, above the limit of {ASK_BYTES}; remove that row"
            ))
        })?;
        Ok(Ask { sequence, stored, body })
    }
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Change the row of a taking, and commit. `false`: there is no such taking any more.
fn finish(transaction: Transaction<'_>, change: &str, of: impl Params) -> Result<bool, Failed> {
    let changed = transaction.prepare(change)?.execute(of)?;
    transaction.commit().map_err(Failed::Commit)?;
    Ok(changed > 0)
}

fn queue(connection: &Connection, name: &str) -> rusqlite::Result<Option<QueueRow>> {
    let row = |row: &Row<'_>| {
        let ack_wait = Duration::from_nanos(row.get(1)?);
        Ok(QueueRow { created: row.get(0)?, ack_wait, last_sequence: row.get(2)? })
    };
    connection
        .prepare("SELECT created, ack_wait_ns, last_sequence FROM queues WHERE name = ?1")?
        .query_row([name], row)
        .optional()
}

fn existing(connection: &Connection, name: &str) -> Result<QueueRow, Failed> {
    queue(connection, name)?.ok_or_else(|| Failed::NoQueue(name.into()))
}

fn first_waiting(connection: &Connection, queue: i64) -> rusqlite::Result<Option<Waiting>> {
    let row = |row: &Row<'_>| {
        Ok(Waiting {
            sequence: row.get(0)?,
            deliveries: row.get(1)?,
            stored: row.get::<_, Option<u64>>(2)?.map(Duration::from_nanos),
            size: row.get(3)?,
            body: row.get(4)?,
        })
    };
    connection.prepare(FIRST)?.query_row(params![queue, ASK_BYTES], row).optional()
}

/// Until when an ask is kept from others; SQLite holds 63 bits.
fn again(now: Steady, wait: Duration) -> u64 {
    now.plus(wait.min(WAIT_LONGEST)).0
}

/// Whether a queue has taken asks that came due, or whose stamps cannot be compared with `now`.
fn any_unsettled(connection: &Connection, queue: i64, run: &ClockRun, now: Steady) -> rusqlite::Result<bool> {
    connection
        .prepare(&format!("SELECT EXISTS ({DUE}) OR EXISTS ({UNCOMPARABLE})"))?
        .query_row(params![queue, run.as_str(), now.0], |row| row.get(0))
}

/// Let the asks that came due wait with the others. One stamped in another run of the clock, or at a time that
/// is yet to come, is stamped anew, and so is kept for its whole wait from when it is first met: later than it
/// might, never earlier.
fn settle(connection: &Connection, queue: i64, run: &ClockRun, now: Steady) -> rusqlite::Result<()> {
    let of = params![queue, run.as_str(), now.0, SETTLED_AT_ONCE];
    connection
        .prepare(&format!(
            "UPDATE asks SET run = ?2, again_ns = ?3 + (again_ns - heard_ns), heard_ns = ?3
             WHERE rowid IN (SELECT rowid FROM ({UNCOMPARABLE}) LIMIT ?4)"
        ))?
        .execute(of)?;
    connection
        .prepare(&format!(
            "UPDATE asks SET run = NULL, again_ns = NULL, heard_ns = NULL
             WHERE rowid IN (SELECT rowid FROM ({DUE}) LIMIT ?4)"
        ))?
        .execute(of)?;
    Ok(())
}

/// Asks settled in one call, for a call to stay short after very many of them came due; a later one goes on.
const SETTLED_AT_ONCE: u32 = 1000;

/// The longest wait that is kept, 2⁶² ns: 146 years, and as much room for the clock.
const WAIT_LONGEST: Duration = Duration::from_nanos(1 << 62);

// The indexes are named because SQLite, which knows nothing of how many asks there are, would choose others.

const DUE: &str =
    "SELECT rowid FROM asks INDEXED BY asks_by_again WHERE queue = ?1 AND run = ?2 AND again_ns <= ?3";

const UNCOMPARABLE: &str = "
    SELECT rowid FROM asks INDEXED BY asks_by_heard
        WHERE queue = ?1 AND run < ?2 AND again_ns IS NOT NULL
    UNION ALL SELECT rowid FROM asks INDEXED BY asks_by_heard
        WHERE queue = ?1 AND run > ?2 AND again_ns IS NOT NULL
    UNION ALL SELECT rowid FROM asks INDEXED BY asks_by_heard
        WHERE queue = ?1 AND run = ?2 AND heard_ns > ?3 AND again_ns IS NOT NULL";

const ANY_WAITING: &str =
    "SELECT EXISTS (SELECT 1 FROM asks INDEXED BY asks_that_wait WHERE queue = ?1 AND again_ns IS NULL)";

/// The waiting ask of the lowest sequence. It is both the oldest and the next to be given: as none is given
/// before a lower one that waits, what was taken before comes before what never was.
const FIRST: &str = "
    SELECT sequence, deliveries, stored_ns, octet_length(body),
           CASE WHEN octet_length(body) <= ?2 THEN body END
    FROM asks INDEXED BY asks_that_wait WHERE queue = ?1 AND again_ns IS NULL ORDER BY sequence LIMIT 1";

const COUNT: &str = "
    SELECT ack_wait_ns, (SELECT count(*) FROM asks WHERE queue = created),
           (SELECT count(*) FROM asks INDEXED BY asks_that_wait
            WHERE queue = created AND again_ns IS NULL AND deliveries = 0)
    FROM queues WHERE name = ?1";

const TAKE: &str = "
    UPDATE asks SET deliveries = ?3, owned = 1, run = ?4, heard_ns = ?5, again_ns = ?6
    WHERE queue = ?1 AND sequence = ?2";

const WORKING: &str = "
    UPDATE asks SET run = ?4, heard_ns = ?5, again_ns = ?6
    WHERE queue = ?1 AND sequence = ?2 AND deliveries = ?3 AND owned = 1";

const DONE: &str = "DELETE FROM asks WHERE queue = ?1 AND sequence = ?2 AND deliveries = ?3 AND owned = 1";

const HAND_BACK: &str = "
    UPDATE asks SET owned = 0, run = ?4, heard_ns = ?5, again_ns = ?6
    WHERE queue = ?1 AND sequence = ?2 AND deliveries = ?3 AND owned = 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::layout;

    /// What SQLite would do for a statement, step by step.
    fn plan(connection: &Connection, statement: &str) -> String {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("it is SQL");
        let steps = plan.raw_query().mapped(|row| row.get::<_, String>(3));
        steps.collect::<Result<Vec<_>, _>>().expect("a plan").join("\n")
    }

    #[test]
    fn no_call_reads_all_asks_or_sorts_them() {
        let connection = Connection::open_in_memory().expect("memory");
        layout::bring_up(&connection, 0).expect("laid out");
        for (statement, index) in [
            (DUE, "INDEX asks_by_again"),
            (UNCOMPARABLE, "INDEX asks_by_heard"),
            (ANY_WAITING, "INDEX asks_that_wait"),
            (FIRST, "INDEX asks_that_wait"),
            (COUNT, "COVERING INDEX asks_that_wait"),
            (WORKING, "INDEX"),
            (DONE, "INDEX"),
        ] {
            let plan = plan(&connection, statement);
            assert!(plan.contains(index), "{statement}\n{plan}");
            assert!(!plan.contains("SCAN asks") && !plan.contains("TEMP B-TREE"), "{statement}\n{plan}");
        }
    }
}
