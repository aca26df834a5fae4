//! When the command is asked to end and when it is killed: decided from the time said, nothing else.

use std::time::Duration;

use crate::clock::{Steady, nanos};

/// Everything is killed this long before the deadline: time for the kernel to take it down and for a
/// guardian that was scheduled late.
pub(super) const SLACK: Duration = Duration::from_millis(100);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before this instant.
    Wait(Steady),
    /// Ask everything to end.
    Terminate,
    /// Kill everything, again and again until nothing is left.
    Kill,
}

/// The deadlines of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The instant by which all must be killed: the deadline less the slack.
    last: Steady,
    grace: Duration,
    terminate_at: Steady,
    /// Set once the end has begun, which nothing takes back.
    kill_at: Option<Steady>,
}

impl Plan {
    /// A command that must be dead before `until` and gets `grace` between being asked and being killed.
    pub(super) fn new(until: Steady, grace: Duration, now: Steady) -> Self {
        let mut plan = Self { last: Steady(0), grace, terminate_at: Steady(0), kill_at: None };
        plan.extend(until, now);
        plan
    }

    /// The deadline is `until` from now on. A later one does not take back an end that has begun, nor
    /// give it more time; an earlier one shortens it.
    pub(super) fn extend(&mut self, until: Steady, now: Steady) {
        // At most a quarter, here too: a lease of a few hundred milliseconds has little to spare.
        let slack = SLACK.min(until.since(now) / 4);
        self.last = Steady(until.0.saturating_sub(nanos(slack)));
        // A long grace must not leave a short lease with no time to work in.
        let grace = self.grace.min(self.last.since(now) / 4);
        self.terminate_at = Steady(self.last.0.saturating_sub(nanos(grace)));
        self.kill_at = self.kill_at.map(|at| at.min(self.last));
    }

    /// The end begins now, with the grace as far as the deadline allows.
    pub(super) fn end(&mut self, now: Steady) {
        if self.kill_at.is_none() {
            self.kill_at = Some(now.plus(self.grace).min(self.last));
        }
    }

    /// Whether the end has begun.
    pub(super) fn ending(&self) -> bool {
        self.kill_at.is_some()
    }

    /// What is due at `now`.
    pub(super) fn step(&self, now: Steady) -> Step {
        match self.kill_at {
            None if now < self.terminate_at => Step::Wait(self.terminate_at),
            None => Step::Terminate,
            Some(at) if now < at => Step::Wait(at),
            Some(_) => Step::Kill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SLACK_NS: u64 = 100_000_000;

    fn at(seconds: u64) -> Steady {
        Steady(seconds * SECOND)
    }

    #[test]
    fn asks_a_grace_before_it_kills_and_kills_a_slack_before_the_deadline() {
        let mut plan = Plan::new(at(100), Duration::from_secs(5), at(0));
        let last = 100 * SECOND - SLACK_NS;
        assert_eq!(plan.step(at(0)), Step::Wait(Steady(last - 5 * SECOND)));
        assert_eq!(plan.step(Steady(last - 5 * SECOND)), Step::Terminate);
        plan.end(Steady(last - 5 * SECOND));
        assert_eq!(plan.step(Steady(last - 1)), Step::Wait(Steady(last)));
        assert_eq!(plan.step(Steady(last)), Step::Kill);
    }

    #[test]
    fn the_grace_is_at_most_a_quarter_of_what_remains() {
        let plan = Plan::new(Steady(4 * SECOND + SLACK_NS), Duration::from_secs(60), at(0));
        assert_eq!(plan.step(at(0)), Step::Wait(at(3)));
    }

    #[test]
    fn an_end_is_not_taken_back_and_never_goes_past_the_deadline() {
        let mut plan = Plan::new(at(100), Duration::from_secs(60), at(0));
        plan.end(at(90));
        assert_eq!(plan.step(at(90)), Step::Wait(Steady(100 * SECOND - SLACK_NS)));
        plan.extend(at(500), at(91));
        plan.end(at(91));
        assert_eq!(plan.step(at(100)), Step::Kill);
        assert!(plan.ending());
    }

    #[test]
    fn an_earlier_deadline_counts() {
        let mut plan = Plan::new(at(100), Duration::from_secs(8), at(0));
        plan.end(at(10));
        plan.extend(at(12), at(10));
        assert_eq!(plan.step(at(12)), Step::Kill);
    }

    #[test]
    fn a_short_lease_keeps_most_of_its_time() {
        let plan = Plan::new(Steady(160), Duration::from_secs(5), at(0));
        assert_eq!(plan.step(at(0)), Step::Wait(Steady(90)));
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_no_time() {
        let mut plan = Plan::new(at(1), Duration::from_secs(5), at(9));
        assert_eq!(plan.step(at(9)), Step::Terminate);
        plan.end(at(9));
        assert_eq!(plan.step(at(9)), Step::Kill);
        assert_eq!(Plan::new(Steady(0), Duration::MAX, at(9)).step(at(9)), Step::Terminate);
    }
}
