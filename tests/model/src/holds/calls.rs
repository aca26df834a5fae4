//! Calls under way: a call of a decision function that stands still between two imports is its arguments and the
//! answers so far, and goes on by being run again with one answer more. Each is kept once, under a number.

use std::collections::HashMap;

use incumbent_policy::Decisions;
use incumbent_policy::holds::{Admitted, Building, Kept, LET_THROUGH, Verdict};
use incumbent_policy::imports::{
    Ask as Job, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write as Wrote,
};

use super::state::{Answer, BEGIN, Place, Write};
use crate::calls::Quickly;
use crate::state::{TICK_NS, ns};

/// The keys of the bucket of plans in order, the first of which is no plan's and always there.
pub(super) const KEYS: [&str; 3] = ["a-note", "plan-1", "plan-2"];

const QUEUE: &str = "checks";

/// How long a check waits before it is let through, in ticks.
const AFTER: u8 = 2;

/// Which function was called, and with what. The clock is read once, at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Assess,
    /// No two takings of a builder are at the same instant.
    LetOneThrough {
        builder: usize,
        tick: u8,
        nonce: u8,
    },
    Keep {
        builder: usize,
        since: u16,
        revision: u8,
    },
    Drop {
        revision: u8,
    },
    Begin {
        plan: u8,
    },
    Seen {
        plan: u8,
        since: u16,
        revision: u8,
    },
    End {
        plan: u8,
        revision: u8,
    },
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The next key from this place in the order on.
    Keys(u8),
    Get(Place),
    Write(Place, Write),
    Oldest,
    Take,
    HandBack,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Free,
    Held,
    Admitted { since: u16, revision: u8 },
    NotAdmitted,
    Kept(u8),
    Lost,
    Building { since: u16, revision: u8 },
    Done,
    Fault,
}

struct Node {
    call: Call,
    log: Vec<Answer>,
    next: Result<Outcome, Ask>,
}

