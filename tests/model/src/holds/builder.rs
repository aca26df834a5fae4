//! What a builder does: `host/src/holds/builder.rs` and the keeper of a job, without the guard rails.

use super::Invariant;
use super::calls::{Call, Outcome, is_old_enough};
use super::sometimes::Sometimes;
use super::state::{Actor, Answer, BEGIN, Owner, Phase, State};
use super::step::{Step, Stepper};

impl Stepper<'_> {
    pub(super) fn builder(&mut self, state: &State, i: usize) {
        let one = &state.actors[i];
        match one.phase {
            // The builders are alike, so they begin in order.
            Phase::Idle if state.left.looks > 0 && i <= usize::from(state.begun) => {
                let mut next = *state;
                next.begun += u8::from(i == usize::from(state.begun));
                next.left.looks -= 1;
                self.assesses(&mut next, i, Phase::Assessing);
                self.push(next, Step::Begins(i));
            }
            Phase::Check | Phase::Orphan => {
                let mut next = *state;
                next.actors[i].rest();
                self.push(next, Step::CheckEnds(i));
            }
            Phase::Through => {
                if state.clock(i) >= one.next {
                    let mut next = *state;
                    self.keeps(&mut next, i, Phase::Keeping);
                    self.push(next, Step::Begins(i));
                }
                self.check_ends(state, i);
            }
            _ if one.phase.is_rest() => {}
            _ => self.wire(state, i),
        }
        if one.phase == Phase::Keeping && state.left.cut > 0 {
            self.cut_off(state, i);
        }
        let holds_or_may = matches!(
            one.phase,
            Phase::Letting | Phase::Through | Phase::Keeping | Phase::Looking | Phase::Dropping
        );
        if holds_or_may && state.left.builder_killed > 0 {
            self.builder_dies(state, i);
        }
    }

    fn assesses(&mut self, next: &mut State, i: usize, phase: Phase) {
        next.actors[i].stood = next.standing();
        self.begins(next, i, phase, Call::Assess);
    }

    fn keeps(&mut self, next: &mut State, i: usize, phase: Phase) {
        let Actor { since, revision, .. } = next.actors[i];
        self.begins(next, i, phase, Call::Keep { builder: i, since, revision });
    }

    /// The check is over: its key goes last.
    fn check_ends(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.actors[i].until = 0;
        next.actors[i].ask = None;
        if state.actors[i].unsettled {
            self.keeps(&mut next, i, Phase::Looking);
        } else {
            self.drops(&mut next, i);
        }
        self.push(next, Step::CheckEnds(i));
    }

    fn drops(&mut self, next: &mut State, i: usize) {
        let revision = next.actors[i].revision;
        self.begins(next, i, Phase::Dropping, Call::Drop { revision });
    }

    fn cut_off(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.left.cut -= 1;
        self.abandons(&mut next, i);
        self.reached.mark(Sometimes::IsCutOff);
        let clock = next.clock(i);
        let one = &mut next.actors[i];
        (one.phase, one.call, one.answer, one.sent, one.unsettled, one.next) =
            (Phase::Through, 0, None, 0, true, clock);
        self.push(next, Step::CutOff(i));
    }

    fn builder_dies(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.left.builder_killed -= 1;
        self.abandons(&mut next, i);
        next.hand_back(i);
        let Actor { until, behind, .. } = next.actors[i];
        let phase = if until > 0 { Phase::Orphan } else { Phase::Idle };
        next.actors[i] = Actor { phase, until, behind, ..Actor::default() };
        self.push(next, Step::Dies(i));
    }

    pub(super) fn builders_call_ends(&mut self, next: &mut State, i: usize, outcome: Outcome) {
        let clock = next.clock(i);
        let was = next.actors[i];
        match was.phase {
            Phase::Assessing | Phase::AssessingAgain => {
                if outcome == Outcome::Free && was.stood != 0 {
                    next.broken |= Invariant::HeldWhilePlansStand as u8;
                }
                next.actors[i].stood = 0;
                self.assessed(next, i, outcome == Outcome::Held, was.phase == Phase::AssessingAgain);
                if outcome == Outcome::Fault && next.actors[i].phase != Phase::Idle && was.stood != 0 {
                    self.reached.mark(Sometimes::FaultHoldsNone);
                }
            }
            Phase::Letting => {
                if let Outcome::Admitted { since, revision } = outcome {
                    self.is_let_through(next, i, since, revision);
                } else {
                    // What was taken, and is not admitted, the host hands back.
                    next.hand_back(i);
                    next.actors[i].rest();
                }
            }
            Phase::Keeping => {
                let until = was.sent + self.config.validity;
                let one = &mut next.actors[i];
                (one.phase, one.call, one.sent) = (Phase::Through, 0, 0);
                match outcome {
                    Outcome::Kept(revision) => {
                        one.revision = revision;
                        one.next = clock + 1;
                        // One that must not run on stays so.
                        if one.until > 0 {
                            one.until = until;
                        }
                        if self.calls.heard(was.call, |answer| matches!(answer, Answer::Found(..))) {
                            self.reached.mark(Sometimes::LostKeepIsFound);
                        }
                    }
                    Outcome::Lost => {
                        self.reached.mark(Sometimes::KeyIsLost);
                        one.rest();
                    }
                    _ => one.next = clock,
                }
            }
            Phase::Looking => match outcome {
                Outcome::Kept(revision) => {
                    next.actors[i].revision = revision;
                    self.drops(next, i);
                }
                _ => next.actors[i].rest(),
            },
            _ => next.actors[i].rest(),
        }
    }

    fn assessed(&mut self, next: &mut State, i: usize, is_held: bool, has_taken: bool) {
        match (is_held, has_taken) {
            (true, false) => {
                let nonce = next.left.looks;
                next.actors[i].owner = Owner::new(i, nonce);
                // From then on every check has waited long enough.
                let tick = next.clock(i).min(BEGIN + self.config.asks);
                let call = Call::LetOneThrough { builder: i, tick, nonce };
                self.begins(next, i, Phase::Letting, call);
            }
            (true, true) => {
                self.reached.mark(Sometimes::HeldAtTheSecondLook);
                next.hand_back(i);
                next.actors[i].rest();
            }
            (false, false) => match next.take(i) {
                Some(_) => self.assesses(next, i, Phase::AssessingAgain),
                None => next.actors[i].rest(),
            },
            (false, true) => {
                self.reached.mark(Sometimes::TakenAsUsual);
                next.actors[i].rest();
                next.actors[i].phase = Phase::Check;
            }
        }
    }

    fn is_let_through(&mut self, next: &mut State, i: usize, since: u16, revision: u8) {
        let was = next.actors[i];
        if let Call::LetOneThrough { tick, .. } = self.calls.call(was.call)
            && was.ask.is_some_and(|ask| !is_old_enough(ask, tick))
        {
            next.broken |= Invariant::LongEnough as u8;
        }
        self.reached.mark(if next.had_one { Sometimes::AnotherAfterIt } else { Sometimes::LetThrough });
        next.had_one = true;
        if self.calls.heard(was.call, |answer| *answer == Answer::Unknown) {
            self.reached.mark(Sometimes::LostCreateIsFound);
        }
        // A beat is shorter than a tick, so the first may come within the same.
        next.actors[i] = Actor {
            phase: Phase::Through,
            owner: was.owner,
            revision,
            since,
            until: was.sent + self.config.validity,
            unsettled: was.unsettled,
            ask: was.ask,
            behind: was.behind,
            ..Actor::default()
        };
    }
}
