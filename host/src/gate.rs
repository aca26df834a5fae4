//! The gate that every act passes: two atomics and a clock, no lock, no wait, no policy call.
//!
//! Checked under loom (`tests/schedules` includes this file with loom's atomics), so it names its atomics
//! by `super::sync` and uses nothing else.

use super::sync::{AtomicU64, Ordering};

/// Shut, and may be opened again. Any steady reading lies above it.
const SHUT: u64 = 0;
/// Shut for good. Any steady reading but zero lies above it too.
const SEALED: u64 = 1;
/// Set in the count of permits once the gate is sealed.
const NO_MORE: u64 = 1 << 63;

/// One lease object's gate: opened, renewed and shut by its keeper, read by everybody.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Written before `until` first opens the gate, and never changed: one lease object, one tenure.
    epoch: AtomicU64,
    /// The first steady instant, nanoseconds, at which the gate is shut.
    until: AtomicU64,
    /// The permits that are out, and `NO_MORE`.
    permits: AtomicU64,
}

impl Gate {
    /// A gate that is shut.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { epoch: AtomicU64::new(0), until: AtomicU64::new(SHUT), permits: AtomicU64::new(0) }
    }

    /// The epoch, when the gate is open at the instant that `now` reads.
    ///
    /// `until` is read before the clock: the other way round, a thread held up between the two would
    /// compare an old reading of the clock and pass after its time.
    #[inline]
    pub(crate) fn pass(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        (now() < until).then(|| self.epoch.load(Ordering::Relaxed))
    }

    /// The instant at which it shuts, when it is open or was when its time ran out.
    pub(crate) fn until(&self) -> Option<u64> {
        Some(self.until.load(Ordering::Acquire)).filter(|until| *until > SEALED)
    }

    /// Open the gate, or keep it open, until this instant. `false` when it is sealed.
    pub(crate) fn open(&self, epoch: u64, until: u64) -> bool {
        let mut seen = self.until.load(Ordering::Acquire);
        loop {
            if seen == SEALED {
                return false;
            }
            self.epoch.store(epoch, Ordering::Relaxed);
            // An exchange, so that a seal set meanwhile is not written over.
            match self.until.compare_exchange(
                seen,
                until.max(SEALED + 1),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Shut the gate for now.
    pub(crate) fn shut(&self) {
        let mut seen = self.until.load(Ordering::Acquire);
        while seen != SEALED {
            match self.until.compare_exchange(seen, SHUT, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Shut the gate for good, and give no permit any more.
    pub(crate) fn seal(&self) {
        self.until.swap(SEALED, Ordering::AcqRel);
        self.permits.fetch_or(NO_MORE, Ordering::AcqRel);
    }

    /// Count an act in, when the gate is open. Each `Some` is owed one [`leave`](Self::leave).
    pub(crate) fn enter(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        // Counted first and looked at second, so that whoever seals sees either the permit or its refusal.
        let before = self.permits.fetch_add(1, Ordering::AcqRel);
        let epoch = if before & NO_MORE == 0 { self.pass(now) } else { None };
        if epoch.is_none() {
            self.leave();
        }
        epoch
    }

    /// Count an act out. `true` when it was the last one of a sealed gate.
    pub(crate) fn leave(&self) -> bool {
        self.permits.fetch_sub(1, Ordering::AcqRel) == NO_MORE + 1
    }

    /// Whether it is shut for good.
    pub(crate) fn is_sealed(&self) -> bool {
        self.until.load(Ordering::Acquire) == SEALED
    }

    /// Whether it is sealed and no act is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.permits.load(Ordering::Acquire) == NO_MORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 57;

    /// A gate that is open until 10.
    fn open() -> Gate {
        let gate = Gate::new();
        assert!(gate.open(EPOCH, 10));
        gate
    }

    #[test]
    fn it_is_shut_until_it_is_opened_and_at_its_time() {
        let gate = Gate::new();
        assert_eq!((gate.pass(|| 0), gate.enter(|| 0), gate.until()), (None, None, None));
        let gate = open();
        assert_eq!((gate.pass(|| 9), gate.pass(|| 10), gate.until()), (Some(EPOCH), None, Some(10)));
        assert!(gate.open(EPOCH, 20));
        assert_eq!((gate.pass(|| 19), gate.pass(|| 20), gate.until()), (Some(EPOCH), None, Some(20)));
    }

    #[test]
    fn opened_until_a_time_long_past_it_is_open_to_nobody_and_not_sealed() {
        let gate = Gate::new();
        for until in [0, 1, 2] {
            assert!(gate.open(EPOCH, until));
            assert_eq!((gate.until(), gate.pass(|| 2)), (Some(2), None));
            assert!(!gate.is_sealed());
        }
    }

    #[test]
    fn shut_it_may_be_opened_again() {
        let gate = open();
        gate.shut();
        assert_eq!((gate.pass(|| 0), gate.enter(|| 0), gate.until()), (None, None, None));
        assert!(!gate.is_sealed());
        assert!(gate.open(EPOCH, 10));
        assert_eq!(gate.pass(|| 9), Some(EPOCH));
    }

    #[test]
    fn sealed_it_is_shut_for_good() {
        let gate = open();
        assert!(!gate.is_sealed());
        gate.seal();
        gate.shut();
        assert!(!gate.open(EPOCH, 20));
        gate.seal();
        assert!(gate.is_sealed() && gate.is_quiet());
        assert_eq!((gate.pass(|| 1), gate.enter(|| 1), gate.until()), (None, None, None));
    }

    #[test]
    fn the_last_act_of_a_sealed_gate_is_told_so() {
        let gate = open();
        assert!(!gate.is_quiet(), "nobody waits for the quiet of an open gate");
        assert_eq!((gate.enter(|| 9), gate.enter(|| 9), gate.enter(|| 10)), (Some(EPOCH), Some(EPOCH), None));
        assert!(!gate.leave() && !gate.leave(), "not sealed");
        assert_eq!(gate.enter(|| 9), Some(EPOCH));
        assert_eq!(gate.enter(|| 9), Some(EPOCH));
        gate.seal();
        assert_eq!(gate.enter(|| 9), None);
        assert!(!gate.is_quiet() && !gate.leave());
        assert!(!gate.is_quiet() && gate.leave());
        assert!(gate.is_quiet());
    }
}
