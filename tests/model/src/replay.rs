//! A call of a decision function that stands still between two imports.
//!
//! The functions cannot be suspended, but they are pure: a call under way is its arguments and the answers so far,
//! and it goes on by being run again with one answer more. The first import without an answer is noted as what it
//! asks for now; everything after it is answered by a fault, and what comes out is thrown away.

use incumbent_policy::gate::{Closed, Open, Standing};
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write as Wrote,
};
use incumbent_policy::lease::{
    Attempt, Identity, Loss, Release, Renewal, Sighting, Tenure, Terms, Trouble, Vacancy,
};
use incumbent_policy::{Decisions, record};

use crate::calls::{self, Ask as Asks, Call, Kind, Lost, Outcome, Values};
use crate::state::{self, Answer, Object, Rev, Write, ns};

/// The key of the one lease there is.
pub(crate) const LEASE: &str = "lease";

/// The time of day, which never decides anything: always the same, so that the bytes of records are few.
const WALL: Wall = Wall { seconds: 1_800_000_000, nanoseconds: 0 };

/// The decisions of a policy, over replayed imports.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    #[expect(clippy::type_complexity, reason = "as the trait has it")]
    take: fn(&mut Replay<'_, '_>, &Terms, &Identity, Vacancy, Option<Sighting>) -> Result<Attempt, Trouble>,
    renew: fn(&mut Replay<'_, '_>, &Terms, &Identity, Tenure) -> Renewal,
    release: fn(&mut Replay<'_, '_>, &Identity, &Tenure) -> Release,
    pass: fn(&Standing, u64) -> Result<Open, Closed>,
}

impl Policy {
    pub(crate) fn of<P: Decisions>() -> Self {
        Self {
            take: |io, terms, who, rule, seen| P::take(io, terms, who, rule, seen),
            renew: |io, terms, who, tenure| P::renew(io, terms, who, tenure),
            release: |io, who, tenure| P::release(io, who, tenure),
            pass: P::pass,
        }
    }

    /// The tick until which a gate is open under this tenure; `None` when it is not opened.
    pub(crate) fn pass(&self, tenure: state::Tenure, clock: u8) -> Option<(Rev, u8)> {
        let standing = Standing::Held(tenure.full(taken()));
        (self.pass)(&standing, ns(clock)).ok().map(|open| (Rev::of(open.epoch), state::ticks(open.until_ns)))
    }
}

/// What a call reaches: answers that came, and the clock and floor as they are now.
pub(crate) struct Replay<'a, 'b> {
    ttl_ns: u64,
    one_floor: bool,
    /// Who calls.
    object: Object,
    /// The bucket that writes are meant for, as the host has it: the one that is known to the call.
    created: Option<u8>,
    /// What stands at the key instead of a value, as the call was told.
    marker: Rev,
    values: &'a mut Values<'b>,
    /// The answers so far; the clock and the floor, which are the instance's own, are answered at once and added.
    log: Vec<Answer>,
    at: usize,
    clock: u8,
    floor: Rev,
    asks: Option<Asks>,
}

/// Run a call with these answers: the answers with those of clock and floor added, and where it stands now.
pub(crate) fn run(
    policy: &Policy,
    terms: calls::Terms,
    call: Call,
    log: Vec<Answer>,
    (clock, floor): (u8, Rev),
    values: &mut Values<'_>,
) -> (Vec<Answer>, Result<Outcome, Asks>) {
    let calls::Terms { ticks, rule, one_floor } = terms;
    let full = Terms {
        ttl_ns: ns(ticks.ttl),
        renew_every_ns: ns(ticks.renew),
        margin_ns: ns(ticks.margin),
        // The shortest: what a candidate does is bounded by the looks.
        poll_ns: 1,
    };
    let who = identity(call.object);
    let created = match call.kind {
        Kind::Take(_) => None,
        Kind::Renew(tenure) | Kind::Release(tenure) => Some(tenure.created),
    };
    let ttl_ns = full.ttl_ns;
    let (object, marker) = (call.object, Rev::ZERO);
    let mut io =
        Replay { ttl_ns, one_floor, object, created, marker, values, log, at: 0, clock, floor, asks: None };
    let outcome = match call.kind {
        Kind::Take(sight) => match (policy.take)(&mut io, &full, &who, rule, sight.map(state::Sight::full)) {
            Ok(Attempt::Taken(tenure)) => Outcome::Taken(state::Tenure::of(&tenure)),
            Ok(Attempt::Waiting(waiting)) => Outcome::Waiting(state::Sight::of(&waiting.sighting)),
            Err(Trouble::Unwritable(_)) => Outcome::Unwritable,
            Err(_) => Outcome::Trouble,
        },
        Kind::Renew(tenure) => match (policy.renew)(&mut io, &full, &who, tenure.full(taken())) {
            Renewal::Kept(tenure) => Outcome::Kept(state::Tenure::of(&tenure)),
            Renewal::Failed(set) => Outcome::Failed(state::Tenure::of(&set.tenure)),
            Renewal::Refused(set) => Outcome::Refused(state::Tenure::of(&set.tenure)),
            Renewal::Asked(set) => Outcome::Asked(state::Tenure::of(&set.tenure)),
            Renewal::Lost(loss) => Outcome::Lost(match loss {
                Loss::Overdue => Lost::Overdue,
                Loss::Superseded(_) => Lost::Superseded,
                Loss::Overwritten(_) => Lost::Overwritten,
                Loss::Gone => Lost::Gone,
                Loss::RaisedAgain => Lost::RaisedAgain,
            }),
        },
        Kind::Release(tenure) => match (policy.release)(&mut io, &who, &tenure.full(taken())) {
            Release::GivenBack => Outcome::GivenBack,
            Release::NotOurs | Release::Left(_) => Outcome::NotGivenBack,
        },
    };
    let next = io.asks.map_or(Ok(outcome), Err);
    (io.log, next)
}

