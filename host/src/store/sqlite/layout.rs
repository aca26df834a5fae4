//! The tables, and how a file of an older layout is brought to this one.
//!
//! A step only adds: a program that knows an older layout and has the file open goes on undisturbed.

use rusqlite::Connection;

/// The layout that this program writes. Raised with every change.
pub(super) const VERSION: i64 = 2;

/// "INCB": the mark by which a file is known to be ours.
pub(super) const APPLICATION: i64 = 0x494e_4342;

/// Bring a file from layout `from` (zero: nothing is in it) to [`VERSION`]. In a transaction of the caller's.
pub(super) fn bring_up(connection: &Connection, from: i64) -> rusqlite::Result<()> {
    for (_, step) in STEPS.iter().filter(|(layout, _)| *layout > from) {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// What each layout added to the one before.
const STEPS: [(i64, &str); 2] = [(1, BUCKETS), (VERSION, QUEUES)];

/// Entries name their bucket by `created`, so that those of a bucket that is gone are never taken for
/// those of one raised again under its name.
const BUCKETS: &str = "
    CREATE TABLE buckets (
        name          TEXT    NOT NULL PRIMARY KEY,
        created       INTEGER NOT NULL UNIQUE,
        ttl_ns        INTEGER NOT NULL CHECK (ttl_ns > 0),
        last_revision INTEGER NOT NULL CHECK (last_revision >= 0)
    ) STRICT;
    CREATE TABLE entries (
        bucket        INTEGER NOT NULL REFERENCES buckets (created) ON DELETE CASCADE,
        key           TEXT    NOT NULL,
        revision      INTEGER NOT NULL CHECK (revision > 0),
        deleted       INTEGER NOT NULL CHECK (deleted IN (0, 1)),
        run           TEXT    NOT NULL,
        written_ns    INTEGER NOT NULL,
        value         BLOB    NOT NULL,
        PRIMARY KEY (bucket, key)
    ) STRICT;
";

/// Asks name their queue by `created`, as entries do their bucket. `stored_ns` is of the wall clock and only
/// told; the other times are of the steady clock.
///
/// An ask without `again_ns` waits to be taken, and the first index has those in the order in which they are
/// given: one that was taken before has a lower sequence than one that never was. One with it is kept from all
/// until then, counted from `heard_ns` in that `run` of the clock; the other indexes find what came due, and
/// what is of another run or lies ahead. `owned` is whether the last taking still counts: it was not handed
/// back. (The first index names `again_ns` for the counts to read nothing else.)
const QUEUES: &str = "
    CREATE TABLE queues (
        name          TEXT    NOT NULL PRIMARY KEY,
        created       INTEGER NOT NULL UNIQUE,
        ack_wait_ns   INTEGER NOT NULL CHECK (ack_wait_ns > 0),
        last_sequence INTEGER NOT NULL CHECK (last_sequence >= 0)
    ) STRICT;
    CREATE TABLE asks (
        queue         INTEGER NOT NULL REFERENCES queues (created) ON DELETE CASCADE,
        sequence      INTEGER NOT NULL CHECK (sequence > 0),
        stored_ns     INTEGER CHECK (stored_ns >= 0),
        deliveries    INTEGER NOT NULL CHECK (deliveries >= 0),
        owned         INTEGER NOT NULL CHECK (owned IN (0, 1)),
        run           TEXT,
        heard_ns      INTEGER,
        again_ns      INTEGER,
        body          BLOB    NOT NULL,
        PRIMARY KEY (queue, sequence),
        CHECK ((run IS NULL) = (again_ns IS NULL) AND (heard_ns IS NULL) = (again_ns IS NULL)),
        CHECK (heard_ns <= again_ns)
    ) STRICT;
    CREATE INDEX asks_that_wait ON asks (queue, sequence, deliveries, again_ns) WHERE again_ns IS NULL;
    CREATE INDEX asks_by_again ON asks (queue, run, again_ns) WHERE again_ns IS NOT NULL;
    CREATE INDEX asks_by_heard ON asks (queue, run, heard_ns) WHERE again_ns IS NOT NULL;
";
