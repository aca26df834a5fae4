//! The explorations that are counted: faults in combination, each with what it has to reach.

use incumbent_policy::lease::Vacancy;

use crate::check::Invariant;
use crate::config::{Config, Expiry, Faults, Ticks};
use crate::sometimes::Sometimes::{self, *};

/// One of them.
#[derive(Debug)]
pub struct Run {
    /// What happens in it.
    pub what: &'static str,
    /// Its bounds.
    pub config: Config,
}

/// The explorations of two or three instances; the bounds are wider by so many ticks and looks.
#[must_use]
pub fn runs(instances: u8, wider: u8) -> Vec<Run> {
    let mut runs = if instances == 3 { three() } else { two() };
    for run in &mut runs {
        run.config.instances = instances;
        run.config.horizon += wider;
        run.config.faults.looks += wider;
        run.config.threads = 2;
    }
    runs
}

fn run(what: &'static str, horizon: u8, faults: Faults, sometimes: &[Sometimes]) -> Run {
    let config = Config {
        expiry: Expiry::Either,
        faults: Faults { looks: faults.looks.max(3), ..faults },
        sometimes: sometimes.to_vec(),
        ..Config::two(horizon)
    };
    Run { what, config }
}

/// In a store that gives revisions again, a write that lay on its way may find its revision under another one's
/// record; the table of vacancies says what holds there. Lost is lost in any case.
fn forgetful(mut run: Run) -> Run {
    run.config.judged = vec![Invariant::LostIsLost];
    run
}

fn two() -> Vec<Run> {
    let none = Faults::default();
    let mut runs = vec![
        run(
            "an answer is lost, and a write comes late",
            6,
            Faults { lost_answer: 1, late: 1, ..none },
            &[
                AllHaveHeld,
                AgesOutUnderItsHolder,
                WakesAfterATakeover,
                LostRenewalIsFound,
                LostTakeIsAdopted,
                FailedRenewalIsMadeAgain,
                DoubtedIsKept,
                IsSuperseded,
                LandsLate,
                TakenTooLate,
                WaitsOutAnAbsence,
            ],
        ),
        run(
            "a call is cut off, and an instance dies and stands again",
            7,
            Faults { cut: 1, crash: 1, ..none },
            &[AllHaveHeld, DiesHolding, IsCutOff, LandsLate, StandsAnew, LostTakeIsAdopted],
        ),
        run(
            "a lease is given back, a holder asked to give way, a write comes twice",
            5,
            Faults { release: 1, ask: 1, duplicate: 1, ..none },
            &[AllHaveHeld, TakenAfterARelease, GivesWay, LateIsRefused],
        ),
        run(
            "a read is stale, a call refused for now, a write refused for good",
            5,
            Faults { stale: 1, unavailable: 1, denied: 1, ..none },
            &[AllHaveHeld, ReadsStale, Unwritable, FailedRenewalIsMadeAgain],
        ),
        run(
            "the clocks of one and of the store go apart by as much as the margin, an answer is lost",
            5,
            Faults { step: 1, loses: 1, lost_answer: 1, ..none },
            &[StepsUnderAHolder, AllHaveHeld],
        ),
        forgetful(run(
            "the bucket is wiped",
            5,
            Faults { looks: 4, wipe: 1, ..none },
            &[WipedUnderAHolder, MovesTheFloor, RaisedAgainInATake, IsRaisedAgain],
        )),
        forgetful(run(
            "a create and a renewal are forgotten",
            5,
            Faults { forget_create: 1, forget_renewal: 1, ..none },
            &[ForgottenUnderAHolder, IsGone],
        )),
        run(
            "a lease is given back so late that it comes into a bucket raised again, where the revision is another's",
            3,
            Faults { looks: 4, release: 1, wipe: 1, ask: 1, ..none },
            &[AllHaveHeld, WaitsForWhatIsErased, IsRaisedAgain],
        ),
    ];
    runs[1].config.objects = 2;
    runs[4].config.ticks = Ticks { ttl: 5, renew: 2, margin: 2 };
    runs[5].config.rule = Vacancy::Trusted;
    // Nobody's floor keeps the revisions apart, and who gave it back looks again.
    let late = &mut runs[7].config;
    (late.one_floor, late.objects, late.expiry) = (false, 2, Expiry::Marked);
    late.ticks = Ticks { ttl: 3, renew: 1, margin: 1 };
    late.judged = vec![Invariant::OneIncumbent, Invariant::LostIsLost];
    runs
}

fn three() -> Vec<Run> {
    let none = Faults::default();
    vec![
        run(
            "the lease is given back twice",
            4,
            Faults { release: 2, ..none },
            &[AllHaveHeld, TakenAfterARelease],
        ),
        run(
            "an answer is lost, and a write comes late",
            4,
            Faults { lost_answer: 1, late: 1, ..none },
            &[LostTakeIsAdopted, LandsLate, AgesOutUnderItsHolder],
        ),
        run(
            "a holder dies, and an answer is lost",
            5,
            Faults { crash: 1, lost_answer: 1, ..none },
            &[DiesHolding, WakesAfterATakeover],
        ),
    ]
}
