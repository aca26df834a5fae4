//! Every step that can be made in a state: time, the store, the wire. What an actor does of itself, and how its calls
//! end, is in the files of builders and of controllers.

use super::Config;
use super::calls::{Ask, Call, Calls, KEYS};
use super::sometimes::{Reached, Sometimes};
use super::state::{ACTORS, Actor, Answer, BEGIN, BUILDERS, Phase, Place, Record, Sent, State, Write};

/// What a step was, for the path to a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Tick,
    Loses(usize),
    StoreSteps,
    Expires(Place),
    Lands(Sent, Answer),
    Begins(usize),
    /// A read, or what is asked of the queue, is served and heard.
    Hears(usize, Ask, Answer),
    /// A write arrives.
    Arrives(usize, Write, Answer),
    Answered(usize, Answer),
    AnswerLost(usize),
    Delayed(usize, Write),
    Refused(usize, Answer),
    CutOff(usize),
    CheckEnds(usize),
    Dies(usize),
}

/// Makes the steps of one exploration.
pub(super) struct Stepper<'a> {
    pub(super) config: &'a Config,
    pub(super) calls: Calls,
    pub(super) reached: Reached,
    next: Vec<(State, Step)>,
}

impl<'a> Stepper<'a> {
    pub(super) fn new(config: &'a Config, calls: Calls) -> Self {
        Self { config, calls, reached: Reached::default(), next: Vec::new() }
    }

    /// The state in which nothing has happened.
    pub(super) fn begin(config: &Config) -> State {
        State { now: BEGIN, left: config.faults, waiting: (1 << config.asks) - 1, ..State::default() }
    }

    /// All states one step on, always in the same order.
    pub(super) fn steps(&mut self, state: &State) -> &[(State, Step)] {
        self.next.clear();
        self.time(state);
        self.store(state);
        for i in 0..usize::from(self.config.builders) {
            self.builder(state, i);
        }
        for i in BUILDERS..BUILDERS + self.config.plans.len() {
            self.controller(state, i);
        }
        &self.next
    }

    pub(super) fn push(&mut self, mut state: State, step: Step) {
        state.settle(self.config.ttl);
        if state.actors[BUILDERS..].iter().all(|one| one.phase.is_rest()) {
            state.renumber(1);
        }
        if state.actors[..BUILDERS].iter().all(|one| !self.knows_revisions(one)) {
            state.renumber(0);
        }
        self.next.push((state, step));
    }

    /// Whether the call under way has a revision of the let-through key in it.
    fn knows_revisions(&self, one: &Actor) -> bool {
        match one.phase {
            Phase::Keeping | Phase::Looking | Phase::Dropping => true,
            Phase::Letting => {
                let has_revision = |answer: &Answer| matches!(answer, Answer::Written(_) | Answer::Found(..));
                one.answer.is_some() || self.calls.heard(one.call, has_revision)
            }
            _ => false,
        }
    }

    fn time(&mut self, state: &State) {
        let busy = state.actors.iter().filter(|one| !one.phase.is_rest()).count();
        if state.now < BEGIN + self.config.horizon && busy <= self.config.slow.into() {
            let mut next = *state;
            next.now += 1;
            for i in 0..BUILDERS {
                if state.runs_through(i) && !next.runs_through(i) {
                    self.reached.mark(Sometimes::StopsByItsClock);
                }
                if state.left.loses > 0 && !matches!(state.actors[i].phase, Phase::Idle | Phase::Check) {
                    let mut next = next;
                    next.left.loses -= 1;
                    next.actors[i].behind += 1;
                    if next.runs_through(i) {
                        self.reached.mark(Sometimes::LosesATick);
                    }
                    self.push(next, Step::Loses(i));
                }
            }
            self.push(next, Step::Tick);
        }
        if state.left.step > 0 {
            let mut next = *state;
            next.left.step -= 1;
            next.ahead += 1;
            if state.let_through() > 0 {
                self.reached.mark(Sometimes::StepsUnderALetThrough);
            }
            self.push(next, Step::StoreSteps);
        }
    }

