//! A decision made natively: the policy crate's own functions, over a script.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt as _;
use incumbent::imports::Imports as _;
use incumbent::policy::rehearsal::parse::{self, Args};
use incumbent::policy::rehearsal::{Scene, Script};
use incumbent::{imports, store};
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write,
};
use incumbent_policy::{gate, holds, lease};

#[path = "../../host/src/policy/rehearsal/words.rs"]
mod words;

mod types {
    pub(super) use incumbent_policy::gate::{Closed, Open, Standing};
    pub(super) use incumbent_policy::holds::{Admitted, Building, Kept, Report, Verdict};
    pub(super) use incumbent_policy::imports::Fault as PolicyFault;
    pub(super) use incumbent_policy::lease::{
        Attempt, Certainty, HeldLease, Holder, Identity, Loss, Release as ReleaseOutcome, Renewal, Request,
        Sighting, Tenure, Terms, Trouble, Vacancy,
    };
}

/// Decide a command, and tell the outcome.
///
/// # Errors
/// The command is not understood.
pub fn decide(scene: &Scene, script: &Script) -> Result<String, String> {
    let (command, args) = scene.command();
    let io = &mut Native(script.clone());
    let args = &mut Args::of(args)?;
    let outcome = match command {
        "check" => words::checked(&words::terms(args)?.check()),
        "take" => {
            let (terms, who) = (words::terms(args)?, words::identity(args));
            let (rule, seen) = (words::vacancy(args)?, words::sighting(args)?);
            words::attempt(&lease::take(io, &terms, &who, rule, seen))
        }
        "renew" => {
            let (terms, who, tenure) = (words::terms(args)?, words::identity(args), words::tenure(args)?);
            words::renewal(&lease::renew(io, &terms, &who, tenure))
        }
        "release" => {
            let (who, tenure) = (words::identity(args), words::tenure(args)?);
            words::release(&lease::release(io, &who, &tenure))
        }
        "step-down" => {
            let (lease, by) = (args.text("lease", "controller"), args.text("by", "ops"));
            words::request(&lease::step_down(io, &lease, &by))
        }
        "current" => words::current(&lease::current(io, &args.text("lease", "controller"))),
        "list" => {
            let (after, most) = (args.value("after"), words::most(args)?);
            words::list(&lease::list(io, after, most))
        }
        "pass" => {
            let standing = words::standing(args)?;
            let now = io.now().steady_ns;
            words::pass(&gate::pass(&standing, now))
        }
        "admit" => words::admit(gate::admit(args.number("heard", 0)?, args.number("epoch", 0)?)),
        "assess" => words::assess(&holds::assess(io)),
        "let-one-through" => {
            let (queues, builder) = (words::queues(args), args.text("builder", "seat-1"));
            let (after, within) = (args.time("after", "1800s")?, args.time("within", "2s")?);
            words::admitted(&holds::let_one_through(io, &queues, &builder, after, within))
        }
        "keep" => {
            let (builder, since) = (args.text("builder", "seat-1"), args.text("since", words::SINCE));
            words::kept(&holds::keep(io, &builder, &since, args.number("revision", 57)?))
        }
        "drop" => words::done(&holds::drop(io, args.number("revision", 57)?)),
        "status" => words::report(&holds::status(io)),
        "begin" => words::building(&holds::begin(io, &args.text("plan", "plan-12"))),
        "seen" => {
            let (plan, since) = (args.text("plan", "plan-12"), args.text("since", words::SINCE));
            let known = holds::Building { since, revision: args.number("revision", 57)? };
            words::kept(&holds::seen(io, &plan, &known))
        }
        "end" => words::done(&holds::end(io, &args.text("plan", "plan-12"), args.number("revision", 57)?)),
        other => return Err(format!("{other:?} is no command")),
    };
    std::mem::take(args).end()?;
    Ok(outcome)
}

/// A script, as the guest's own trait. It answers at once, or, broken, never.
struct Native(Script);

fn at_once<T>(answer: impl Future<Output = Result<T, store::Fault>>) -> Result<T, Fault> {
    let broken = || Err(store::Fault::Unavailable("the script is broken".into()));
    answer.now_or_never().unwrap_or_else(broken).map_err(|fault| match fault {
        store::Fault::Denied(text) => Fault::Denied(text),
        store::Fault::MissingBucket(text) => Fault::MissingBucket(text),
        store::Fault::TooLarge(text) => Fault::TooLarge(text),
        store::Fault::Unavailable(text) => Fault::Unavailable(text),
        store::Fault::Unknown(text) => Fault::Unknown(text),
    })
}

impl Imports for Native {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        Ok(match at_once(self.0.get(role(bucket), key))? {
            store::Reading::Found(found) => Reading::Found(entry(found)),
            store::Reading::Deleted(revision) => Reading::Deleted(revision),
            store::Reading::Aged(revision) => Reading::Aged(revision),
            store::Reading::Absent => Reading::Absent,
        })
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        at_once(self.0.create(role(bucket), key, value)).map(written)
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        at_once(self.0.update(role(bucket), key, value, expected)).map(written)
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        at_once(self.0.delete(role(bucket), key, expected)).map(written)
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        at_once(self.0.keys(role(bucket), after, most))
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        let said = at_once(self.0.info(role(bucket)))?;
        Ok(BucketInfo { created: said.created, ttl_ns: incumbent::clock::nanos(said.ttl) })
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        at_once(self.0.last_sequence())
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        at_once(self.0.purge_below(sequence))
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        Ok(at_once(self.0.oldest_waiting(queue))?.map(asked))
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        let one = at_once(self.0.take(queue, Duration::from_nanos(within_ns)))?;
        Ok(one.map(|(ticket, ask)| Taken { ticket, ask: asked(ask) }))
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        at_once(self.0.hand_back(ticket, Duration::from_nanos(delay_ns)))
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        at_once(self.0.floor())
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.0.moved(was, floor);
    }

    fn now(&mut self) -> Moment {
        let clock = self.0.clock();
        let wall = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Moment { steady_ns: clock.now().0, wall: since_1970(wall) }
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        let level = match level {
            Level::Info => imports::Level::Info,
            Level::Warn => imports::Level::Warn,
        };
        self.0.log(level, target, message);
    }
}

fn role(role: Role) -> imports::Role {
    match role {
        Role::Lease => imports::Role::Lease,
        Role::Plans => imports::Role::Plans,
        Role::Running => imports::Role::Running,
    }
}

fn entry(entry: store::Entry) -> Entry {
    Entry { revision: entry.revision, value: entry.value }
}

fn written(write: store::Write) -> Write {
    match write {
        store::Write::Written(revision) => Write::Written(revision),
        store::Write::Stale(there) => Write::Stale(there.map(entry)),
    }
}

fn asked(ask: imports::Ask) -> Ask {
    Ask { sequence: ask.sequence, stored: ask.stored.map(since_1970), body: ask.body }
}

fn since_1970(since: Duration) -> Wall {
    Wall { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}
