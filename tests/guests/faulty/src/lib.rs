//! A policy with one fault. Which one stands in its bytes, where a test writes its number before it loads them.
//! 00 has none; those from 60 on are none either, but what a policy may do; those from 70 on are shown only in earnest.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use incumbent_policy::gate::{self, Closed, Open, Standing};
use incumbent_policy::holds::{self, Admitted, Building, Kept, Verdict};
use incumbent_policy::imports::{Fault, Level, Role};
use incumbent_policy::lease::{
    self, Attempt, Certainty, HeldLease, Holder, Identity, Loss, Release, Renewal, Setback, Sighting, Tenure,
    Terms, Trouble, Vacancy,
};
use incumbent_policy::{Decisions, Imports};

static FAULT: [u8; 8] = *b"FAULT=00";

fn fault() -> u8 {
    // Not a constant to the compiler, which would leave it out.
    let told = core::hint::black_box(&FAULT);
    (told[6] - b'0') * 10 + (told[7] - b'0')
}

/// Rehearsals are at 100 s and a little more.
fn in_earnest(steady_ns: u64) -> bool {
    steady_ns > 400_000_000_000
}

struct Faulty;

impl Decisions for Faulty {
    const NAME: &'static str = "faulty";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn check(terms: &Terms) -> Result<(), String> {
        match fault() {
            // Any timings will do.
            1 => Ok(()),
            // In other words.
            60 => terms.check().map_err(|_| "no".into()),
            // Nonsense before, ever more of it after.
            40 => panic!(),
            41 => loop {
                core::hint::black_box(());
            },
            42 => {
                let mut hoard: Vec<Vec<u8>> = Vec::new();
                loop {
                    hoard.push(core::hint::black_box(alloc::vec![1; 1 << 20]));
                }
            }
            _ => terms.check(),
        }
    }

    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        let made_up = |epoch| {
            Ok(Attempt::Taken(Tenure {
                epoch,
                revision: epoch,
                created: 7,
                taken: "2027-01-15T08:01:40Z".into(),
                until_ns: 112_000_000_000,
                certainty: Certainty::Sure,
            }))
        };
        match fault() {
            // Without writing anything.
            2 => made_up(41),
            // Another layout.
            3 => {
                let _ = io.info(Role::Lease);
                let _ = io.get(Role::Lease, &who.lease);
                let _ = io.create(Role::Lease, &who.lease, br#"{"nonce":"n1","instance":"alice"}"#);
                made_up(41)
            }
            // Asks without end.
            4 => loop {
                let _ = io.info(Role::Lease);
            },
            // Slow, in each scene.
            45 => {
                (0..20_000_000u32).for_each(|n| {
                    core::hint::black_box(n);
                });
                lease::take(io, terms, who, rule, seen)
            }
            // Tells without end, which needs no answer.
            5 => loop {
                io.moved(1, 2);
            },
            // An absent record is free at once, whatever the rule.
            6 => lease::take(io, terms, who, Vacancy::Trusted, seen),
            // The next epoch, which nobody gave it.
            7 => lease::take(io, terms, who, rule, seen).map(|attempt| match attempt {
                Attempt::Taken(tenure) => Attempt::Taken(Tenure { epoch: tenure.epoch + 1, ..tenure }),
                waiting => waiting,
            }),
            // Whatever goes wrong, nobody holds it and one may serve.
            8 => lease::take(io, terms, who, rule, seen)
                .map_err(|_| Trouble::Unwritable(Fault::Denied("no".into()))),
            _ => lease::take(io, terms, who, rule, seen),
        }
    }

    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        let known = tenure.clone();
        match fault() {
            // Sound in a rehearsal, which it knows by its clock, and at fault in earnest.
            70 if in_earnest(io.now().steady_ns) => panic!(),
            71 if in_earnest(io.now().steady_ns) => {
                return match lease::renew(io, terms, who, tenure) {
                    Renewal::Kept(kept) => Renewal::Kept(Tenure { until_ns: u64::MAX, ..kept }),
                    ended => ended,
                };
            }
            72 if in_earnest(io.now().steady_ns) => loop {
                core::hint::black_box(());
            },
            // It writes, and traps then.
            73 if in_earnest(io.now().steady_ns) => {
                let _ = lease::renew(io, terms, who, tenure);
                panic!()
            }
            // Kept without a write.
            10 => return Renewal::Kept(Tenure { until_ns: 112_000_000_000, revision: 58, ..tenure }),
            // At whatever time.
            11 => return lease::renew(io, terms, who, Tenure { until_ns: u64::MAX, ..tenure }),
            // At a revision that is not its own.
            12 => return lease::renew(io, terms, who, Tenure { revision: known.revision + 1, ..tenure }),
            _ => {}
        }
        match (fault(), lease::renew(io, terms, who, tenure)) {
            // A second longer than it is.
            (13, Renewal::Kept(kept)) => {
                Renewal::Kept(Tenure { until_ns: kept.until_ns + 1_000_000_000, ..kept })
            }
            // Refused, and the gate stays open.
            (14, Renewal::Refused(setback)) => Renewal::Failed(setback),
            // Lost, and it goes on trying.
            (15, Renewal::Lost(_)) => Renewal::Failed(Setback { tenure: known, why: String::new() }),
            // Lost, though it was kept.
            (16, Renewal::Kept(_)) => Renewal::Lost(Loss::Gone),
            // Lost, and it reads once more.
            (17, Renewal::Failed(_)) => {
                let _ = io.get(Role::Lease, &who.lease);
                Renewal::Lost(Loss::Gone)
            }
            // A failure without a reason.
            (60, Renewal::Failed(setback)) => Renewal::Failed(Setback { why: "\"no\"\n".into(), ..setback }),
            // It talks much.
            (61, ended) => {
                for _ in 0..1000 {
                    io.log(Level::Warn, "renewal\n", &"well ".repeat(1000));
                }
                ended
            }
            (_, ended) => ended,
        }
    }

    fn release(io: &mut impl Imports, who: &Identity, tenure: &Tenure) -> Release {
        match fault() {
            // At a revision that is not its own.
            20 => lease::release(io, who, &Tenure { revision: tenure.revision - 1, ..tenure.clone() }),
            // Without a deletion.
            21 => Release::GivenBack,
            _ => lease::release(io, who, tenure),
        }
    }

    fn current(io: &mut impl Imports, lease: &str) -> Result<Option<Holder>, Trouble> {
        match fault() {
            // What cannot be read is nobody.
            22 => Ok(lease::current(io, lease).unwrap_or_default()),
            _ => lease::current(io, lease),
        }
    }

    fn list(io: &mut impl Imports, after: Option<String>, most: u32) -> Result<Vec<HeldLease>, Trouble> {
        match fault() {
            // Far more than was asked for, and than fits.
            43 => {
                let row = HeldLease { name: "x".repeat(1000), holder: Err("y".repeat(1000)) };
                Ok(alloc::vec![row; 2000])
            }
            // Far more than was asked for, though it fits.
            44 => {
                let row = HeldLease { name: "x".repeat(1000), holder: Err("\u{1f98a}\n".repeat(200)) };
                Ok(alloc::vec![row; 200])
            }
            _ => lease::list(io, after, most),
        }
    }

    fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
        match (fault(), gate::pass(standing, now_ns), standing) {
            // Open when the time is over.
            (24, Err(Closed::Overdue), Standing::Held(tenure))
            // Open though a renewal was refused.
            | (25, Err(Closed::Doubted), Standing::Held(tenure)) => {
                Ok(Open { epoch: tenure.epoch, until_ns: tenure.until_ns })
            }
            // Another epoch's.
            (26, Ok(open), _) => Ok(Open { epoch: open.epoch + 1, ..open }),
            (74, Ok(open), _) if in_earnest(now_ns) => Ok(Open { until_ns: u64::MAX, ..open }),
            // For ever.
            (27, Ok(open), _) => Ok(Open { until_ns: u64::MAX, ..open }),
            // Never, which is as strict as can be.
            (62, Ok(_), _) => Err(Closed::NotHeld),
            (_, answer, _) => answer,
        }
    }

    fn admit(heard: u64, epoch: u64) -> Result<u64, u64> {
        match fault() {
            // Whatever comes.
            28 => Ok(heard.max(epoch)),
            // Epoch zero.
            29 if epoch == 0 => Ok(0),
            // None, which is strict and yet not allowed: nothing would be done any more.
            30 => Err(heard),
            _ => gate::admit(heard, epoch),
        }
    }

    fn assess(io: &mut impl Imports) -> Result<Verdict, Fault> {
        match fault() {
            // What builds is not looked at.
            31 => Ok(Verdict::Free),
            _ => holds::assess(io),
        }
    }

    fn let_one_through(
        io: &mut impl Imports,
        queues: &[String],
        builder: &str,
        after_ns: u64,
        within_ns: u64,
    ) -> Result<Option<Admitted>, Fault> {
        match fault() {
            // One that has not waited.
            32 => holds::let_one_through(io, queues, builder, 0, within_ns),
            _ => holds::let_one_through(io, queues, builder, after_ns, within_ns),
        }
    }

    fn keep_let_through(
        io: &mut impl Imports,
        builder: &str,
        since: &str,
        revision: u64,
    ) -> Result<Kept, Fault> {
        match fault() {
            // Kept without a write.
            33 => Ok(Kept::Kept(revision)),
            _ => holds::keep(io, builder, since, revision),
        }
    }

    fn drop_let_through(io: &mut impl Imports, revision: u64) -> Result<(), Fault> {
        match fault() {
            // Somebody else's.
            34 => holds::drop(io, revision + 1),
            _ => holds::drop(io, revision),
        }
    }

    fn seen(io: &mut impl Imports, plan: &str, known: &Building) -> Result<Kept, Fault> {
        match fault() {
            // Since another time.
            35 => holds::seen(io, plan, &Building { since: String::new(), ..known.clone() }),
            _ => holds::seen(io, plan, known),
        }
    }

    fn end(io: &mut impl Imports, plan: &str, revision: u64) -> Result<(), Fault> {
        match fault() {
            // Another plan's.
            36 => holds::end(io, "plan-1", revision),
            _ => holds::end(io, plan, revision),
        }
    }
}

incumbent_policy::export!(Faulty);
