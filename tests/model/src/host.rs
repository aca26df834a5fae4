//! The host around the policy, as far as a lease depends on it: `host/src/lease.rs` and its keeper.
//!
//! Without the guard rails (`host/src/rails.rs`): what the policy answers is believed, so that the policy is judged
//! alone.

use crate::calls::{Call, Kind, Lost, Outcome};
use crate::check::{Invariant, passes};
use crate::sometimes::Sometimes;
use crate::state::{Answer, Instance, Object, Phase, Rev, State, Sure, Tenure};
use crate::step::{Step, Stepper, at_once};

impl Stepper<'_> {
    /// A candidate looks. The instances are alike, so they begin in order.
    pub(crate) fn begins_taking(&mut self, state: &State, i: usize) {
        if state.left.looks == 0 || i > 0 && state.begun & (1 << (i - 1)) == 0 {
            return;
        }
        let mut next = *state;
        next.left.looks -= 1;
        next.begun |= 1 << i;
        let kind = Kind::Take(state.instances[i].sight);
        self.begins(next, i, kind, Phase::Taking);
    }

    /// The keeper renews. It does not call when the time is over, but may stand still between its look at the clock
    /// and the call.
    pub(crate) fn begins_renewing(&mut self, state: &State, i: usize) {
        let mut next = *state;
        let asked = state.instances[i].tenure;
        // Until it is answered. A call that is cut off leaves it so.
        if asked.sure == Sure::Yes {
            next.instances[i].tenure.sure = Sure::No;
        }
        self.wakes_late(state, i);
        self.begins(next, i, Kind::Renew(asked), Phase::Renewing);
    }

    fn begins(&mut self, mut next: State, i: usize, kind: Kind, phase: Phase) {
        let (clock, call) = (next.clock(i), Call { object: next.object(i), kind });
        let one = &mut next.instances[i];
        one.phase = phase;
        one.answer = None;
        // Only a call that may be cut off needs to know when it began.
        one.begun = if next.left.cut > 0 { clock } else { 0 };
        one.call = self.calls.begin(call, clock, one.floor);
        self.goes_on(next, i, true, Step::Begins(i));
    }

    /// An answer is heard.
    pub(crate) fn hears(&mut self, mut next: State, i: usize, answer: Answer, step: Step) {
        let clock = next.clock(i);
        let one = &mut next.instances[i];
        let waited = one.answer.take().is_some();
        one.call = self.calls.go_on(one.call, answer, clock, one.floor);
        self.wakes_late(&next, i);
        self.goes_on(next, i, waited, step);
    }

    /// A call has begun, or has heard an answer. When it has looked at nothing since (`unseen`: nor in this very
    /// step), it might as well have heard it later: then what it asks for next, it reads in the same step.
    fn goes_on(&mut self, mut next: State, i: usize, unseen: bool, step: Step) {
        let clock = next.clock(i);
        let call = next.instances[i].call;
        if unseen
            && let Err(ask) = self.calls.next(call)
            && !self.calls.has_looked(call)
            && next.left.unavailable == 0
            && let Some(answer) = at_once(&next, i, ask)
        {
            let one = &mut next.instances[i];
            one.call = self.calls.go_on(call, answer, clock, one.floor);
        }
        if let Ok(outcome) = self.calls.next(next.instances[i].call) {
            self.ends(&mut next, i, outcome);
        }
        self.push(next, step);
    }

    /// A call has ended.
    fn ends(&mut self, next: &mut State, i: usize, outcome: Outcome) {
        let clock = next.clock(i);
        let was = next.instances[i];
        next.instances[i].rest();
        let one = &mut next.instances[i];
        match outcome {
            Outcome::Taken(tenure) => {
                one.phase = Phase::Taken;
                one.tenure = tenure;
                self.notes_taken(was, tenure);
                one.sight = None;
            }
            Outcome::Waiting(sight) => {
                one.phase = Phase::Candidate;
                one.sight = Some(sight);
                if self.calls.begins_and_ends_in_another_bucket(was.call, sight) {
                    self.reached.mark(Sometimes::RaisedAgainInATake);
                }
                if self.calls.log(was.call).iter().any(|answer| matches!(answer, Answer::Erased(_))) {
                    self.reached.mark(Sometimes::WaitsForWhatIsErased);
                }
            }
            Outcome::Trouble => one.phase = Phase::Candidate,
            Outcome::Unwritable => {
                one.phase = Phase::Candidate;
                self.reached.mark(Sometimes::Unwritable);
            }
            Outcome::Kept(tenure) => self.kept(next, i, was.call, tenure),
            Outcome::Failed(tenure) => {
                one.tenure = tenure;
                one.next = clock;
                one.phase = Phase::Held;
                if clock >= tenure.until {
                    self.loses(next, i);
                }
            }
            Outcome::Refused(tenure) => {
                one.phase = Phase::Held;
                one.tenure = tenure;
                one.shut = true;
                one.next = clock;
            }
            Outcome::Asked(tenure) => {
                one.phase = Phase::Asked;
                one.tenure = tenure;
                self.reached.mark(Sometimes::GivesWay);
            }
            Outcome::Lost(lost) => {
                match lost {
                    Lost::Superseded => self.reached.mark(Sometimes::IsSuperseded),
                    Lost::Gone => self.reached.mark(Sometimes::IsGone),
                    Lost::RaisedAgain => self.reached.mark(Sometimes::IsRaisedAgain),
                    Lost::Overdue | Lost::Overwritten => {}
                }
                self.loses(next, i);
            }
            Outcome::GivenBack | Outcome::NotGivenBack => {
                if was.phase == Phase::Returning {
                    one.phase = Phase::Candidate;
                } else {
                    self.loses(next, i);
                }
            }
        }
    }

    fn notes_taken(&mut self, was: Instance, tenure: Tenure) {
        let log = self.calls.log(was.call);
        let purged = log.contains(&Answer::Purged);
        let released = log.iter().any(|answer| matches!(answer, Answer::Deleted(_)));
        if purged {
            self.reached.mark(Sometimes::MovesTheFloor);
        } else if tenure.revision > tenure.epoch {
            self.reached.mark(Sometimes::LostTakeIsAdopted);
        }
        if released {
            self.reached.mark(Sometimes::TakenAfterARelease);
        }
        if log.contains(&Answer::Absent) && was.sight.is_some() {
            self.reached.mark(Sometimes::WaitsOutAnAbsence);
        }
    }

    /// Renewed: the gate is asked anew.
    fn kept(&mut self, next: &mut State, i: usize, call: u32, tenure: Tenure) {
        let (clock, was) = (next.clock(i), next.instances[i].tenure);
        // Its time was over, by the last word that the gate was given.
        if clock >= next.instances[i].gate {
            next.broken |= Invariant::LostIsLost as u8;
        }
        let asked = self.calls.renewed(call).map(|asked| asked.sure);
        let found = tenure.revision > was.revision.next();
        match asked {
            Some(Sure::Doubted(_)) => self.reached.mark(Sometimes::DoubtedIsKept),
            Some(Sure::No) if found => self.reached.mark(Sometimes::LostRenewalIsFound),
            Some(Sure::No) => self.reached.mark(Sometimes::FailedRenewalIsMadeAgain),
            Some(Sure::Yes) | None => {}
        }
        let due = self.due(tenure);
        let one = &mut next.instances[i];
        one.phase = Phase::Held;
        one.tenure = tenure;
        one.next = due;
        match self.calls.policy().pass(tenure, clock) {
            Some((epoch, until)) => {
                one.gate = until;
                one.shut = false;
                if epoch != was.epoch {
                    next.issues(epoch);
                }
            }
            None => {
                one.shut = true;
                one.next = clock;
            }
        }
    }

    /// When the renewal after this one is due.
    fn due(&self, tenure: Tenure) -> u8 {
        let ticks = self.config.ticks;
        tenure.until.saturating_sub(ticks.ttl - ticks.margin).saturating_add(ticks.renew)
    }

    /// The floor is raised durably before the gate first opens.
    pub(crate) fn raises(&mut self, state: &State, i: usize) {
        let mut next = *state;
        self.keeps(&mut next, i, state.instances[i].tenure.epoch);
        next.instances[i].phase = Phase::Raised;
        self.push(next, Step::Raises(i));
    }

    /// The floor of an instance, or of all, is no lower than this.
    pub(crate) fn keeps(&self, next: &mut State, i: usize, floor: Rev) {
        for (j, one) in next.instances.iter_mut().enumerate() {
            let stands =
                !matches!(one.phase, Phase::Over | Phase::Gone) || one.object + 1 < self.config.objects;
            if j == i || self.config.one_floor && stands {
                one.floor = one.floor.max(floor);
            }
        }
    }

    /// The gate is asked, and opened.
    pub(crate) fn opens(&mut self, state: &State, i: usize) {
        let mut next = *state;
        let tenure = state.instances[i].tenure;
        let due = self.due(tenure);
        let Some((epoch, until)) = self.calls.policy().pass(tenure, state.clock(i)) else {
            // Nobody waits for a record that is not acted on.
            self.reached.mark(Sometimes::TakenTooLate);
            self.begins(next, i, Kind::Release(tenure), Phase::Returning);
            return;
        };
        let one = &mut next.instances[i];
        one.phase = Phase::Held;
        one.gate = until;
        one.shut = false;
        one.next = due;
        next.have_held |= 1 << i;
        next.issues(epoch);
        self.push(next, Step::Opens(i));
    }

    /// The keeper finds that the time is over.
    pub(crate) fn overdue(&mut self, state: &State, i: usize) {
        let mut next = *state;
        self.wakes_late(state, i);
        self.loses(&mut next, i);
        self.push(next, Step::Overdue(i));
    }

    pub(crate) fn releases(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.left.release -= 1;
        self.leaves_behind(&mut next, i);
        let tenure = next.instances[i].tenure;
        self.begins(next, i, Kind::Release(tenure), Phase::Releasing);
    }

    /// A call is cut off by the host's bound: what it asked for may be on its way.
    pub(crate) fn cut_off(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.left.cut -= 1;
        self.leaves_behind(&mut next, i);
        let clock = state.clock(i);
        let one = &mut next.instances[i];
        let was = one.phase;
        one.rest();
        one.next = clock;
        one.phase = if was == Phase::Renewing { Phase::Held } else { Phase::Candidate };
        match was {
            Phase::Renewing if clock >= one.tenure.until => self.loses(&mut next, i),
            Phase::Releasing => self.loses(&mut next, i),
            _ => {}
        }
        self.reached.mark(Sometimes::IsCutOff);
        self.push(next, Step::CutOff(i));
    }

    pub(crate) fn dies(&mut self, state: &State, i: usize) {
        let mut next = *state;
        next.left.crash -= 1;
        self.leaves_behind(&mut next, i);
        if passes(state, i) {
            self.reached.mark(Sometimes::DiesHolding);
        }
        self.loses(&mut next, i);
        self.push(next, Step::Dies(i));
    }

    /// A new lease object, which knows nothing but the floor.
    pub(crate) fn stands_anew(&mut self, state: &State, i: usize) {
        if state.instances[i].object + 1 >= self.config.objects {
            return;
        }
        let mut next = *state;
        let one = &state.instances[i];
        next.instances[i] = Instance { phase: Phase::Candidate, object: one.object + 1, ..*one };
        self.reached.mark(Sometimes::StandsAnew);
        self.push(next, Step::StandsAnew(i));
    }

    /// The lease object is over; an instance that makes no other one is forgotten.
    fn loses(&mut self, next: &mut State, i: usize) {
        let is_last = next.instances[i].object + 1 >= self.config.objects;
        let one = &mut next.instances[i];
        let kept = Instance { object: one.object, phase: Phase::Over, ..Instance::default() };
        let Instance { floor, ahead, .. } = *one;
        *one = if is_last { kept } else { Instance { floor, ahead, ..kept } };
    }

    /// A call is dropped with a write that was sent and may yet arrive.
    fn leaves_behind(&mut self, next: &mut State, i: usize) {
        let one = next.instances[i];
        if one.call == 0 || one.answer.is_some() {
            return;
        }
        if let Err(crate::calls::Ask::Write(write)) = self.calls.next(one.call) {
            let from: Object = next.object(i);
            next.on_its_way(from, write);
        }
    }
}

impl Instance {
    /// No call is under way.
    fn rest(&mut self) {
        (self.call, self.answer, self.begun) = (0, None, 0);
    }
}

impl State {
    /// A gate opens at this epoch for the first time.
    fn issues(&mut self, epoch: Rev) {
        if epoch <= self.issued {
            self.broken |= Invariant::EpochsOnlyRise as u8;
        }
        self.issued = self.issued.max(epoch);
    }
}
