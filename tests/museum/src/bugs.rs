//! The bugs, by the decision that has them.

use std::sync::LazyLock;

use incumbent_policy::gate::{self, Closed, Open, Standing};
use incumbent_policy::imports::{Reading, Role, Write};
use incumbent_policy::lease::{
    self, Attempt, Certainty, Identity, Release, Renewal, Setback, Sighting, Tenure, Terms, Trouble, Vacancy,
};
use incumbent_policy::{Decisions, Imports};

use crate::bent::{Bend, Bent};
use crate::layers::Bug;

const SECOND: u64 = 1_000_000_000;

/// Each: a name, what it does, and the decision that does it.
macro_rules! bugs {
    ($($name:ident = $does:literal { $($decision:item)* })*) => {
        $(
            struct $name;

            impl Decisions for $name {
                const NAME: &'static str = stringify!($name);
                const VERSION: &'static str = "0.0.0";
                $($decision)*
            }
        )*

        /// All of them.
        pub static BUGS: LazyLock<Vec<Bug>> = LazyLock::new(|| vec![$(Bug {
            name: stringify!($name),
            does: $does,
            version: || incumbent_native::version::<$name>(stringify!($name)),
            explore: incumbent_model::explore::<$name>,
        }),*]);
    };
}

/// A take with something bent.
macro_rules! take {
    (|$io:ident, $terms:ident, $who:ident, $rule:ident, $seen:ident| $body:expr) => {
        fn take(
            $io: &mut impl Imports,
            $terms: &Terms,
            $who: &Identity,
            $rule: Vacancy,
            $seen: Option<Sighting>,
        ) -> Result<Attempt, Trouble> {
            $body
        }
    };
}

/// A renewal with something bent.
macro_rules! renew {
    (|$io:ident, $terms:ident, $who:ident, $tenure:ident| $body:expr) => {
        fn renew($io: &mut impl Imports, $terms: &Terms, $who: &Identity, $tenure: Tenure) -> Renewal {
            $body
        }
    };
}

/// A tenure taken, changed.
fn taken(
    attempt: Result<Attempt, Trouble>,
    change: impl FnOnce(Tenure) -> Tenure,
) -> Result<Attempt, Trouble> {
    attempt.map(|attempt| match attempt {
        Attempt::Taken(tenure) => Attempt::Taken(change(tenure)),
        waiting @ Attempt::Waiting(_) => waiting,
    })
}

/// A tenure kept, changed.
fn kept(renewal: Renewal, change: impl FnOnce(Tenure) -> Tenure) -> Renewal {
    match renewal {
        Renewal::Kept(tenure) => Renewal::Kept(change(tenure)),
        other => other,
    }
}

fn without_margin(terms: &Terms) -> Terms {
    Terms { margin_ns: 0, ..*terms }
}

