//! Every state of check holds within small bounds: what holds in each, and decisions that are wrong, each of which the
//! model finds.

use incumbent_model::holds::{Config, Faults, Invariant, Report, Sometimes, explore, runs};
use incumbent_policy::Decisions;
use incumbent_policy::holds::{self, Admitted, Building, Kept, LET_THROUGH, Verdict};
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Wall, Write,
};

struct BuiltIn;

impl Decisions for BuiltIn {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = "0.0.0";
}

const NONE: Faults = Faults {
    looks: 2,
    begins: 1,
    lost_answer: 0,
    late: 0,
    refused: 0,
    cut: 0,
    builder_killed: 0,
    controller_killed: 0,
    step: 0,
    loses: 0,
};

fn bounds(horizon: u8, faults: Faults) -> Config {
    Config { faults, ..Config::two(horizon) }
}

/// One builder, and two controllers of one plan.
fn one_plan_twice() -> Config {
    Config { builders: 0, plans: vec![1, 1], ..bounds(3, Faults { begins: 2, ..NONE }) }
}

#[test]
fn in_every_state_one_check_is_let_through_and_none_is_taken_while_a_plan_stands() -> Result<(), String> {
    for run in runs(0) {
        let report = explore::<BuiltIn>(&run.config)?;
        assert!(report.violation.is_none(), "{}: {:#?}", run.what, report.violation);
        assert!(report.missing.is_empty(), "{}: never {:?}", run.what, report.missing);
        assert!(report.exhausted, "{}", run.what);
    }
    Ok(())
}

/// What the validity leaves of the ttl is for clocks that go apart, and no more than that.
#[test]
fn clocks_that_go_apart_by_more_than_the_margin_let_a_second_one_through() -> Result<(), String> {
    finds::<BuiltIn>(&bounds(3, Faults { loses: 1, step: 1, ..NONE }), Invariant::OneLetThrough)
}

fn finds<P: Decisions>(config: &Config, invariant: Invariant) -> Result<(), String> {
    let found = judged::<P>(config, invariant)?.violation.map(|violation| violation.invariant);
    assert_eq!(found, Some(invariant));
    Ok(())
}

/// Only this is looked at.
fn judged<P: Decisions>(config: &Config, invariant: Invariant) -> Result<Report, String> {
    explore::<P>(&Config { judged: vec![invariant], ..config.clone() })
}

/// A policy that decides as the built-in one, but for this.
macro_rules! planted {
    ($name:ident { $($decision:item)+ }) => {
        struct $name;

        impl Decisions for $name {
            const NAME: &'static str = "planted";
            const VERSION: &'static str = "0.0.0";
            $($decision)+
        }
    };
}

/// One that lets a check through, and keeps its key, by imports that are altered.
macro_rules! altered {
    ($name:ident, $alter:expr) => {
        planted!($name {
            fn let_one_through(
                io: &mut impl Imports,
                queues: &[String],
                builder: &str,
                after_ns: u64,
                within_ns: u64,
            ) -> Result<Option<Admitted>, Fault> {
                holds::let_one_through(&mut Altered(io, $alter), queues, builder, after_ns, within_ns)
            }

            fn keep_let_through(
                io: &mut impl Imports,
                builder: &str,
                since: &str,
                revision: u64,
            ) -> Result<Kept, Fault> {
                holds::keep(&mut Altered(io, $alter), builder, since, revision)
            }
        });
    };
}

altered!(PutsForCreate, Alter::PutsForCreate);

#[test]
fn a_key_that_is_put_over_anothers_lets_a_second_one_through() -> Result<(), String> {
    finds::<PutsForCreate>(&bounds(2, NONE), Invariant::OneLetThrough)?;
    finds::<PutsForCreate>(&bounds(2, NONE), Invariant::OnlyYourOwn)
}

altered!(RaceIsWon, Alter::RaceIsWon);

#[test]
fn a_create_that_lost_its_race_and_counts_as_won_lets_a_second_one_through() -> Result<(), String> {
    finds::<RaceIsWon>(&bounds(2, NONE), Invariant::OneLetThrough)
}

altered!(UnknownIsWon, Alter::UnknownIsWon);

#[test]
fn a_create_without_an_answer_that_counts_as_won_lets_a_second_one_through() -> Result<(), String> {
    finds::<UnknownIsWon>(&bounds(2, Faults { late: 1, ..NONE }), Invariant::OneLetThrough)
}

altered!(YoungerIsOld, Alter::YoungerIsOld);