/// The decisions of a policy, over replayed imports.
#[derive(Clone, Copy)]
pub(super) struct Policy(fn(Call, &mut Replay<'_>) -> Outcome);

impl Policy {
    pub(super) fn of<P: Decisions>() -> Self {
        Self(decide::<P>)
    }
}

fn decide<P: Decisions>(call: Call, io: &mut Replay<'_>) -> Outcome {
    let outcome = match call {
        Call::Assess => P::assess(io).map(|verdict| match verdict {
            Verdict::Free => Outcome::Free,
            Verdict::Held(_) => Outcome::Held,
        }),
        Call::LetOneThrough { builder, .. } => {
            let after = u64::from(AFTER) * TICK_NS;
            P::let_one_through(io, &[QUEUE.into()], &name(builder), after, TICK_NS).map(|admitted| {
                match admitted {
                    Some(Admitted { since, revision, .. }) => Outcome::Admitted {
                        since: io.values.number(since.as_bytes()),
                        revision: small(revision),
                    },
                    None => Outcome::NotAdmitted,
                }
            })
        }
        Call::Keep { builder, since, revision } => {
            let since = io.values.text(since);
            P::keep_let_through(io, &name(builder), &since, revision.into()).map(kept)
        }
        Call::Drop { revision } => P::drop_let_through(io, revision.into()).map(|()| Outcome::Done),
        Call::Begin { plan } => P::begin(io, KEYS[usize::from(plan)]).map(|Building { since, revision }| {
            Outcome::Building { since: io.values.number(since.as_bytes()), revision: small(revision) }
        }),
        Call::Seen { plan, since, revision } => {
            let known = Building { since: io.values.text(since), revision: revision.into() };
            P::seen(io, KEYS[usize::from(plan)], &known).map(kept)
        }
        Call::End { plan, revision } => {
            P::end(io, KEYS[usize::from(plan)], revision.into()).map(|()| Outcome::Done)
        }
    };
    outcome.unwrap_or(Outcome::Fault)
}

fn kept(kept: Kept) -> Outcome {
    match kept {
        Kept::Kept(revision) => Outcome::Kept(small(revision)),
        Kept::Lost => Outcome::Lost,
    }
}

fn name(builder: usize) -> String {
    format!("seat-{builder}")
}

/// A run has fewer revisions than fit.
fn small(revision: u64) -> u8 {
    u8::try_from(revision).unwrap_or(u8::MAX)
}

/// Whether an ask has waited long enough at this tick.
pub(super) fn is_old_enough(ask: u8, tick: u8) -> bool {
    tick >= asked(ask) + AFTER
}

/// The tick at which an ask was asked.
fn asked(ask: u8) -> u8 {
    BEGIN - AFTER + ask
}

fn wall(tick: u8, nanoseconds: u8) -> Wall {
    Wall { seconds: 1_800_000_000 + i64::from(tick), nanoseconds: nanoseconds.into() }
}

/// All that was written, by number.
#[derive(Default)]
struct Values {
    known: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u16>,
}

impl Values {
    fn number(&mut self, bytes: &[u8]) -> u16 {
        if let Some(number) = self.numbers.get(bytes) {
            return *number;
        }
        // A run has a few values for each taking.
        let number = u16::try_from(self.known.len()).unwrap_or(u16::MAX);
        self.known.push(bytes.into());
        self.numbers.insert(bytes.into(), number);
        number
    }

    fn text(&self, number: u16) -> String {
        String::from_utf8_lossy(&self.known[usize::from(number)]).into_owned()
    }
}

/// All calls of one exploration.
pub(super) struct Calls {
    policy: Policy,
    nodes: Vec<Node>,
    begun: HashMap<Call, u32, Quickly>,
    went_on: HashMap<(u32, Answer), u32, Quickly>,
    values: Values,
}

impl Calls {
    pub(super) fn new(policy: Policy) -> Self {
        let (begun, went_on) = (HashMap::default(), HashMap::default());
        Self { policy, nodes: Vec::new(), begun, went_on, values: Values::default() }
    }

    /// Begin a call: its number.
    pub(super) fn begin(&mut self, call: Call) -> u32 {
        if let Some(number) = self.begun.get(&call) {
            return *number;
        }
        let number = self.run(call, Vec::new());
        self.begun.insert(call, number);
        number
    }

    /// Go on with an answer more: the number of the call as it is then.
    pub(super) fn go_on(&mut self, number: u32, answer: Answer) -> u32 {
        if let Some(next) = self.went_on.get(&(number, answer)) {
            return *next;
        }
        let Node { call, log, .. } = self.node(number);
        let (call, mut log) = (*call, log.clone());
        log.push(answer);
        let next = self.run(call, log);
        self.went_on.insert((number, answer), next);
        next
    }

    /// What a call waits for, or how it ended.
    pub(super) fn next(&self, number: u32) -> Result<Outcome, Ask> {
        self.node(number).next
    }

    pub(super) fn call(&self, number: u32) -> Call {
        self.node(number).call
    }

    /// Whether this was among the answers.
    pub(super) fn heard(&self, number: u32, answer: impl Fn(&Answer) -> bool) -> bool {
        self.node(number).log.iter().any(answer)
    }

    fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    fn run(&mut self, call: Call, log: Vec<Answer>) -> u32 {
        let mut io = Replay { values: &mut self.values, log: &log, at: 0, asks: None, call };
        let outcome = (self.policy.0)(call, &mut io);
        let next = io.asks.map_or(Ok(outcome), Err);
        self.nodes.push(Node { call, log, next });
        u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
    }
}

/// What a call reaches: the answers that came. The first import without one is noted as what it asks for now; what
/// comes after is answered by a fault, and what comes out is thrown away.
pub(super) struct Replay<'a> {
    values: &'a mut Values,
    log: &'a [Answer],
    at: usize,
    asks: Option<Ask>,
    call: Call,
}

impl Replay<'_> {
    fn answer(&mut self, ask: Ask) -> Option<Answer> {
        let answer = self.log.get(self.at).copied().filter(|_| self.asks.is_none());
        self.at += 1;
        if answer.is_none() {
            self.asks.get_or_insert(ask);
        }
        answer
    }

    fn write(&mut self, bucket: Role, key: &str, write: Write) -> Result<Wrote, Fault> {
        let place = place(bucket, key)?;
        match self.answer(Ask::Write(place, write)) {
            Some(Answer::Written(revision)) => Ok(Wrote::Written(revision.into())),
            Some(Answer::Stale) => Ok(Wrote::Stale(None)),
            other => Err(fault(other)),
        }
    }
}