/// Who a lease object is towards the policy.
pub(crate) fn identity(object: Object) -> Identity {
    Identity {
        lease: LEASE.into(),
        instance: format!("i{}", object.instance()),
        host: String::new(),
        build: String::new(),
        nonce: format!("n{}", object.0),
    }
}

fn taken() -> String {
    record::rfc3339(WALL)
}

impl Replay<'_, '_> {
    /// The next answer, or the note of what is asked for now.
    fn answer(&mut self, asks: Asks) -> Option<Answer> {
        let answer = self.log.get(self.at).copied().filter(|_| self.asks.is_none());
        self.at += 1;
        if answer.is_none() {
            self.asks.get_or_insert(asks);
        }
        answer
    }

    /// An answer of the instance's own.
    fn own(&mut self, now: Answer) -> Answer {
        if self.asks.is_some() {
            return now;
        }
        if self.at == self.log.len() {
            self.log.push(now);
        }
        self.at += 1;
        self.log[self.at - 1]
    }

    fn stands(&mut self, marker: Rev) -> u64 {
        self.marker = marker;
        marker.number()
    }

    fn write(&mut self, write: Write) -> Result<Wrote, Fault> {
        match self.answer(Asks::Write(write)) {
            Some(Answer::Written(revision)) => Ok(Wrote::Written(revision.number())),
            Some(Answer::Stale) => Ok(Wrote::Stale(None)),
            other => Err(fault(other)),
        }
    }
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

impl Imports for Replay<'_, '_> {
    fn get(&mut self, _: Role, _: &str) -> Result<Reading, Fault> {
        match self.answer(Asks::Get) {
            Some(Answer::Found(revision, value)) => {
                let (bytes, meant_for) = self.values.of(value).clone();
                let entry = Entry { revision: revision.number(), value: bytes.to_vec() };
                // As the host has it: a write of one's own that came late, meant for another bucket.
                let is_stray = self.created != Some(meant_for)
                    && record::read_marked(&entry)
                        .is_ok_and(|(holder, _)| identity(self.object).owns(&holder));
                self.marker = if is_stray { revision } else { Rev::ZERO };
                Ok(if is_stray { Reading::Erased(entry.revision) } else { Reading::Found(entry) })
            }
            Some(Answer::Deleted(revision)) => Ok(Reading::Deleted(self.stands(revision))),
            Some(Answer::Aged(revision)) => Ok(Reading::Aged(self.stands(revision))),
            Some(Answer::Erased(revision)) => Ok(Reading::Erased(self.stands(revision))),
            Some(Answer::Absent) => {
                self.marker = Rev::ZERO;
                Ok(Reading::Absent)
            }
            other => Err(fault(other)),
        }
    }

    fn create(&mut self, _: Role, _: &str, value: &[u8]) -> Result<Wrote, Fault> {
        let value = self.values.number(value, self.created.unwrap_or(0));
        self.write(Write::Create(value, self.marker))
    }

    fn update(&mut self, _: Role, _: &str, value: &[u8], expected: u64) -> Result<Wrote, Fault> {
        let value = self.values.number(value, self.created.unwrap_or(0));
        self.write(Write::Update(value, Rev::of(expected)))
    }

    fn delete(&mut self, _: Role, _: &str, expected: u64) -> Result<Wrote, Fault> {
        self.write(Write::Delete(Rev::of(expected), self.created.unwrap_or(0)))
    }

    /// The bucket has no other lease in it.
    fn keys(&mut self, _: Role, _: Option<&str>, _: u32) -> Result<Vec<String>, Fault> {
        match self.answer(Asks::Keys) {
            Some(Answer::NoKeys) => Ok(Vec::new()),
            other => Err(fault(other)),
        }
    }

    fn info(&mut self, _: Role) -> Result<BucketInfo, Fault> {
        match self.answer(Asks::Info) {
            Some(Answer::Info(created)) => {
                self.created.get_or_insert(created);
                Ok(BucketInfo { created: created.into(), ttl_ns: self.ttl_ns })
            }
            other => Err(fault(other)),
        }
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        match self.answer(Asks::Last) {
            Some(Answer::Last(revision)) => Ok(revision.number()),
            other => Err(fault(other)),
        }
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        match self.answer(Asks::Write(Write::Purge(Rev::of(sequence)))) {
            Some(Answer::Purged) => {
                self.marker = Rev::ZERO;
                Ok(1)
            }
            other => Err(fault(other)),
        }
    }

    fn oldest_waiting(&mut self, _: &str) -> Result<Option<Ask>, Fault> {
        Err(fault(None))
    }

    fn take(&mut self, _: &str, _: u64) -> Result<Option<Taken>, Fault> {
        Err(fault(None))
    }

    fn hand_back(&mut self, _: u64, _: u64) -> Result<(), Fault> {
        Err(fault(None))
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        let own = Answer::Floor(self.floor);
        match if self.one_floor { self.answer(Asks::Floor) } else { Some(self.own(own)) } {
            Some(Answer::Floor(floor)) => Ok(floor.number()),
            other => Err(fault(other)),
        }
    }

    fn moved(&mut self, _: u64, _: u64) {}

    fn now(&mut self) -> Moment {
        let tick = match self.own(Answer::Now(self.clock)) {
            Answer::Now(tick) => tick,
            _ => self.clock,
        };
        Moment { steady_ns: ns(tick), wall: WALL }
    }

    fn log(&mut self, _: Level, _: &str, _: &str) {}
}
