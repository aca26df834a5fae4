//! Every step that can be made in a state.

use crate::calls::{Ask, Calls};
use crate::check::{open_gates, passes};
use crate::config::{Config, Expiry};
use crate::sometimes::{Reached, Sometimes};
use crate::state::{Answer, BEGIN, Instance, Object, Phase, Record, Rev, State, Value, Write};

/// What a step was, for the path to a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Gains(usize),
    Loses(usize),
    StoreSteps,
    Expires(bool),
    Wiped,
    Forgotten(bool),
    Marked,
    Lands(Object, Write, Answer),
    Begins(usize),
    Serves(usize, Answer),
    ServesStale(usize, Answer),
    ServesTwice(usize, Answer),
    Hears(usize, Answer),
    AnswerLost(usize, Answer),
    Delayed(usize),
    Refused(usize, Answer),
    CutOff(usize),
    Raises(usize),
    Opens(usize),
    Overdue(usize),
    Dies(usize),
    StandsAnew(usize),
}

/// Makes the steps of one exploration.
pub(crate) struct Stepper<'a> {
    pub(crate) config: &'a Config,
    pub(crate) calls: Calls<'a>,
    pub(crate) reached: Reached,
    next: Vec<(State, Step)>,
}

impl<'a> Stepper<'a> {
    pub(crate) fn new(config: &'a Config, calls: Calls<'a>) -> Self {
        Self { config, calls, reached: Reached::default(), next: Vec::new() }
    }

    /// The state in which nothing has happened.
    pub(crate) fn begin(config: &Config) -> State {
        let mut state = State { now: BEGIN, left: config.faults, ..State::default() };
        state.store.created = 1;
        // Somebody had it and gave it back, so that it is free under every rule.
        state.store.last = Rev::of(1);
        state.store.record = Record { revision: Rev::of(1), value: Value::Deleted, written: BEGIN };
        for one in state.instances.iter_mut().skip(config.instances.into()) {
            one.phase = Phase::Gone;
        }
        state
    }

    /// All states one step on, always in the same order.
    pub(crate) fn steps(&mut self, state: &State) -> &[(State, Step)] {
        self.next.clear();
        self.time(state);
        self.store(state);
        for i in 0..usize::from(self.config.instances) {
            self.instance(state, i);
        }
        &self.next
    }

    /// One of those that [`steps`](Self::steps) made last.
    pub(crate) fn made(&self, at: usize) -> &State {
        &self.next[at].0
    }

    pub(crate) fn push(&mut self, mut state: State, step: Step) {
        state.settle();
        if usize::from(self.config.instances) == state.have_held.count_ones() as usize {
            self.reached.mark(Sometimes::AllHaveHeld);
        }
        self.next.push((state, step));
    }

    fn time(&mut self, state: &State) {
        let at_rest = |one: &&Instance| {
            matches!(one.phase, Phase::Candidate | Phase::Held | Phase::Asked | Phase::Over | Phase::Gone)
        };
        let busy = state.instances.len() - state.instances.iter().filter(at_rest).count();
        if state.now < BEGIN + self.config.horizon && busy <= self.config.slow.into() {
            let mut next = *state;
            next.now += 1;
            self.push(next, Step::Tick);
            for i in 0..usize::from(self.config.instances) {
                let is_over = matches!(state.instances[i].phase, Phase::Over | Phase::Gone);
                if is_over {
                    continue;
                }
                for (gains, left) in [(true, state.left.gains), (false, state.left.loses)] {
                    if left == 0 {
                        continue;
                    }
                    let mut next = *state;
                    next.now += 1;
                    if gains {
                        next.left.gains -= 1;
                        next.instances[i].ahead += 1;
                        self.push(next, Step::Gains(i));
                    } else {
                        next.left.loses -= 1;
                        next.instances[i].ahead -= 1;
                        self.push(next, Step::Loses(i));
                    }
                }
            }
        }
        if state.left.step > 0 {
            let mut next = *state;
            next.left.step -= 1;
            next.store.ahead += 1;
            if open_gates(state) > 0 {
                self.reached.mark(Sometimes::StepsUnderAHolder);
            }
            self.push(next, Step::StoreSteps);
        }
    }

