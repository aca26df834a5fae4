//! A decision that waits for its imports, though it is a plain function: it is run again from its beginning with one
//! answer more each time.
//!
//! At the first import that is not yet answered it notes what was asked, answers that and everything after it as out of
//! reach until the function has returned, and forgets what that said. A decision is a function of its arguments and of
//! what its imports answer, so run again it comes to the same place.

use std::time::{Duration, SystemTime};

use incumbent::{imports, store};
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write,
};

/// Decide, awaiting each import once.
pub(crate) async fn call<T>(imports: &mut dyn imports::Imports, decide: impl Fn(&mut Replay) -> T) -> T {
    let mut replay = Replay::new(imports.clock());
    loop {
        replay.begin();
        let answer = decide(&mut replay);
        for said in replay.said.drain(..) {
            match said {
                Said::Moved(was, floor) => imports.moved(was, floor),
                Said::Log(level, target, message) => imports.log(level, &target, &message),
            }
        }
        match replay.asked.take() {
            None => return answer,
            Some(asked) => {
                let answer = ask(imports, asked).await;
                replay.log.push(answer);
            }
        }
    }
}

/// What was answered so far, and how far the function has come.
pub(crate) struct Replay {
    clock: incumbent::clock::Clock,
    log: Vec<Answer>,
    at: usize,
    asked: Option<Asked>,
    /// Said since the last answer.
    said: Vec<Said>,
}

enum Asked {
    Get(Role, String),
    Create(Role, String, Vec<u8>),
    Update(Role, String, Vec<u8>, u64),
    Delete(Role, String, u64),
    Keys(Role, Option<String>, u32),
    Info(Role),
    LastSequence,
    PurgeBelow(u64),
    OldestWaiting(String),
    Take(String, u64),
    HandBack(u64, u64),
    Floor,
}

#[derive(Clone)]
enum Answer {
    Read(Result<Reading, Fault>),
    Written(Result<Write, Fault>),
    Keys(Result<Vec<String>, Fault>),
    Info(Result<BucketInfo, Fault>),
    Number(Result<u64, Fault>),
    Waiting(Result<Option<Ask>, Fault>),
    Taken(Result<Option<Taken>, Fault>),
    HandedBack(Result<(), Fault>),
    Now(Moment),
    Said,
}

enum Said {
    Moved(u64, u64),
    Log(imports::Level, String, String),
}

impl Replay {
    fn new(clock: incumbent::clock::Clock) -> Self {
        Self { clock, log: Vec::new(), at: 0, asked: None, said: Vec::new() }
    }

    fn begin(&mut self) {
        self.at = 0;
    }

    /// The next answer, or nothing once something is asked.
    fn next(&mut self) -> Option<Answer> {
        if self.asked.is_some() {
            return None;
        }
        let answer = self.log.get(self.at).cloned();
        self.at += 1;
        answer
    }

    fn ask(&mut self, asked: impl FnOnce() -> Asked) -> Fault {
        if self.asked.is_none() {
            self.asked = Some(asked());
        }
        Fault::Unavailable(String::new())
    }

    /// Said once, where nothing is asked yet.
    fn say(&mut self, said: impl FnOnce() -> Said) {
        if self.next().is_none() && self.asked.is_none() {
            self.said.push(said());
            self.log.push(Answer::Said);
        }
    }
}

macro_rules! answered {
    ($self:ident, $kind:ident, $asked:expr) => {
        match $self.next() {
            Some(Answer::$kind(answer)) => answer,
            _ => Err($self.ask(|| $asked)),
        }
    };
}

impl Imports for Replay {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        answered!(self, Read, Asked::Get(bucket, key.into()))
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        answered!(self, Written, Asked::Create(bucket, key.into(), value.into()))
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        answered!(self, Written, Asked::Update(bucket, key.into(), value.into(), expected))
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        answered!(self, Written, Asked::Delete(bucket, key.into(), expected))
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        answered!(self, Keys, Asked::Keys(bucket, after.map(Into::into), most))
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        answered!(self, Info, Asked::Info(bucket))
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        answered!(self, Number, Asked::LastSequence)
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        answered!(self, Number, Asked::PurgeBelow(sequence))
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        answered!(self, Waiting, Asked::OldestWaiting(queue.into()))
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        answered!(self, Taken, Asked::Take(queue.into(), within_ns))
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        answered!(self, HandedBack, Asked::HandBack(ticket, delay_ns))
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        answered!(self, Number, Asked::Floor)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.say(|| Said::Moved(was, floor));
    }

    fn now(&mut self) -> Moment {
        match self.next() {
            Some(Answer::Now(moment)) => moment,
            _ => {
                let moment = moment(&self.clock);
                if self.asked.is_none() {
                    self.log.push(Answer::Now(moment));
                }
                moment
            }
        }
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        let level = match level {
            Level::Info => imports::Level::Info,
            Level::Warn => imports::Level::Warn,
        };
        self.say(|| Said::Log(level, target.into(), message.into()));
    }
}