#[test]
fn a_younger_check_that_is_not_handed_back_is_let_through_before_its_time() -> Result<(), String> {
    finds::<YoungerIsOld>(&bounds(2, NONE), Invariant::LongEnough)
}

altered!(DoesNotKnowItself, Alter::ForeignValues);

#[test]
fn a_key_of_its_own_that_it_does_not_know_is_never_found_again() -> Result<(), String> {
    let mut config = bounds(2, Faults { lost_answer: 1, ..NONE });
    config.sometimes = vec![Sometimes::LostCreateIsFound, Sometimes::LostKeepIsFound];
    assert_eq!(explore::<BuiltIn>(&config)?.missing, []);
    assert_eq!(explore::<DoesNotKnowItself>(&config)?.missing, config.sometimes);
    Ok(())
}

planted!(NoAge {
    fn let_one_through(
        io: &mut impl Imports,
        queues: &[String],
        builder: &str,
        _after_ns: u64,
        within_ns: u64,
    ) -> Result<Option<Admitted>, Fault> {
        holds::let_one_through(io, queues, builder, 0, within_ns)
    }
});

#[test]
fn a_check_whose_age_is_not_asked_is_let_through_before_its_time() -> Result<(), String> {
    finds::<NoAge>(&bounds(2, NONE), Invariant::LongEnough)
}

planted!(RefusedIsKept {
    fn keep_let_through(io: &mut impl Imports, builder: &str, since: &str, revision: u64) -> Result<Kept, Fault> {
        match holds::keep(&mut Altered(io, Alter::ForeignValues), builder, since, revision)? {
            Kept::Lost => Ok(Kept::Kept(revision)),
            kept @ Kept::Kept(_) => Ok(kept),
        }
    }
});

#[test]
fn a_key_that_is_kept_though_it_moved_ages_out_under_its_check() -> Result<(), String> {
    // Nobody need be slow for it.
    let config = Config { slow: 0, ..bounds(4, Faults { cut: 1, ..NONE }) };
    finds::<RefusedIsKept>(&config, Invariant::OneLetThrough)
}

planted!(TakesUpAgain {
    fn keep_let_through(io: &mut impl Imports, builder: &str, since: &str, revision: u64) -> Result<Kept, Fault> {
        match (holds::keep(io, builder, since, revision)?, io.get(Role::Running, LET_THROUGH)?) {
            (Kept::Lost, Reading::Found(entry)) => holds::keep(io, builder, since, entry.revision),
            (kept, _) => Ok(kept),
        }
    }
});

#[test]
fn a_lost_key_that_is_taken_up_again_takes_anothers() -> Result<(), String> {
    finds::<TakesUpAgain>(&bounds(3, NONE), Invariant::OnlyYourOwn)
}

planted!(DropsBlindly {
    fn drop_let_through(io: &mut impl Imports, revision: u64) -> Result<(), Fault> {
        match io.get(Role::Running, LET_THROUGH)? {
            Reading::Found(entry) => holds::drop(io, entry.revision),
            _ => holds::drop(io, revision),
        }
    }
});

#[test]
fn a_drop_of_whatever_is_there_takes_anothers_key() -> Result<(), String> {
    finds::<DropsBlindly>(&bounds(3, NONE), Invariant::OnlyYourOwn)
}

planted!(ReadsOnePage {
    fn assess(io: &mut impl Imports) -> Result<Verdict, Fault> {
        let page = io.keys(Role::Plans, None, 256)?;
        let plans: Vec<_> = page.into_iter().filter(|key| key.starts_with("plan-")).collect();
        Ok(if plans.is_empty() { Verdict::Free } else { Verdict::Held(plans) })
    }
});

#[test]
fn plans_on_a_second_page_that_is_not_read_hold_no_check() -> Result<(), String> {
    finds::<ReadsOnePage>(&bounds(1, NONE), Invariant::HeldWhilePlansStand)
}

planted!(LooksForOnePlan {
    fn assess(io: &mut impl Imports) -> Result<Verdict, Fault> {
        Ok(match io.get(Role::Plans, "plan-1")? {
            Reading::Found(_) => Verdict::Held(vec!["plan-1".into()]),
            _ => Verdict::Free,
        })
    }
});

#[test]
fn a_second_plan_that_is_not_looked_for_holds_no_check() -> Result<(), String> {
    let config = Config { builders: 1, plans: vec![1, 2], ..bounds(1, NONE) };
    finds::<LooksForOnePlan>(&config, Invariant::HeldWhilePlansStand)
}

planted!(EndsBlindly {
    fn end(io: &mut impl Imports, plan: &str, revision: u64) -> Result<(), Fault> {
        match io.get(Role::Plans, plan)? {
            Reading::Found(entry) => holds::end(io, plan, entry.revision),
            _ => holds::end(io, plan, revision),
        }
    }
});