/// What the host does not grant is denied.
fn place(bucket: Role, key: &str) -> Result<Place, Fault> {
    let at = match bucket {
        Role::Running => (key == LET_THROUGH).then_some(Place::LET_THROUGH),
        Role::Plans => Place::ALL.into_iter().skip(1).find(|place| KEYS[usize::from(place.0)] == key),
        Role::Lease => None,
    };
    at.ok_or_else(|| fault(Some(Answer::Denied)))
}

/// What is no answer of the kind asked for is a fault.
fn fault(answer: Option<Answer>) -> Fault {
    let text = String::new();
    match answer {
        Some(Answer::Denied) => Fault::Denied(text),
        Some(Answer::Unknown) => Fault::Unknown(text),
        _ => Fault::Unavailable(text),
    }
}

fn job(ask: u8) -> Job {
    Job { sequence: u64::from(ask) + 1, stored: Some(wall(asked(ask), 0)), body: Vec::new() }
}

impl Imports for Replay<'_> {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        let place = place(bucket, key)?;
        match self.answer(Ask::Get(place)) {
            Some(Answer::Found(revision, value)) => {
                let value = self.values.known[usize::from(value)].clone();
                Ok(Reading::Found(Entry { revision: revision.into(), value }))
            }
            Some(Answer::Deleted) => Ok(Reading::Deleted(1)),
            Some(Answer::Absent) => Ok(Reading::Absent),
            other => Err(fault(other)),
        }
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Wrote, Fault> {
        let value = self.values.number(value);
        self.write(bucket, key, Write::Create(value))
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Wrote, Fault> {
        let value = self.values.number(value);
        self.write(bucket, key, Write::Update(value, small(expected)))
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Wrote, Fault> {
        self.write(bucket, key, Write::Delete(small(expected)))
    }

    /// One key a page, which is as many as a store likes.
    fn keys(&mut self, bucket: Role, after: Option<&str>, _: u32) -> Result<Vec<String>, Fault> {
        if bucket != Role::Plans {
            return Err(fault(Some(Answer::Denied)));
        }
        let from = after.map_or(0, |after| KEYS.iter().filter(|key| **key <= after).count());
        match self.answer(Ask::Keys(small(from as u64))) {
            Some(Answer::Key(key)) => Ok(vec![KEYS[usize::from(key)].into()]),
            Some(Answer::NoKey) => Ok(Vec::new()),
            other => Err(fault(other)),
        }
    }

    fn info(&mut self, _: Role) -> Result<BucketInfo, Fault> {
        Err(fault(Some(Answer::Denied)))
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        Err(fault(Some(Answer::Denied)))
    }

    fn purge_below(&mut self, _: u64) -> Result<u64, Fault> {
        Err(fault(Some(Answer::Denied)))
    }

    fn oldest_waiting(&mut self, _: &str) -> Result<Option<Job>, Fault> {
        match self.answer(Ask::Oldest) {
            Some(Answer::Asked(ask)) => Ok(Some(job(ask))),
            Some(Answer::NoAsk) => Ok(None),
            other => Err(fault(other)),
        }
    }

    fn take(&mut self, _: &str, _: u64) -> Result<Option<Taken>, Fault> {
        match self.answer(Ask::Take) {
            Some(Answer::Asked(ask)) => Ok(Some(Taken { ticket: ask.into(), ask: job(ask) })),
            Some(Answer::NoAsk) => Ok(None),
            other => Err(fault(other)),
        }
    }

    fn hand_back(&mut self, _: u64, _: u64) -> Result<(), Fault> {
        match self.answer(Ask::HandBack) {
            Some(Answer::HandedBack) => Ok(()),
            other => Err(fault(other)),
        }
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        Err(fault(Some(Answer::Denied)))
    }

    fn moved(&mut self, _: u64, _: u64) {}

    fn now(&mut self) -> Moment {
        // Of a plan the time of day decides nothing: always the same, so that the bytes are few.
        let (tick, nonce) = match self.call {
            Call::LetOneThrough { tick, nonce, .. } => (tick, nonce),
            _ => (BEGIN, 0),
        };
        Moment { steady_ns: ns(tick), wall: wall(tick, nonce) }
    }

    fn log(&mut self, _: Level, _: &str, _: &str) {}
}
