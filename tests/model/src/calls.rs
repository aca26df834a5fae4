//! Calls under way, each kept once under a number, so that a state has only the number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use incumbent_policy::imports::Entry;
use incumbent_policy::lease::Vacancy;
use incumbent_policy::record;

use crate::config::Ticks;
use crate::replay::{self, Policy};
use crate::state::{Answer, Object, Rev, Sight, Tenure, Write};

/// Which function was called, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) object: Object,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Take(Option<Sight>),
    Renew(Tenure),
    Release(Tenure),
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    Get,
    Info,
    Keys,
    Last,
    Floor,
    Write(Write),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken(Tenure),
    Waiting(Sight),
    Unwritable,
    Trouble,
    Kept(Tenure),
    Failed(Tenure),
    Refused(Tenure),
    Asked(Tenure),
    Lost(Lost),
    GivenBack,
    NotGivenBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Overdue,
    Superseded,
    Overwritten,
    Gone,
    RaisedAgain,
}

/// A call and the answers so far.
#[derive(PartialEq, Eq, Hash)]
struct Under {
    call: Call,
    log: Vec<Answer>,
}

#[derive(Clone)]
struct Node {
    under: Arc<Under>,
    next: Result<Outcome, Ask>,
}

/// What every call of an exploration is made with.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) ticks: Ticks,
    pub(crate) rule: Vacancy,
    /// Whether others move the floor, too.
    pub(crate) one_floor: bool,
}

/// All calls of one exploration, and all values written, shared by its threads.
#[derive(Default)]
pub(crate) struct Shared(Mutex<All>);

#[derive(Default)]
struct All {
    nodes: Vec<Node>,
    numbers: HashMap<Arc<Under>, u32, Quickly>,
    values: Vec<Written>,
    value_numbers: HashMap<Written, u16>,
}

/// One thread's view, which asks the others only for what it has not met yet.
pub(crate) struct Calls<'a> {
    shared: &'a Shared,
    policy: Policy,
    terms: Terms,
    nodes: Vec<Node>,
    begun: HashMap<(Call, u8, Rev), u32, Quickly>,
    went_on: HashMap<(u32, Answer, u8, Rev), u32, Quickly>,
    marked: HashMap<(u16, Rev), Option<u16>, Quickly>,
    values: Values<'a>,
}

/// Bytes, and the bucket that they were meant for.
pub(crate) type Written = (Arc<[u8]>, u8);

/// The values written, by number.
pub(crate) struct Values<'a> {
    shared: &'a Shared,
    known: Vec<Written>,
}

impl Values<'_> {
    pub(crate) fn of(&mut self, number: u16) -> &Written {
        if usize::from(number) >= self.known.len() {
            self.known.clone_from(&self.shared.lock().values);
        }
        &self.known[usize::from(number)]
    }

    pub(crate) fn number(&mut self, bytes: &[u8], meant_for: u8) -> u16 {
        let written: Written = (bytes.into(), meant_for);
        let mut all = self.shared.lock();
        if let Some(number) = all.value_numbers.get(&written) {
            return *number;
        }
        // A run has a few values for each lease object.
        let number = u16::try_from(all.values.len()).unwrap_or(u16::MAX);
        all.values.push(written.clone());
        all.value_numbers.insert(written, number);
        number
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn new(shared: &'a Shared, policy: Policy, terms: Terms) -> Self {
        Self {
            shared,
            policy,
            terms,
            nodes: Vec::new(),
            begun: HashMap::default(),
            went_on: HashMap::default(),
            marked: HashMap::default(),
            values: Values { shared, known: Vec::new() },
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Begin a call: its number.
    pub(crate) fn begin(&mut self, call: Call, clock: u8, floor: Rev) -> u32 {
        if let Some(number) = self.begun.get(&(call, clock, floor)) {
            return *number;
        }
        let number = self.run(call, Vec::new(), clock, floor);
        self.begun.insert((call, clock, floor), number);
        number
    }

    /// Go on with an answer more: the number of the call as it is then.
    pub(crate) fn go_on(&mut self, number: u32, answer: Answer, clock: u8, floor: Rev) -> u32 {
        if let Some(next) = self.went_on.get(&(number, answer, clock, floor)) {
            return *next;
        }
        let under = self.node(number).under.clone();
        let mut log = under.log.clone();
        log.push(answer);
        let next = self.run(under.call, log, clock, floor);
        self.went_on.insert((number, answer, clock, floor), next);
        next
    }

    /// What a call waits for, or how it ended.
    pub(crate) fn next(&mut self, number: u32) -> Result<Outcome, Ask> {
        self.node(number).next
    }

    /// Whether a call has read its clock or its floor since the answer that it was given last.
    pub(crate) fn has_looked(&mut self, number: u32) -> bool {
        matches!(self.log(number).last(), Some(Answer::Now(_) | Answer::Floor(_)))
    }

    /// The answers so far.
    pub(crate) fn log(&mut self, number: u32) -> &[Answer] {
        &self.node(number).under.log
    }

    /// The tenure that a renewal was called with.
    pub(crate) fn renewed(&mut self, number: u32) -> Option<Tenure> {
        match self.node(number).under.call.kind {
            Kind::Renew(tenure) => Some(tenure),
            Kind::Take(_) | Kind::Release(_) => None,
        }
    }

    /// Whether a take that looked at one bucket ended with the sight of another.
    pub(crate) fn begins_and_ends_in_another_bucket(&mut self, number: u32, sight: Sight) -> bool {
        self.log(number).iter().any(|answer| matches!(answer, Answer::Info(was) if *was != sight.created))
    }

    /// A value with the mark of an operator; `None` when it has one.
    pub(crate) fn mark(&mut self, value: u16, revision: Rev) -> Option<u16> {
        if let Some(known) = self.marked.get(&(value, revision)) {
            return *known;
        }
        let (bytes, meant_for) = self.values.of(value).clone();
        let entry = Entry { revision: revision.number(), value: bytes.to_vec() };
        let marked = record::read_marked(&entry).ok().filter(|(_, by)| by.is_empty());
        let bytes = marked.and_then(|(holder, _)| record::mark(&entry, holder.epoch, "ops").ok());
        let number = bytes.map(|bytes| self.values.number(&bytes, meant_for));
        self.marked.insert((value, revision), number);
        number
    }

    fn node(&mut self, number: u32) -> &Node {
        let at = number as usize - 1;
        if at >= self.nodes.len() {
            let all = self.shared.lock();
            self.nodes.extend_from_slice(&all.nodes[self.nodes.len()..]);
        }
        &self.nodes[at]
    }

    fn run(&mut self, call: Call, log: Vec<Answer>, clock: u8, floor: Rev) -> u32 {
        let (log, next) = replay::run(&self.policy, self.terms, call, log, (clock, floor), &mut self.values);
        let under = Arc::new(Under { call, log });
        let mut all = self.shared.lock();
        if let Some(number) = all.numbers.get(&under) {
            return *number;
        }
        all.nodes.push(Node { under: under.clone(), next });
        let number = u32::try_from(all.nodes.len()).unwrap_or(u32::MAX);
        all.numbers.insert(under, number);
        number
    }
}

/// A hash for small keys.
pub(crate) type Quickly = BuildHasherDefault<Quick>;

#[derive(Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
