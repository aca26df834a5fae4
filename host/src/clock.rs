//! The one clock that leases are measured by, and the time of day beside it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// An instant of the steady clock, in nanoseconds: never steps, and counts time asleep.
///
/// Comparable within one boot of one machine only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Steady(pub u64);

impl Steady {
    /// This instant and `later`, at most the last instant there is.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// How long from `earlier` to this instant, zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steady+{:?}", Duration::from_nanos(self.0))
    }
}

/// A duration as nanoseconds, at most `u64::MAX` (584 years).
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Where the time comes from: the machine, or a test's hand.
#[derive(Clone, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    Machine,
    Hand(Arc<AtomicU64>),
    Runtime(Arc<OfRuntime>),
}

/// A clock that goes by tokio's time.
struct OfRuntime {
    origin: tokio::time::Instant,
    start: u64,
    /// What it gains in a million, or loses.
    gains: i32,
    /// By how much it was set ahead, nanoseconds; it may go back again.
    ahead: AtomicI64,
}

impl Clock {
    /// The machine's: CLOCK_BOOTTIME. The library's own `Instant` stands still while a machine
    /// sleeps, and a gate read by it would pass after waking up.
    #[must_use]
    pub fn machine() -> Self {
        Self(Source::Machine)
    }

    /// One that a test moves by hand, starting at `start`.
    #[must_use]
    pub fn by_hand(start: Steady) -> Self {
        Self(Source::Hand(Arc::new(AtomicU64::new(start.0))))
    }

    /// One that goes by tokio's time, which may be paused, from `start` on, and gains `gains` in a million.
    pub(crate) fn of_runtime(start: Steady, gains: i32) -> Self {
        let origin = tokio::time::Instant::now();
        Self(Source::Runtime(Arc::new(OfRuntime { origin, start: start.0, gains, ahead: AtomicI64::new(0) })))
    }

    /// Set a clock that goes by tokio's time so far ahead of what it would show; the others are left alone.
    pub(crate) fn set_ahead(&self, by: Duration) {
        if let Source::Runtime(clock) = &self.0 {
            clock.ahead.store(i64::try_from(nanos(by)).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The steady time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Steady {
        match &self.0 {
            Source::Machine => boottime(),
            Source::Hand(at) => Steady(at.load(Ordering::SeqCst)),
            Source::Runtime(clock) => clock.now(),
        }
    }

    /// Move a clock that is moved by hand; the machine's is left alone.
    pub fn advance(&self, by: Duration) {
        if let Source::Hand(at) = &self.0 {
            at.fetch_add(nanos(by), Ordering::SeqCst);
        }
    }

    /// The time of day, which fills text fields and is never compared.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Source::Machine => SystemTime::now(),
            // Moves with the steady time, so that transcripts are the same in every run.
            Source::Hand(_) | Source::Runtime(_) => {
                SystemTime::UNIX_EPOCH
                    + Duration::from_secs(1_800_000_000)
                    + Duration::from_nanos(self.now().0)
            }
        }
    }
}

impl OfRuntime {
    fn now(&self) -> Steady {
        let passed = i64::try_from(nanos(self.origin.elapsed())).unwrap_or(i64::MAX);
        let gained = passed / 1_000_000 * i64::from(self.gains);
        let ahead = self.ahead.load(Ordering::SeqCst);
        Steady(self.start.saturating_add_signed(passed.saturating_add(gained).saturating_add(ahead)))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.0 {
            Source::Machine => "machine",
            Source::Hand(_) => "by hand",
            Source::Runtime(_) => "of the runtime",
        };
        write!(f, "Clock({source}, {:?})", self.now())
    }
}

#[inline]
fn boottime() -> Steady {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The kernel starts this clock at zero, so neither part is negative.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    Steady(seconds * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_does_not_go_back() {
        let clock = Clock::machine();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert!(first > Steady(0));
    }

    #[test]
    fn a_clock_by_hand_moves_only_by_hand() {
        let clock = Clock::by_hand(Steady(5));
        assert_eq!(clock.now(), Steady(5));
        clock.advance(Duration::from_nanos(7));
        assert_eq!(clock.now(), Steady(12));
        assert_eq!(Steady(5).since(Steady(9)), Duration::ZERO);
        assert_eq!(Steady(u64::MAX).plus(Duration::from_secs(1)), Steady(u64::MAX));
    }
}