    fn store(&mut self, state: &State) {
        for place in Place::ALL {
            if state.is_old(place, self.config.ttl) {
                let mut next = *state;
                next.expire(place);
                if place != Place::LET_THROUGH {
                    self.reached.mark(Sometimes::PlanAgesOut);
                } else if state.left.builder_killed < self.config.faults.builder_killed
                    && let Record::Live { owner, .. } = state.record(place)
                    && state.actors.iter().all(|one| one.owner != owner)
                {
                    self.reached.mark(Sometimes::AgesOutAfterAKill);
                }
                self.push(next, Step::Expires(place));
            }
        }
        for at in 0..state.late.len() {
            let Some(sent) = state.late[at] else { continue };
            let mut next = *state;
            next.late[at] = None;
            let answer = next.apply(sent);
            // Refused now, it is as if it had never come.
            if answer != Answer::Stale {
                self.reached.mark(Sometimes::LandsLate);
                self.push(next, Step::Lands(sent, answer));
            }
        }
    }

    /// Begin a call, which may end at once.
    pub(super) fn begins(&mut self, next: &mut State, i: usize, phase: Phase, call: Call) {
        next.actors[i].phase = phase;
        next.actors[i].call = self.calls.begin(call);
        self.goes_on(next, i);
    }

    /// A call has begun, or heard an answer: it asks for the next thing, or has ended.
    fn goes_on(&mut self, next: &mut State, i: usize) {
        // A page that is the same in every state is read at once.
        while let Err(Ask::Keys(from)) = self.calls.next(next.actors[i].call)
            && (from == 0 || self.config.plans.iter().all(|plan| *plan < from))
        {
            let answer = if from == 0 { Answer::Key(0) } else { Answer::NoKey };
            let one = &mut next.actors[i];
            one.call = self.calls.go_on(one.call, answer);
        }
        match self.calls.next(next.actors[i].call) {
            Ok(outcome) if i < BUILDERS => self.builders_call_ends(next, i, outcome),
            Ok(outcome) => self.controllers_call_ends(next, i, outcome),
            Err(Ask::Write(place, Write::Create(_) | Write::Update(..))) if place == Place::LET_THROUGH => {
                next.actors[i].sent = next.clock(i);
            }
            Err(_) => {}
        }
    }

    fn hears(&mut self, mut next: State, i: usize, answer: Answer, step: Step) {
        let one = &mut next.actors[i];
        one.answer = None;
        one.call = self.calls.go_on(one.call, answer);
        self.goes_on(&mut next, i);
        self.push(next, step);
    }

    /// What may become of what a call asks for. When a read is heard decides nothing that its being served later would
    /// not decide as well; a write is sent, arrives and is answered at three moments.
    pub(super) fn wire(&mut self, state: &State, i: usize) {
        let Err(ask) = self.calls.next(state.actors[i].call) else { return };
        if let Some(answer) = state.actors[i].answer {
            self.hears(*state, i, answer, Step::Answered(i, answer));
            if state.left.lost_answer > 0 {
                self.loses_answer(*state, i);
            }
            return;
        }
        let mut next = *state;
        if let Ask::Write(place, write) = ask {
            let sent = self.sent(state, i, place, write);
            let answer = next.apply(sent);
            next.actors[i].answer = Some(answer);
            if place == Place::LET_THROUGH
                && matches!(write, Write::Create(_))
                && answer == Answer::Stale
                && state.let_through() > 0
            {
                self.reached.mark(Sometimes::SecondWaits);
            }
            self.push(next, Step::Arrives(i, write, answer));
            if state.left.late > 0 {
                let mut next = *state;
                next.left.late -= 1;
                next.on_its_way(sent);
                next.actors[i].unsettled |= i < BUILDERS;
                self.hears(next, i, Answer::Unknown, Step::Delayed(i, write));
            }
        } else {
            let answer = self.serves(&mut next, i, ask);
            self.hears(next, i, answer, Step::Hears(i, ask, answer));
            if ask == Ask::Take && state.left.lost_answer > 0 {
                self.loses_answer(next, i);
            }
        }
        if state.left.refused > 0 {
            for refusal in [Answer::Unavailable, Answer::Denied] {
                let mut next = *state;
                next.left.refused -= 1;
                self.hears(next, i, refusal, Step::Refused(i, refusal));
            }
        }
    }

