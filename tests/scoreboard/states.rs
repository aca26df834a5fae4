//! How many states the model was in.

use anyhow::anyhow;
use incumbent_model::{explore, holds, runs};
use incumbent_policy::Decisions;

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "states",
    means: "different states in which the invariants were looked at, every one that can be reached within the bounds \
            of each run",
    run,
};

struct BuiltIn;

impl Decisions for BuiltIn {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = "0.0.0";
}

/// How much wider than in a few seconds each run is at night, in ticks and looks.
const WIDER: u8 = 1;

/// What came of all runs.
#[derive(Default)]
struct Total {
    broken: u64,
    missing: u64,
    cut_short: u64,
}

/// Count one run's report, and answer its states. The reports of the two models are alike, and of different types.
macro_rules! count {
    ($total:ident, $what:expr, $run:expr, $explored:expr) => {{
        let report = $explored.map_err(|why| anyhow!(why))?;
        $total.missing += report.missing.len() as u64;
        $total.cut_short += u64::from(!report.exhausted);
        for never in &report.missing {
            eprintln!("{}, {}: never {}", $what, $run.what, never.text());
        }
        if let Some(violation) = report.violation {
            $total.broken += 1;
            eprintln!("{}, {}: {} is broken:", $what, $run.what, violation.invariant.name());
            eprintln!("{}", violation.path.join("\n"));
        }
        report.states
    }};
}

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let (mut figures, mut total) = (Vec::new(), Total::default());
    let wider = budget.pick(0, WIDER);
    for (instances, what, goal) in [
        (2, "two instances", budget.pick(5_000_000, 100_000_000)),
        (3, "three instances", budget.pick(2_000_000, 50_000_000)),
    ] {
        let mut states = 0;
        for run in runs(instances, wider) {
            states += count!(total, what, run, explore::<BuiltIn>(&run.config));
        }
        figures.push(Figure::at_least(what, states, goal));
    }
    let (what, mut states) = ("check holds", 0);
    for run in holds::runs(wider) {
        states += count!(total, what, run, holds::explore::<BuiltIn>(&run.config));
    }
    figures.push(Figure::at_least(what, states, budget.pick(2_000_000, 10_000_000)));
    figures.push(Figure::none("violations", total.broken));
    figures.push(Figure::none("runs that did not end by themselves", total.cut_short));
    figures.push(Figure::none("what was to happen at some time and never did", total.missing));
    Ok(Outcome { figures, seeds: String::new() })
}
