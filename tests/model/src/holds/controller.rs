//! What a controller does: `host/src/holds/plans.rs`. Its office is not modelled, but that one whose plan another
//! controller says is out of it.

use super::calls::{Call, Outcome};
use super::sometimes::Sometimes;
use super::state::{Actor, Answer, BUILDERS, Owner, Phase, Place, Record, State};
use super::step::{Step, Stepper};

impl Stepper<'_> {
    fn plan(&self, i: usize) -> u8 {
        self.config.plans[i - BUILDERS]
    }

    pub(super) fn controller(&mut self, state: &State, i: usize) {
        let (one, plan) = (&state.actors[i], self.plan(i));
        let Actor { since, revision, .. } = *one;
        match one.phase {
            Phase::Idle if state.left.begins > 0 => {
                let mut next = *state;
                next.left.begins -= 1;
                next.actors[i].owner = Owner::new(i, next.left.begins);
                self.begins(&mut next, i, Phase::Beginning, Call::Begin { plan });
                self.push(next, Step::Begins(i));
            }
            Phase::Builds => {
                if state.now >= one.next {
                    let mut next = *state;
                    self.begins(&mut next, i, Phase::Saying, Call::Seen { plan, since, revision });
                    self.push(next, Step::Begins(i));
                }
                let mut next = *state;
                self.begins(&mut next, i, Phase::Ending, Call::End { plan, revision });
                self.push(next, Step::Begins(i));
            }
            _ if one.phase.is_rest() => {}
            _ => self.wire(state, i),
        }
        if one.phase != Phase::Idle && state.left.controller_killed > 0 {
            let mut next = *state;
            next.left.controller_killed -= 1;
            self.abandons(&mut next, i);
            next.actors[i].rest();
            self.push(next, Step::Dies(i));
        }
    }

    pub(super) fn controllers_call_ends(&mut self, next: &mut State, i: usize, outcome: Outcome) {
        let (was, now, plan) = (next.actors[i], next.now, self.plan(i));
        let record = next.record(Place(plan));
        let known = |since, revision| Actor {
            phase: Phase::Builds,
            owner: was.owner,
            since,
            revision,
            next: now + 1,
            ..Actor::default()
        };
        next.actors[i] = match (was.phase, outcome) {
            (Phase::Beginning, Outcome::Building { since, revision }) => {
                self.began(next, was.call);
                known(since, revision)
            }
            (Phase::Saying, Outcome::Kept(revision)) => {
                if self.calls.heard(was.call, |answer| *answer == Answer::Absent) {
                    self.reached.mark(Sometimes::PlanIsPutAgain);
                }
                known(was.since, revision)
            }
            // Ended by somebody in office, or said by another one, who is in office then.
            (Phase::Saying, Outcome::Lost) if is_another_ones(record, was.owner) => {
                self.reached.mark(Sometimes::PlanIsLost);
                Actor::default()
            }
            // An answer was lost.
            (Phase::Saying, Outcome::Lost) => {
                next.actors[i] = Actor { owner: was.owner, ..Actor::default() };
                return self.begins(next, i, Phase::Beginning, Call::Begin { plan });
            }
            (Phase::Saying, _) => Actor { next: now, ..known(was.since, was.revision) },
            (Phase::Ending, Outcome::Done) => {
                if record == Record::Deleted {
                    self.reached.mark(Sometimes::PlanEnds);
                }
                Actor::default()
            }
            _ => Actor::default(),
        };
    }

    fn began(&mut self, next: &State, call: u32) {
        if self.calls.heard(call, |answer| matches!(answer, Answer::Found(..))) {
            self.reached.mark(Sometimes::PlanGoesOn);
        } else if next.let_through() > 0 {
            self.reached.mark(Sometimes::BeginsUnderALetThrough);
        }
        if next.actors.iter().any(|one| one.phase == Phase::Check) {
            self.reached.mark(Sometimes::BeginsUnderACheck);
        }
    }
}

fn is_another_ones(record: Record, me: Owner) -> bool {
    match record {
        Record::Live { owner, .. } => owner != me,
        Record::Deleted => true,
        Record::Absent => false,
    }
}