    fn loses_answer(&mut self, mut next: State, i: usize) {
        next.left.lost_answer -= 1;
        // A controller asks the store anew in any case.
        next.actors[i].unsettled |= i < BUILDERS;
        self.hears(next, i, Answer::Unknown, Step::AnswerLost(i));
    }

    fn serves(&mut self, next: &mut State, i: usize, ask: Ask) -> Answer {
        match ask {
            Ask::Get(place) => next.read(place),
            Ask::Keys(from) => {
                let stands = |key: &u8| *key == 0 || next.standing() & 1 << key != 0;
                (from..3).find(stands).map_or(Answer::NoKey, Answer::Key)
            }
            Ask::Oldest => next.oldest().map_or(Answer::NoAsk, Answer::Asked),
            Ask::Take => next.take(i).map_or(Answer::NoAsk, Answer::Asked),
            Ask::HandBack => {
                next.hand_back(i);
                self.reached.mark(Sometimes::YoungerIsHandedBack);
                Answer::HandedBack
            }
            Ask::Write(..) => Answer::Unavailable,
        }
    }

    fn sent(&self, state: &State, i: usize, place: Place, write: Write) -> Sent {
        let begins = matches!(self.calls.call(state.actors[i].call), Call::Begin { .. });
        Sent { place, write, owner: state.actors[i].owner, begins }
    }

    /// What it waits for is waited for no more. A write that has not arrived may still do so.
    pub(super) fn abandons(&self, next: &mut State, i: usize) {
        if !next.actors[i].phase.is_rest()
            && next.actors[i].answer.is_none()
            && let Err(Ask::Write(place, write)) = self.calls.next(next.actors[i].call)
        {
            next.on_its_way(self.sent(next, i, place, write));
        }
    }
}

/// A step in words, with the true time before it and what came of it.
pub(super) fn tell(was: &State, next: &State, step: Step) -> String {
    const NAMES: [&str; ACTORS] = ["alice", "bob", "carol", "the controller", "the other controller"];
    let what = match step {
        Step::Tick => "a tick passes".into(),
        Step::Loses(i) => format!("a tick passes, and {}'s clock loses it", NAMES[i]),
        Step::StoreSteps => "the store's clock steps ahead".into(),
        Step::Expires(Place::LET_THROUGH) => "the let-through key ages out".into(),
        Step::Expires(place) => format!("{} ages out", KEYS[usize::from(place.0)]),
        Step::Lands(sent, answer) => {
            format!("late, {}'s {:?}: {answer:?}", NAMES[usize::from(sent.owner.0 >> 4)], sent.write)
        }
        Step::Begins(i) => format!("{} begins a call", NAMES[i]),
        Step::Hears(i, ask, answer) => format!("{} asks {ask:?}: {answer:?}", NAMES[i]),
        Step::Arrives(i, write, answer) => format!("{}'s {write:?} arrives: {answer:?}", NAMES[i]),
        Step::Answered(i, answer) => format!("{} hears: {answer:?}", NAMES[i]),
        Step::AnswerLost(i) => format!("{} hears no answer", NAMES[i]),
        Step::Delayed(i, write) => format!("{}'s {write:?} is on its way, unanswered", NAMES[i]),
        Step::Refused(i, answer) => format!("{} is refused: {answer:?}", NAMES[i]),
        Step::CutOff(i) => format!("{}'s call is cut off", NAMES[i]),
        Step::CheckEnds(i) => format!("{}'s check ends", NAMES[i]),
        Step::Dies(i) => format!("{} is killed", NAMES[i]),
    };
    let mut line = format!("{:>2}  {what}", was.now - BEGIN);
    for (i, (one, then)) in was.actors.iter().zip(&next.actors).enumerate() {
        if then.phase != one.phase {
            line += &format!("; {}: {:?}", NAMES[i], then.phase);
        }
        if then.until != one.until && then.until != 0 {
            line += &format!("; {}'s check runs before {}", NAMES[i], then.until + then.behind - BEGIN);
        } else if then.until != one.until {
            line += &format!("; {}'s check is over", NAMES[i]);
        }
    }
    line
}
