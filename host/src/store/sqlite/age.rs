//! How old a row is. Stamps of the steady clock compare within one run of it only.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::clock::{Steady, nanos};
use crate::limits::VALUE_BYTES;
use crate::store::Fault;

/// Tells one run of the steady clock from another: the kernel's boot id and the time namespace.
///
/// A row stamped in another run cannot be compared with now. It is stamped anew when it is first met,
/// and so lives for a whole ttl from then, and a taken ask is kept for its whole wait: later than it might,
/// never earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRun(String);

impl ClockRun {
    /// The run of this machine's clock, as this process reads it.
    ///
    /// # Errors
    /// [`Fault::Denied`] when the kernel does not say its boot id; then `/proc` is not mounted.
    pub fn of_this_machine() -> Result<Self, Fault> {
        let boot = std::fs::read_to_string(BOOT_ID).map_err(|error| {
            Fault::Denied(format!("cannot read {BOOT_ID} ({error}), by which keys are aged; mount /proc"))
        })?;
        // A kernel without time namespaces has but the one.
        let namespace = std::fs::read_link(TIME_NAMESPACE).unwrap_or_default();
        Ok(Self(format!("{} {}", boot.trim(), namespace.display())))
    }

    /// A run by another name, for a test that reboots.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(name.into())
    }

    /// As it is written into a row.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a row says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Its value lives until this instant, unless written again.
    LiveUntil(Steady),
    /// Its value aged out.
    Aged,
    /// Stamped in another run of the clock, or at a time that is yet to come.
    Uncomparable,
}

/// The age of what was `written` in this run of the clock (`ours`) or in another.
pub(super) fn age(written: Steady, ours: bool, ttl: Duration, now: Steady) -> Age {
    if !ours || written > now {
        return Age::Uncomparable;
    }
    let until = written.plus(ttl);
    if now < until { Age::LiveUntil(until) } else { Age::Aged }
}

/// Whether a bucket has rows that cannot be compared with `now`.
pub(super) fn any_uncomparable(
    connection: &Connection,
    bucket: i64,
    run: &ClockRun,
    now: Steady,
) -> rusqlite::Result<bool> {
    connection
        .prepare(&format!("SELECT EXISTS (SELECT 1 FROM entries WHERE {UNCOMPARABLE})"))?
        .query_row(params![bucket, run.as_str(), now.0, VALUE_BYTES], |row| row.get(0))
}

/// Stamp a bucket's rows that cannot be compared with `now` as written now. Their revisions stay.
pub(super) fn stamp_anew(
    connection: &Connection,
    bucket: i64,
    run: &ClockRun,
    now: Steady,
) -> rusqlite::Result<usize> {
    connection
        .prepare(&format!("UPDATE entries SET run = ?2, written_ns = ?3 WHERE {UNCOMPARABLE}"))?
        .execute(params![bucket, run.as_str(), now.0, VALUE_BYTES])
}

/// Drop what had its last write two ttls ago: markers that everybody had the time to see. Without it a
/// bucket of ever new names would grow for ever. A marker of another run of the clock goes at once.
pub(super) fn forget(
    connection: &Connection,
    bucket: i64,
    ttl: Duration,
    run: &ClockRun,
    now: Steady,
) -> rusqlite::Result<usize> {
    let before = now.since(Steady(nanos(ttl).saturating_mul(2)));
    connection
        .prepare(
            "DELETE FROM entries WHERE bucket = ?1
             AND ((run = ?2 AND written_ns < ?3) OR (run <> ?2 AND deleted = 1))",
        )?
        .execute(params![bucket, run.as_str(), nanos(before)])
}

/// A row too large to be this store's is left alone: it is refused wherever it is read.
const UNCOMPARABLE: &str = "bucket = ?1 AND (run <> ?2 OR written_ns > ?3) AND octet_length(value) <= ?4";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const TIME_NAMESPACE: &str = "/proc/self/ns/time";

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_nanos(100);

    #[test]
    fn a_value_lives_for_exactly_its_ttl() {
        assert_eq!(age(Steady(50), true, TTL, Steady(50)), Age::LiveUntil(Steady(150)));
        assert_eq!(age(Steady(50), true, TTL, Steady(149)), Age::LiveUntil(Steady(150)));
        assert_eq!(age(Steady(50), true, TTL, Steady(150)), Age::Aged);
    }

    #[test]
    fn a_stamp_of_another_run_or_of_the_future_is_not_compared() {
        assert_eq!(age(Steady(50), false, TTL, Steady(9_999)), Age::Uncomparable);
        assert_eq!(age(Steady(51), true, TTL, Steady(50)), Age::Uncomparable);
    }

    #[test]
    fn this_machine_has_one_run_of_its_clock() {
        let first = ClockRun::of_this_machine().expect("Linux says its boot id");
        assert!(first.as_str().len() > 36, "{first:?}");
        assert_eq!(ClockRun::of_this_machine(), Ok(first));
    }
}
