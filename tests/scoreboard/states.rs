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

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let mut figures = Vec::new();
    let (mut broken, mut missing, mut cut_short) = (0, 0, 0);
    for (instances, what, goal) in [
        (2, "two instances", budget.pick(5_000_000, 100_000_000)),
        (3, "three instances", budget.pick(2_000_000, 50_000_000)),
    ] {
        let mut states = 0;
        for run in runs(instances, budget.pick(0, WIDER)) {
            let report = explore::<BuiltIn>(&run.config).map_err(|why| anyhow!(why))?;
            states += report.states;
            missing += report.missing.len() as u64;
            cut_short += u64::from(!report.exhausted);
            for never in &report.missing {
                eprintln!("{what}, {}: never {}", run.what, never.text());
            }
            if let Some(violation) = report.violation {
                broken += 1;
                eprintln!("{what}, {}: {} is broken:", run.what, violation.invariant.name());
                eprintln!("{}", violation.path.join("\n"));
            }
        }
        figures.push(Figure::at_least(what, states, goal));
    }
    let (what, mut states) = ("check holds", 0);
    for run in holds::runs(budget.pick(0, WIDER)) {
        let report = holds::explore::<BuiltIn>(&run.config).map_err(|why| anyhow!(why))?;
        states += report.states;
        missing += report.missing.len() as u64;
        cut_short += u64::from(!report.exhausted);
        for never in &report.missing {
            eprintln!("{what}, {}: never {}", run.what, never.text());
        }
        if let Some(violation) = report.violation {
            broken += 1;
            eprintln!("{what}, {}: {} is broken:", run.what, violation.invariant.name());
            eprintln!("{}", violation.path.join("\n"));
        }
    }
    figures.push(Figure::at_least(what, states, budget.pick(2_000_000, 10_000_000)));
    figures.push(Figure::none("violations", broken));
    figures.push(Figure::none("runs that did not end by themselves", cut_short));
    figures.push(Figure::none("what was to happen at some time and never did", missing));
    Ok(Outcome { figures, seeds: String::new() })
}