    fn store(&mut self, state: &State) {
        if state.is_old(self.config.ticks.ttl) {
            if let Value::Live(_, owner) = state.store.record.value
                && state.instances[owner.instance()].phase.holds()
                && state.object(owner.instance()) == owner
            {
                self.reached.mark(Sometimes::AgesOutUnderItsHolder);
            }
            for marked in [true, false] {
                let other = if marked { Expiry::Unmarked } else { Expiry::Marked };
                if self.config.expiry != other {
                    let mut next = *state;
                    next.expire(marked);
                    self.push(next, Step::Expires(marked));
                }
            }
        }
        if state.left.wipe > 0 {
            let mut next = *state;
            next.left.wipe -= 1;
            next.wipe();
            if open_gates(state) > 0 {
                self.reached.mark(Sometimes::WipedUnderAHolder);
            }
            self.push(next, Step::Wiped);
        }
        self.forgets(state);
        if state.left.ask > 0
            && let Value::Live(value, owner) = state.store.record.value
            && let Some(marked) = self.calls.mark(value, state.store.record.revision)
        {
            let mut next = *state;
            next.left.ask -= 1;
            next.overwrite(Value::Live(marked, owner));
            self.push(next, Step::Marked);
        }
        for at in 0..state.store.late.len() {
            let Some((from, write)) = state.store.late[at] else { continue };
            let mut next = *state;
            next.store.late[at] = None;
            let answer = next.apply(from, write);
            let sender = &state.instances[from.instance()];
            if matches!(answer, Answer::Stale) {
                self.reached.mark(Sometimes::LateIsRefused);
                // Refused now, it is as if it had never come.
            } else {
                if state.object(from.instance()) != from || matches!(sender.phase, Phase::Over | Phase::Gone)
                {
                    self.reached.mark(Sometimes::LandsLate);
                }
                self.push(next, Step::Lands(from, write, answer));
            }
        }
    }

    fn forgets(&mut self, state: &State) {
        let Some(renewed) = state.last_write_renewed() else { return };
        let left = if renewed { state.left.forget_renewal } else { state.left.forget_create };
        if left == 0 {
            return;
        }
        let mut next = *state;
        if renewed {
            next.left.forget_renewal -= 1;
        } else {
            next.left.forget_create -= 1;
        }
        next.forget();
        if open_gates(state) > 0 {
            self.reached.mark(Sometimes::ForgottenUnderAHolder);
        }
        self.push(next, Step::Forgotten(renewed));
    }

    fn instance(&mut self, state: &State, i: usize) {
        let one = &state.instances[i];
        let clock = state.clock(i);
        match one.phase {
            Phase::Candidate => self.begins_taking(state, i),
            Phase::Taking | Phase::Renewing | Phase::Releasing | Phase::Returning => self.wire(state, i),
            Phase::Taken => self.raises(state, i),
            Phase::Raised => self.opens(state, i),
            Phase::Held => {
                if clock >= one.next {
                    self.begins_renewing(state, i);
                }
                if clock >= one.tenure.until {
                    self.overdue(state, i);
                }
            }
            Phase::Asked => {
                if clock >= one.tenure.until {
                    self.overdue(state, i);
                }
            }
            Phase::Over => self.stands_anew(state, i),
            Phase::Gone => {}
        }
        if matches!(one.phase, Phase::Held | Phase::Renewing | Phase::Asked) && state.left.release > 0 {
            self.releases(state, i);
        }
        if !matches!(one.phase, Phase::Candidate | Phase::Over | Phase::Gone) && state.left.crash > 0 {
            self.dies(state, i);
        }
    }