async fn ask(imports: &mut dyn imports::Imports, asked: Asked) -> Answer {
    match asked {
        Asked::Get(bucket, key) => {
            let read = imports.get(role(bucket), &key).await;
            Answer::Read(read.map(reading).map_err(fault))
        }
        Asked::Create(bucket, key, value) => written(imports.create(role(bucket), &key, &value).await),
        Asked::Update(bucket, key, value, expected) => {
            written(imports.update(role(bucket), &key, &value, expected).await)
        }
        Asked::Delete(bucket, key, expected) => written(imports.delete(role(bucket), &key, expected).await),
        Asked::Keys(bucket, after, most) => {
            Answer::Keys(imports.keys(role(bucket), after.as_deref(), most).await.map_err(fault))
        }
        Asked::Info(bucket) => Answer::Info(
            imports
                .info(role(bucket))
                .await
                .map(|info| BucketInfo { created: info.created, ttl_ns: incumbent::clock::nanos(info.ttl) })
                .map_err(fault),
        ),
        Asked::LastSequence => Answer::Number(imports.last_sequence().await.map_err(fault)),
        Asked::PurgeBelow(sequence) => Answer::Number(imports.purge_below(sequence).await.map_err(fault)),
        Asked::OldestWaiting(queue) => {
            let oldest = imports.oldest_waiting(&queue).await;
            Answer::Waiting(oldest.map(|oldest| oldest.map(waiting)).map_err(fault))
        }
        Asked::Take(queue, within_ns) => {
            let took = imports.take(&queue, Duration::from_nanos(within_ns)).await;
            let taken = |(ticket, ask)| Taken { ticket, ask: waiting(ask) };
            Answer::Taken(took.map(|took| took.map(taken)).map_err(fault))
        }
        Asked::HandBack(ticket, delay_ns) => {
            let back = imports.hand_back(ticket, Duration::from_nanos(delay_ns)).await;
            Answer::HandedBack(back.map_err(fault))
        }
        Asked::Floor => Answer::Number(imports.floor().await.map_err(fault)),
    }
}

fn written(answer: Result<store::Write, store::Fault>) -> Answer {
    Answer::Written(
        answer
            .map(|write| match write {
                store::Write::Written(revision) => Write::Written(revision),
                store::Write::Stale(there) => Write::Stale(there.map(entry)),
            })
            .map_err(fault),
    )
}

fn reading(reading: store::Reading) -> Reading {
    match reading {
        store::Reading::Found(found) => Reading::Found(entry(found)),
        store::Reading::Deleted(revision) => Reading::Deleted(revision),
        store::Reading::Aged(revision) => Reading::Aged(revision),
        store::Reading::Absent => Reading::Absent,
        store::Reading::Erased(revision) => Reading::Erased(revision),
    }
}

fn entry(entry: store::Entry) -> Entry {
    Entry { revision: entry.revision, value: entry.value }
}

fn waiting(ask: store::queue::Ask) -> Ask {
    Ask { sequence: ask.sequence, stored: ask.stored.map(since_1970), body: ask.body }
}

fn fault(fault: store::Fault) -> Fault {
    match fault {
        store::Fault::Denied(text) => Fault::Denied(text),
        store::Fault::MissingBucket(text) => Fault::MissingBucket(text),
        store::Fault::TooLarge(text) => Fault::TooLarge(text),
        store::Fault::Unavailable(text) => Fault::Unavailable(text),
        store::Fault::Unknown(text) => Fault::Unknown(text),
    }
}

fn role(role: Role) -> imports::Role {
    match role {
        Role::Lease => imports::Role::Lease,
        Role::Plans => imports::Role::Plans,
        Role::Running => imports::Role::Running,
    }
}

fn moment(clock: &incumbent::clock::Clock) -> Moment {
    let wall = clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Moment { steady_ns: clock.now().0, wall: since_1970(wall) }
}

fn since_1970(since: Duration) -> Wall {
    Wall { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}
