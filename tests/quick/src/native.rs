//! A decision made natively: the policy crate's own functions, over a script.

use std::time::Duration;

use futures_util::FutureExt as _;
use incumbent_policy::Decisions;
use incumbent_policy::holds::Building;
use incumbent_policy::imports::{
    Ask, BucketInfo, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write,
};

use crate::clock::nanos;
use crate::parse::{self, Args};
use crate::script::Script;
use crate::table::Scene;
use crate::{calls, imports, words};

/// The decisions as they are.
pub(crate) struct BuiltIn;

impl Decisions for BuiltIn {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = "0.0.0";
}

/// Decide a command, and tell the outcome.
///
/// # Errors
/// The command is not understood.
pub(crate) fn decide(scene: &Scene, script: &Script) -> Result<String, String> {
    let (command, args) = scene.command();
    let io = &mut Native(script.clone());
    let args = &mut Args::of(args)?;
    let outcome = match command {
        "check" => words::checked(&BuiltIn::check(&words::terms(args)?)),
        "take" => {
            let (terms, who) = (words::terms(args)?, words::identity(args));
            let (rule, seen) = (words::vacancy(args)?, words::sighting(args)?);
            words::attempt(&BuiltIn::take(io, &terms, &who, rule, seen))
        }
        "renew" => {
            let (terms, who, tenure) = (words::terms(args)?, words::identity(args), words::tenure(args)?);
            words::renewal(&BuiltIn::renew(io, &terms, &who, tenure))
        }
        "release" => {
            let (who, tenure) = (words::identity(args), words::tenure(args)?);
            words::release(&BuiltIn::release(io, &who, &tenure))
        }
        "step-down" => {
            let (lease, by) = (args.text("lease", "controller"), args.text("by", "ops"));
            words::request(&BuiltIn::step_down(io, &lease, &by))
        }
        "current" => words::current(&BuiltIn::current(io, &args.text("lease", "controller"))),
        "list" => {
            let (after, most) = (args.value("after"), words::most(args)?);
            words::list(&BuiltIn::list(io, after, most))
        }
        "pass" => {
            let standing = words::standing(args)?;
            let now = io.now().steady_ns;
            words::pass(&BuiltIn::pass(&standing, now))
        }
        "admit" => words::admit(BuiltIn::admit(args.number("heard", 0)?, args.number("epoch", 0)?)),
        "assess" => words::assess(&BuiltIn::assess(io)),
        "let-one-through" => {
            let (queues, builder) = (words::queues(args), args.text("builder", "seat-1"));
            let (after, within) = (args.time("after", "1800s")?, args.time("within", "2s")?);
            words::admitted(&BuiltIn::let_one_through(io, &queues, &builder, after, within))
        }
        "keep" => {
            let (builder, since) = (args.text("builder", "seat-1"), args.text("since", words::SINCE));
            words::kept(&BuiltIn::keep_let_through(io, &builder, &since, args.number("revision", 57)?))
        }
        "drop" => words::done(&BuiltIn::drop_let_through(io, args.number("revision", 57)?)),
        "status" => words::report(&BuiltIn::status(io)),
        "begin" => words::building(&BuiltIn::begin(io, &args.text("plan", "plan-12"))),
        "seen" => {
            let (plan, since) = (args.text("plan", "plan-12"), args.text("since", words::SINCE));
            let known = Building { since, revision: args.number("revision", 57)? };
            words::kept(&BuiltIn::seen(io, &plan, &known))
        }
        "end" => words::done(&BuiltIn::end(io, &args.text("plan", "plan-12"), args.number("revision", 57)?)),
        other => return Err(format!("{other:?} is no command")),
    };
    std::mem::take(args).end()?;
    Ok(outcome)
}

/// A script, as the guest's own trait. It answers at once, or, broken, never.
struct Native(Script);

impl Native {
    fn answer<T>(
        &self,
        call: &str,
        word: &str,
        parse: impl FnOnce(&str) -> Result<Result<T, Fault>, String> + Send,
    ) -> Result<T, Fault> {
        let broken = || Err(Fault::Unavailable("the script is broken".into()));
        self.0.answer(call, word, parse).now_or_never().unwrap_or_else(broken)
    }
}

impl Imports for Native {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        self.answer(&calls::get(bucket, key), "get", parse::reading)
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.answer(&calls::create(bucket, key, value), "create", parse::write)
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::update(bucket, key, value, expected), "update", parse::write)
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.answer(&calls::delete(bucket, key, expected), "delete", parse::write)
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        self.answer(&calls::keys(bucket, after, most), "keys", parse::keys)
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        let said = self.answer(&calls::info(bucket), "info", parse::info)?;
        Ok(BucketInfo { created: said.created, ttl_ns: nanos(said.ttl) })
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.answer(calls::LAST_SEQUENCE, "last-sequence", parse::count)
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        self.answer(&calls::purge_below(sequence), "purged", parse::count)
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        Ok(self.answer(&calls::oldest_waiting(queue), "oldest", parse::ask)?.map(asked))
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        let one = self.answer(&calls::fetch(queue, within_ns), "fetched", parse::taken)?;
        Ok(one.map(|(ticket, ask)| Taken { ticket, ask: asked(ask) }))
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        self.answer(&calls::hand_back(ticket, delay_ns), "handed-back", parse::done)
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        self.answer(calls::FLOOR, "floor", parse::count)
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.0.note(&calls::moved(was, floor));
    }

    fn now(&mut self) -> Moment {
        let clock = &self.0.clock;
        let wall = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Moment { steady_ns: clock.now().0, wall: since_1970(wall) }
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        let level = match level {
            Level::Info => "info",
            Level::Warn => "warn",
        };
        self.0.note(&calls::log(level, target, message));
    }
}

fn asked(ask: imports::Ask) -> Ask {
    Ask { sequence: ask.sequence, stored: ask.stored.map(since_1970), body: ask.body }
}

fn since_1970(since: Duration) -> Wall {
    Wall { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}