    /// What may become of what a call asks for.
    fn wire(&mut self, state: &State, i: usize) {
        if state.left.cut > 0 && self.may_be_cut(state, i) {
            self.cut_off(state, i);
        }
        let call = state.instances[i].call;
        // A call that has ended is not under way.
        let Err(ask) = self.calls.next(call) else { return };
        if let Some(answer) = state.instances[i].answer {
            self.hears(*state, i, answer, Step::Hears(i, answer));
            if state.left.lost_answer > 0 {
                let mut next = *state;
                next.left.lost_answer -= 1;
                let lost = if matches!(ask, Ask::Write(_)) { Answer::Unknown } else { Answer::Unavailable };
                self.hears(next, i, lost, Step::AnswerLost(i, lost));
            }
            return;
        }
        let write = match ask {
            Ask::Info | Ask::Keys | Ask::Last | Ask::Floor => {
                let answer = at_once(state, i, ask).unwrap_or(Answer::Unavailable);
                self.hears(*state, i, answer, Step::Hears(i, answer));
                None
            }
            Ask::Get => {
                let answer = state.read();
                let mut next = *state;
                next.instances[i].answer = Some(answer);
                self.push(next, Step::Serves(i, answer));
                if state.left.stale > 0
                    && let Some(answer) = state.read_stale()
                {
                    let mut next = *state;
                    next.left.stale -= 1;
                    next.instances[i].answer = Some(answer);
                    if matches!(answer, Answer::Found(..)) {
                        self.reached.mark(Sometimes::ReadsStale);
                    }
                    self.push(next, Step::ServesStale(i, answer));
                }
                None
            }
            Ask::Write(write) => {
                let mut sending = *state;
                if let Write::Purge(below) = write {
                    // The host keeps it before it sends: a purge may arrive late.
                    self.keeps(&mut sending, i, below.before());
                    // And proves by a write that the record is still its own: then two do not move at once.
                    if !sending.is_own_there(i) {
                        self.hears(sending, i, Answer::Unavailable, Step::Refused(i, Answer::Unavailable));
                        return;
                    }
                }
                self.writes(&sending, i, write);
                Some(write)
            }
        };
        if state.left.unavailable > 0 {
            let mut next = *state;
            next.left.unavailable -= 1;
            self.hears(next, i, Answer::Unavailable, Step::Refused(i, Answer::Unavailable));
        }
        if state.left.denied > 0 && write.is_some() {
            let mut next = *state;
            next.left.denied -= 1;
            self.hears(next, i, Answer::Denied, Step::Refused(i, Answer::Denied));
        }
    }

    fn writes(&mut self, state: &State, i: usize, write: Write) {
        let from = state.object(i);
        let mut next = *state;
        let answer = next.apply(from, write);
        next.instances[i].answer = Some(answer);
        self.push(next, Step::Serves(i, answer));
        if state.left.duplicate > 0 && answer != Answer::Stale {
            next.left.duplicate -= 1;
            next.on_its_way(from, write);
            self.push(next, Step::ServesTwice(i, answer));
        }
        if state.left.late > 0 {
            let mut next = *state;
            next.left.late -= 1;
            next.on_its_way(from, write);
            self.hears(next, i, Answer::Unknown, Step::Delayed(i));
        }
    }

    fn may_be_cut(&self, state: &State, i: usize) -> bool {
        let one = &state.instances[i];
        let ticks = self.config.ticks;
        let bound = match one.phase {
            Phase::Renewing => one.begun.saturating_add(ticks.renew).min(one.tenure.until),
            _ => one.begun.saturating_add(ticks.ttl),
        };
        state.clock(i) >= bound
    }

    /// Whether another one's gate is open while this one holds a tenure that is over.
    pub(crate) fn wakes_late(&mut self, state: &State, i: usize) {
        let one = &state.instances[i];
        let over = one.phase.holds() && state.clock(i) >= one.tenure.until;
        if over && (0..state.instances.len()).any(|j| j != i && passes(state, j)) {
            self.reached.mark(Sometimes::WakesAfterATakeover);
        }
    }
}

/// What is read and heard in one step: when such an answer is heard decides nothing that the next question, or
/// another delay before this one, would not decide as well.
pub(crate) fn at_once(state: &State, i: usize, ask: Ask) -> Option<Answer> {
    match ask {
        Ask::Info => Some(Answer::Info(state.store.created)),
        Ask::Keys => Some(Answer::NoKeys),
        Ask::Last => Some(Answer::Last(state.store.last)),
        Ask::Floor => Some(Answer::Floor(state.instances[i].floor)),
        Ask::Get | Ask::Write(_) => None,
    }
}
