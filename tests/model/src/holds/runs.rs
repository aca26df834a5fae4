//! The explorations that are counted: faults in combination, each with what it has to reach.

use super::sometimes::Sometimes::{self, *};
use super::{Config, Faults};

/// One of them.
#[derive(Debug)]
pub struct Run {
    /// What happens in it.
    pub what: &'static str,
    /// Its bounds.
    pub config: Config,
}

fn run(what: &'static str, horizon: u8, faults: Faults, sometimes: &[Sometimes]) -> Run {
    let faults = Faults { looks: faults.looks.max(2), begins: faults.begins.max(1), ..faults };
    Run { what, config: Config { faults, sometimes: sometimes.to_vec(), ..Config::two(horizon) } }
}

/// All of them, longer by so many ticks.
#[must_use]
pub fn runs(longer: u8) -> Vec<Run> {
    let none = Faults::default();
    let mut runs = vec![
        run(
            "nothing but slowness",
            3,
            none,
            &[
                LetThrough,
                SecondWaits,
                AnotherAfterIt,
                StopsByItsClock,
                KeyIsLost,
                BeginsUnderALetThrough,
                BeginsUnderACheck,
                HeldAtTheSecondLook,
                YoungerIsHandedBack,
                TakenAsUsual,
                PlanAgesOut,
                PlanIsPutAgain,
                PlanEnds,
            ],
        ),
        run(
            "an answer is lost",
            2,
            Faults { lost_answer: 1, ..none },
            &[LostCreateIsFound, LostKeepIsFound, PlanGoesOn, SecondWaits],
        ),
        run(
            "a write comes late",
            2,
            Faults { late: 1, ..none },
            &[LandsLate, LostCreateIsFound, AnotherAfterIt],
        ),
        run(
            "a builder is killed",
            3,
            Faults { builder_killed: 1, ..none },
            &[AgesOutAfterAKill, AnotherAfterIt, LandsLate],
        ),
        run(
            "a read or a write is refused",
            2,
            Faults { refused: 1, ..none },
            &[FaultHoldsNone, AnotherAfterIt],
        ),
        run("a keeping is cut off", 2, Faults { cut: 1, ..none }, &[IsCutOff, LostKeepIsFound]),
        run("a builder's clock loses a tick", 3, Faults { loses: 1, ..none }, &[LosesATick, AnotherAfterIt]),
        run(
            "the store's clock steps ahead",
            2,
            Faults { step: 1, ..none },
            &[StepsUnderALetThrough, AnotherAfterIt],
        ),
        run("two plans", 2, Faults { begins: 2, ..none }, &[HeldAtTheSecondLook, TakenAsUsual, PlanEnds]),
        run(
            "a controller is killed",
            3,
            Faults { begins: 2, controller_killed: 1, ..none },
            &[PlanGoesOn, PlanAgesOut],
        ),
        run(
            "two controllers of one plan, an answer is lost",
            1,
            Faults { begins: 2, lost_answer: 1, ..none },
            &[PlanGoesOn, PlanIsLost],
        ),
        run("three builders", 1, Faults { looks: 3, ..none }, &[SecondWaits, BeginsUnderACheck]),
    ];
    runs[8].config.plans = vec![1, 2];
    runs[10].config.plans = vec![1, 1];
    for run in &mut runs[8..11] {
        run.config.builders = 1;
    }
    runs[10].config.faults.looks = 1;
    runs[11].config.builders = 3;
    for run in &mut runs {
        run.config.horizon += longer;
    }
    runs
}