bugs! {
    TakesWithoutWriting = "takes a free lease without writing anything" {
        take!(|io, terms, who, rule, seen| {
            let _ = (rule, seen);
            match io.get(Role::Lease, &who.lease) {
                Ok(Reading::Found(_)) => lease::take(io, terms, who, rule, seen),
                _ => {
                    let revision = io.last_sequence().unwrap_or(0) + 1;
                    let until_ns = terms.until(io.now().steady_ns);
                    let created = io.info(Role::Lease).map_or(0, |info| info.created);
                    let certainty = Certainty::Sure;
                    let taken = String::new();
                    Ok(Attempt::Taken(Tenure { epoch: revision, revision, created, taken, until_ns, certainty }))
                }
            }
        });
    }
    TakesTheNextEpoch = "answers an epoch that nobody gave it" {
        take!(|io, terms, who, rule, seen| {
            taken(lease::take(io, terms, who, rule, seen), |tenure| Tenure { epoch: tenure.epoch + 1, ..tenure })
        });
    }
    TakesForASecondMore = "opens the gate for a second longer than its record is good for" {
        take!(|io, terms, who, rule, seen| {
            taken(lease::take(io, terms, who, rule, seen), |tenure| {
                Tenure { until_ns: tenure.until_ns + SECOND, ..tenure }
            })
        });
    }
    TakesFromTheAnswerOn = "counts its validity from the answer instead of from before the write" {
        take!(|io, terms, who, rule, seen| {
            let attempt = lease::take(io, terms, who, rule, seen);
            let until_ns = terms.until(io.now().steady_ns);
            taken(attempt, |tenure| Tenure { until_ns, ..tenure })
        });
    }
    TakesWithoutMargin = "shuts the gate no margin before the record expires" {
        take!(|io, terms, who, rule, seen| lease::take(io, &without_margin(terms), who, rule, seen));
    }
    TrustsAbsence = "takes an absent record for nobody's, whatever the rule" {
        take!(|io, terms, who, _rule, seen| lease::take(io, terms, who, Vacancy::Trusted, seen));
    }
    WatchesWhereItShouldDelay = "trusts a marker where the store may forget, and acts on what nobody has seen yet" {
        take!(|io, terms, who, rule, seen| {
            let rule = if rule == Vacancy::Delayed { Vacancy::Watched } else { rule };
            lease::take(io, terms, who, rule, seen)
        });
    }
    WatchesAcrossGaps = "counts a wait on in which it did not look" {
        take!(|io, terms, who, rule, seen| {
            let now = io.now().steady_ns;
            let watched = |seen: Sighting| match seen.revision {
                None => Sighting { last_ns: now, ..seen },
                Some(_) => seen,
            };
            lease::take(io, terms, who, rule, seen.map(watched))
        });
    }
    RemembersAnotherBucket = "counts what it saw in a bucket that was raised again since" {
        take!(|io, terms, who, rule, seen| {
            let created = io.info(Role::Lease).map_or(0, |info| info.created);
            lease::take(io, terms, who, rule, seen.map(|seen| Sighting { created, ..seen }))
        });
    }
    HasAlwaysWatched = "takes any sighting for an old one" {
        take!(|io, terms, who, rule, seen| {
            lease::take(io, terms, who, rule, seen.map(|seen| Sighting { since_ns: 0, ..seen }))
        });
    }
    ReadsNoFloor = "does not look which epochs were issued" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::FloorLower(u64::MAX) }, terms, who, rule, seen)
        });
    }
    AdmitsTheFloor = "issues the highest epoch once more" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::FloorLower(1) }, terms, who, rule, seen)
        });
    }
    JumpsByOne = "moves the revisions no further than one past the floor" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::JumpOfOne }, terms, who, rule, seen)
        });
    }
    JumpsTooFar = "moves the revisions as far as they go" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::JumpTooFar }, terms, who, rule, seen)
        });
    }
    MovesBeforeItOwns = "moves the revisions first and creates then, whoever holds the key meanwhile" {
        take!(|io, terms, who, rule, seen| {
            let floor = io.floor().unwrap_or(0);
            if floor > 0 && io.last_sequence().is_ok_and(|last| last <= floor) {
                let _ = io.purge_below(floor + (1 << 32));
            }
            lease::take(io, terms, who, rule, seen)
        });
    }
    TakesUnknownForWon = "takes a create without an answer for one that won" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::UnknownIsWon }, terms, who, rule, seen)
        });
    }
    TakesFailedForWon = "takes a create that failed for one that won" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::FailedIsWon }, terms, who, rule, seen)
        });
    }
    TakesLostForWon = "takes a create that lost for one that won" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::LostIsWon }, terms, who, rule, seen)
        });
    }
    KnowsItsInstanceOnly = "takes the record of an earlier process of its name for its own" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::SameInstance(who.clone()) }, terms, who, rule, seen)
        });
    }
    TakesEveryRecordForItsOwn = "takes every record for its own" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::EveryRecord(who.clone()) }, terms, who, rule, seen)
        });
    }
    DoesNotKnowItsOwn = "waits behind its own record, whose answer was lost" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::NoRecord }, terms, who, rule, seen)
        });
    }
    TakesOver = "writes over a holder's record" {
        take!(|io, terms, who, rule, seen| match io.get(Role::Lease, &who.lease) {
            Ok(Reading::Found(entry)) => {
                let value = incumbent_policy::record::write(who, 0, "", "");
                let sent = io.now().steady_ns;
                match io.update(Role::Lease, &who.lease, &value, entry.revision) {
                    Ok(Write::Written(revision)) => Ok(Attempt::Taken(Tenure {
                        epoch: revision,
                        revision,
                        created: io.info(Role::Lease).map_or(0, |info| info.created),
                        taken: String::new(),
                        until_ns: terms.until(sent),
                        certainty: Certainty::Sure,
                    })),
                    _ => lease::take(io, terms, who, rule, seen),
                }
            }
            _ => lease::take(io, terms, who, rule, seen),
        });
    }
    PutsForCreate = "creates over whatever is there" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::PutForCreate }, terms, who, rule, seen)
        });
    }
    ClearsTheWay = "deletes a holder's record before it takes" {
        take!(|io, terms, who, rule, seen| {
            if let Ok(Reading::Found(entry)) = io.get(Role::Lease, &who.lease) {
                let _ = io.delete(Role::Lease, &who.lease, entry.revision);
            }
            lease::take(io, terms, who, rule, seen)
        });
    }
    TakesUnreadableForNobody = "takes a record that cannot be read for none" {
        take!(|io, terms, who, rule, seen| {
            let attempt =
                lease::take(&mut Bent { io, bend: Bend::UnreadableIsAbsent }, terms, who, rule, seen);
            attempt.map_err(|_| Trouble::Unwritable(incumbent_policy::imports::Fault::Denied(String::new())))
        });
    }
    TakesWhatIsErased = "takes what a stray deletion or a hand took away for given back" {
        take!(|io, terms, who, rule, seen| {
            lease::take(&mut Bent { io, bend: Bend::ErasedIsGivenBack }, terms, who, rule, seen)
        });
    }
    StaysInItsBucket = "does not look whether the bucket is the same after the create" {
        take!(|io, terms, who, rule, seen| {
            let created = seen.map_or(0, |seen| seen.created);
            let created = if created > 0 { created } else { io.info(Role::Lease).map_or(0, |info| info.created) };
            lease::take(&mut Bent { io, bend: Bend::OneBucket(created) }, terms, who, rule, seen)
        });
    }
    TakesTooLate = "takes what was granted too late" {
        take!(|io, terms, who, rule, seen| {
            let attempt = lease::take(&mut Bent { io, bend: Bend::NoTime(None) }, terms, who, rule, seen);
            let now = io.now().steady_ns;
            taken(attempt, |tenure| Tenure { until_ns: tenure.until_ns.max(now + 1), ..tenure })
        });
    }
    RenewsTooLate = "renews when its time is over" {
        renew!(|io, terms, who, tenure| lease::renew(io, terms, who, Tenure { until_ns: u64::MAX, ..tenure }));
    }
    RenewsInTheLastInstant = "renews at the very instant at which its time is over" {
        renew!(|io, terms, who, tenure| {
            lease::renew(io, terms, who, Tenure { until_ns: tenure.until_ns + 1, ..tenure })
        });
    }
    RenewsFromTheAnswerOn = "counts a renewal from its answer instead of from before the write" {
        renew!(|io, terms, who, tenure| {
            let renewal = lease::renew(io, terms, who, tenure);
            let until_ns = terms.until(io.now().steady_ns);
            kept(renewal, |tenure| Tenure { until_ns, ..tenure })
        });
    }
    RenewsForASecondMore = "keeps the gate open for a second longer than its record is good for" {
        renew!(|io, terms, who, tenure| kept(lease::renew(io, terms, who, tenure), |tenure| {
            Tenure { until_ns: tenure.until_ns + SECOND, ..tenure }
        }));
    }
    RenewsWithoutMargin = "keeps the gate open until the record expires" {
        renew!(|io, terms, who, tenure| lease::renew(io, &without_margin(terms), who, tenure));
    }
    KeepsWithoutWriting = "keeps its lease without writing anything" {
        renew!(|io, terms, _who, tenure| {
            let until_ns = terms.until(io.now().steady_ns);
            Renewal::Kept(Tenure { until_ns, ..tenure })
        });
    }
    KeepsWhatIsUnknown = "takes a renewal without an answer for one that won" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::UnknownIsWon }, terms, who, tenure)
        });
    }
    KeepsWhatFailed = "takes a renewal that failed for one that won" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::FailedIsWon }, terms, who, tenure)
        });
    }
    KeepsWhatWasRefused = "takes a renewal that was refused for one that won" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::LostIsWon }, terms, who, tenure)
        });
    }
    LeavesTheGateOpen = "leaves the gate open when a renewal is refused" {
        renew!(|io, terms, who, tenure| match lease::renew(io, terms, who, tenure) {
            Renewal::Refused(Setback { tenure, why }) => {
                Renewal::Failed(Setback { tenure: Tenure { certainty: Certainty::Unsure, ..tenure }, why })
            }
            other => other,
        });
    }
    ForgetsItsDoubt = "forgets that a renewal was refused" {
        renew!(|io, terms, who, tenure| {
            lease::renew(io, terms, who, Tenure { certainty: Certainty::Sure, ..tenure })
        });
    }
    GoesOnWhenLost = "goes on when its lease is lost" {
        renew!(|io, terms, who, tenure| {
            let known = tenure.clone();
            match lease::renew(io, terms, who, tenure) {
                Renewal::Lost(_) => {
                    let until_ns = terms.until(io.now().steady_ns);
                    Renewal::Kept(Tenure { until_ns, certainty: Certainty::Sure, ..known })
                }
                other => other,
            }
        });
    }
    PutsForUpdate = "renews at whatever revision is there" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::PutForUpdate }, terms, who, tenure)
        });
    }
    AdoptsAnothersRenewal = "takes the record of whoever holds the lease now for a renewal of its own" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::EveryRecord(who.clone()) }, terms, who, tenure)
        });
    }
    BelievesOldReadings = "takes an older entry for a newer one" {
        renew!(|io, terms, who, tenure| {
            let bend = Bend::OlderIsNewer(tenure.revision);
            lease::renew(&mut Bent { io, bend }, terms, who, tenure)
        });
    }
    RenewsInAnyBucket = "does not see that the bucket was raised again" {
        renew!(|io, terms, who, tenure| {
            lease::renew(&mut Bent { io, bend: Bend::OneBucket(tenure.created) }, terms, who, tenure)
        });
    }
    ChangesItsEpoch = "goes on at another epoch" {
        renew!(|io, terms, who, tenure| kept(lease::renew(io, terms, who, tenure), |tenure| {
            Tenure { epoch: tenure.revision, ..tenure }
        }));
    }
    DoesNotGiveWay = "renews a record in which it is asked to give way" {
        renew!(|io, terms, who, tenure| match lease::renew(io, terms, who, tenure) {
            Renewal::Asked(Setback { tenure, why }) => {
                Renewal::Failed(Setback { tenure: Tenure { certainty: Certainty::Unsure, ..tenure }, why })
            }
            other => other,
        });
    }
    DeletesWhateverIsThere = "deletes whatever is there when it gives the lease back" {
        fn release(io: &mut impl Imports, who: &Identity, tenure: &Tenure) -> Release {
            lease::release(&mut Bent { io, bend: Bend::DeleteForDelete }, who, tenure)
        }
    }
    OpensInTheLastInstant = "passes an act at the very instant at which its time is over" {
        fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
            match (gate::pass(standing, now_ns), standing) {
                (_, Standing::Held(tenure))
                    if tenure.certainty == Certainty::Sure && now_ns <= tenure.until_ns =>
                {
                    Ok(Open { epoch: tenure.epoch, until_ns: tenure.until_ns + 1 })
                }
                (answer, _) => answer,
            }
        }
    }
    OpensForEver = "opens the gate for ever" {
        fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
            gate::pass(standing, now_ns).map(|open| Open { until_ns: u64::MAX, ..open })
        }
    }
    OpensAtAnotherEpoch = "passes acts at an epoch that is not its own" {
        fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
            gate::pass(standing, now_ns).map(|open| Open { epoch: open.epoch + 1, ..open })
        }
    }
    OpensTooLate = "passes acts when its time is over" {
        fn pass(standing: &Standing, _: u64) -> Result<Open, Closed> {
            gate::pass(standing, 0).map(|open| Open { until_ns: open.until_ns + SECOND, ..open })
        }
    }
}
