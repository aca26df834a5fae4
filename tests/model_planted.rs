//! Decisions that are wrong, each of which the model finds, and names the invariant that it breaks.

use incumbent_model::{Config, Faults, Invariant, Sometimes};
use incumbent_policy::Decisions;
use incumbent_policy::imports::{
    Ask, BucketInfo, Entry, Fault, Imports, Level, Moment, Reading, Role, Taken, Write,
};
use incumbent_policy::lease::{
    self, Attempt, Certainty, Identity, Release, Renewal, Setback, Sighting, Tenure, Terms, Trouble, Vacancy,
};

use crate::model::{BuiltIn, NONE, alone_and_wiped, bounds, run};

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

/// The built-in decisions keep to it, the planted ones break this.
fn breaks<P: Decisions>(config: &Config, invariant: Invariant) -> anyhow::Result<()> {
    let sound = run::<BuiltIn>(config)?;
    assert!(sound.violation.is_none() && sound.exhausted, "{:#?}", sound.violation);
    let found = run::<P>(config)?.violation.map(|violation| violation.invariant);
    assert_eq!(found, Some(invariant));
    Ok(())
}

/// Only this is looked at.
fn judging(invariant: Invariant, config: Config) -> Config {
    Config { judged: vec![invariant], ..config }
}

planted!(NoMargin {
    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        lease::renew(io, &Terms { margin_ns: 0, ..*terms }, who, tenure)
    }
});

#[test]
fn a_gate_without_a_margin_is_open_when_a_slow_clocks_record_is_taken() -> anyhow::Result<()> {
    breaks::<NoMargin>(&bounds(6, Faults { looks: 2, loses: 1, ..NONE }), Invariant::OneIncumbent)
}

planted!(AnchoredLate {
    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        match lease::take(io, terms, who, rule, seen)? {
            Attempt::Taken(tenure) => {
                Ok(Attempt::Taken(Tenure { until_ns: terms.until(io.now().steady_ns), ..tenure }))
            }
            waiting => Ok(waiting),
        }
    }
});

#[test]
fn a_gate_whose_time_runs_from_the_answer_is_open_too_long() -> anyhow::Result<()> {
    breaks::<AnchoredLate>(&bounds(6, Faults { looks: 2, ..NONE }), Invariant::OneIncumbent)
}

planted!(NeverOverdue {
    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        lease::renew(io, terms, who, Tenure { until_ns: u64::MAX, ..tenure })
    }
});

#[test]
fn a_renewal_after_its_time_takes_up_what_was_lost() -> anyhow::Result<()> {
    breaks::<NeverOverdue>(&bounds(5, Faults { looks: 2, ..NONE }), Invariant::LostIsLost)
}

planted!(RefusedIsRenewed {
    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        match lease::renew(io, terms, who, tenure) {
            Renewal::Refused(Setback { tenure, .. }) => Renewal::Kept(Tenure {
                until_ns: terms.until(io.now().steady_ns),
                certainty: Certainty::Sure,
                ..tenure
            }),
            ended => ended,
        }
    }
});

#[test]
fn a_refusal_that_is_no_doubt_keeps_a_gate_open_beside_the_next_holders() -> anyhow::Result<()> {
    breaks::<RefusedIsRenewed>(&bounds(7, Faults { looks: 2, ask: 1, ..NONE }), Invariant::OneIncumbent)
}

planted!(AlwaysTrusted {
    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        _rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        lease::take(io, terms, who, Vacancy::Trusted, seen)
    }
});

#[test]
fn an_absence_that_is_always_trusted_is_a_wiped_bucket_under_an_open_gate() -> anyhow::Result<()> {
    // One look each: no take comes upon the record of its own that an earlier one left in the new bucket.
    let config = bounds(5, Faults { looks: 2, wipe: 1, ..NONE });
    breaks::<AlwaysTrusted>(&judging(Invariant::OneIncumbent, config), Invariant::OneIncumbent)
}

planted!(ReleasesBlindly {
    fn release(io: &mut impl Imports, who: &Identity, tenure: &Tenure) -> Release {
        // Whatever the time is: within her own nobody else's can be there.
        let revision = match io.get(Role::Lease, &who.lease) {
            Ok(Reading::Found(entry)) => entry.revision,
            _ => tenure.revision,
        };
        lease::release(io, who, &Tenure { revision, until_ns: u64::MAX, ..tenure.clone() })
    }
});