#[test]
fn an_end_of_whatever_is_there_ends_what_another_controller_says() -> Result<(), String> {
    assert!(explore::<BuiltIn>(&one_plan_twice())?.violation.is_none());
    finds::<EndsBlindly>(&one_plan_twice(), Invariant::OnlyYourOwn)
}

planted!(SaysOverAnother {
    fn seen(io: &mut impl Imports, plan: &str, known: &Building) -> Result<Kept, Fault> {
        match (holds::seen(io, plan, known)?, io.get(Role::Plans, plan)?) {
            (Kept::Lost, Reading::Found(Entry { revision, .. })) => {
                holds::seen(io, plan, &Building { revision, ..known.clone() })
            }
            (kept, _) => Ok(kept),
        }
    }
});

#[test]
fn a_plan_that_another_controller_says_is_not_said_over_it() -> Result<(), String> {
    finds::<SaysOverAnother>(&one_plan_twice(), Invariant::OnlyYourOwn)
}

planted!(NeverPutsAgain {
    fn seen(io: &mut impl Imports, plan: &str, known: &Building) -> Result<Kept, Fault> {
        let kept = holds::seen(&mut Altered(io, Alter::CreatesNothing), plan, known);
        if matches!(kept, Err(Fault::Denied(_))) { Ok(Kept::Lost) } else { kept }
    }
});

#[test]
fn a_plan_that_aged_out_is_put_again() -> Result<(), String> {
    let mut config = one_plan_twice();
    config.sometimes = vec![Sometimes::PlanIsPutAgain];
    assert_eq!(explore::<BuiltIn>(&config)?.missing, []);
    assert_eq!(explore::<NeverPutsAgain>(&config)?.missing, config.sometimes);
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Alter {
    PutsForCreate,
    RaceIsWon,
    UnknownIsWon,
    YoungerIsOld,
    ForeignValues,
    CreatesNothing,
}

/// Imports that tell something else than they do.
struct Altered<'a, I>(&'a mut I, Alter);

impl<I: Imports> Imports for Altered<'_, I> {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        Ok(match self.0.get(bucket, key)? {
            Reading::Found(entry) if self.1 == Alter::ForeignValues => {
                Reading::Found(Entry { value: b"{}".to_vec(), ..entry })
            }
            reading => reading,
        })
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        if self.1 == Alter::CreatesNothing {
            return Err(Fault::Denied(String::new()));
        }
        match (self.0.create(bucket, key, value), self.1) {
            (Ok(Write::Stale(_)), Alter::PutsForCreate) => match self.0.get(bucket, key)? {
                Reading::Found(entry) => self.0.update(bucket, key, value, entry.revision),
                _ => Ok(Write::Stale(None)),
            },
            (Ok(Write::Stale(_)), Alter::RaceIsWon) | (Err(Fault::Unknown(_)), Alter::UnknownIsWon) => {
                Ok(Write::Written(1))
            }
            (answer, _) => answer,
        }
    }

    fn update(&mut self, bucket: Role, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.0.update(bucket, key, value, expected)
    }

    fn delete(&mut self, bucket: Role, key: &str, expected: u64) -> Result<Write, Fault> {
        self.0.delete(bucket, key, expected)
    }

    fn keys(&mut self, bucket: Role, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        self.0.keys(bucket, after, most)
    }

    fn info(&mut self, bucket: Role) -> Result<BucketInfo, Fault> {
        self.0.info(bucket)
    }

    fn last_sequence(&mut self) -> Result<u64, Fault> {
        self.0.last_sequence()
    }

    fn purge_below(&mut self, sequence: u64) -> Result<u64, Fault> {
        self.0.purge_below(sequence)
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        self.0.oldest_waiting(queue)
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        let taken = self.0.take(queue, within_ns)?;
        Ok(match (taken, self.1) {
            (Some(taken), Alter::YoungerIsOld) => {
                let stored = Some(Wall { seconds: 0, nanoseconds: 0 });
                Some(Taken { ask: Ask { stored, ..taken.ask }, ..taken })
            }
            (taken, _) => taken,
        })
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        self.0.hand_back(ticket, delay_ns)
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        self.0.floor()
    }

    fn moved(&mut self, was: u64, floor: u64) {
        self.0.moved(was, floor);
    }

    fn now(&mut self) -> Moment {
        self.0.now()
    }

    fn log(&mut self, level: Level, target: &str, message: &str) {
        self.0.log(level, target, message);
    }
}