#[test]
fn a_release_of_whatever_is_there_deletes_anothers_record() -> anyhow::Result<()> {
    breaks::<ReleasesBlindly>(&bounds(5, Faults { looks: 2, release: 1, ..NONE }), Invariant::OnlyYourOwn)
}

planted!(DoesNotKnowItself {
    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        lease::take(&mut Altered(io, Alter::ForeignRecords), terms, who, rule, seen)
    }
});

#[test]
fn a_record_of_its_own_that_it_does_not_know_is_never_adopted() -> anyhow::Result<()> {
    let mut config = bounds(3, Faults { looks: 2, late: 1, ..NONE });
    config.sometimes = vec![Sometimes::LostTakeIsAdopted];
    assert_eq!(run::<BuiltIn>(&config)?.missing, []);
    assert_eq!(run::<DoesNotKnowItself>(&config)?.missing, [Sometimes::LostTakeIsAdopted]);
    Ok(())
}

/// A take whose imports are altered.
macro_rules! altered {
    ($name:ident, $alter:expr) => {
        planted!($name {
            fn take(
                io: &mut impl Imports,
                terms: &Terms,
                who: &Identity,
                rule: Vacancy,
                seen: Option<Sighting>,
            ) -> Result<Attempt, Trouble> {
                lease::take(&mut Altered(io, $alter), terms, who, rule, seen)
            }
        });
    };
}

altered!(UnknownIsWon, Alter::UnknownIsWon);

#[test]
fn a_create_without_an_answer_that_counts_as_won_opens_a_second_gate() -> anyhow::Result<()> {
    let config = bounds(3, Faults { looks: 2, late: 1, ..NONE });
    breaks::<UnknownIsWon>(&judging(Invariant::OneIncumbent, config), Invariant::OneIncumbent)
}

altered!(RaceIsWon, Alter::RaceIsWon);

#[test]
fn a_create_that_lost_its_race_and_counts_as_won_opens_a_second_gate() -> anyhow::Result<()> {
    let config = bounds(3, Faults { looks: 2, ..NONE });
    breaks::<RaceIsWon>(&judging(Invariant::OneIncumbent, config), Invariant::OneIncumbent)
}

altered!(NoFloor, Alter::NoFloor);

#[test]
fn a_floor_that_is_not_asked_lets_epochs_fall_in_a_wiped_bucket() -> anyhow::Result<()> {
    breaks::<NoFloor>(&alone_and_wiped(), Invariant::EpochsOnlyRise)
}

altered!(NoPurge, Alter::NoPurge);

#[test]
fn a_move_past_the_floor_that_is_not_made_is_never_acted_upon() -> anyhow::Result<()> {
    let report = run::<NoPurge>(&alone_and_wiped())?;
    assert!(report.violation.is_none(), "the look at the new revision stops it");
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Alter {
    UnknownIsWon,
    RaceIsWon,
    ForeignRecords,
    NoFloor,
    NoPurge,
}

/// Imports that tell something else than they do.
struct Altered<'a, I>(&'a mut I, Alter);

impl<I: Imports> Imports for Altered<'_, I> {
    fn get(&mut self, bucket: Role, key: &str) -> Result<Reading, Fault> {
        let reading = self.0.get(bucket, key)?;
        Ok(match reading {
            Reading::Found(entry) if self.1 == Alter::ForeignRecords => {
                let value = br#"{"instance":"somebody","nonce":"else"}"#.to_vec();
                Reading::Found(Entry { value, ..entry })
            }
            reading => reading,
        })
    }

    fn create(&mut self, bucket: Role, key: &str, value: &[u8]) -> Result<Write, Fault> {
        match (self.0.create(bucket, key, value), self.1) {
            (Err(Fault::Unknown(_)), Alter::UnknownIsWon) | (Ok(Write::Stale(_)), Alter::RaceIsWon) => {
                self.0.last_sequence().map(Write::Written)
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
        if self.1 == Alter::NoPurge { Ok(0) } else { self.0.purge_below(sequence) }
    }

    fn oldest_waiting(&mut self, queue: &str) -> Result<Option<Ask>, Fault> {
        self.0.oldest_waiting(queue)
    }

    fn take(&mut self, queue: &str, within_ns: u64) -> Result<Option<Taken>, Fault> {
        self.0.take(queue, within_ns)
    }

    fn hand_back(&mut self, ticket: u64, delay_ns: u64) -> Result<(), Fault> {
        self.0.hand_back(ticket, delay_ns)
    }

    fn floor(&mut self) -> Result<u64, Fault> {
        if self.1 == Alter::NoFloor { Ok(0) } else { self.0.floor() }
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
