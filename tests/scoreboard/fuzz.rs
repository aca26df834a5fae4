//! How much bad input was read, and what came of it.

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "fuzz",
    means: "inputs near those of the corpora, each read by the reader that it is for, whose answer must hold",
    run,
};

/// The first seed.
const SEED: u64 = 1;

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let goal = budget.pick(2_000_000, 100_000_000);
    // What a target is given is told with its failure; the panic itself would say it twice.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let ran = incumbent_fuzz::run(goal, SEED);
    std::panic::set_hook(told);
    let ran = ran?;
    for failure in &ran.failures {
        eprintln!("{failure}");
    }
    let figures = vec![
        Figure::at_least("inputs read", ran.executions, goal),
        Figure::none("panics and broken properties", ran.panics),
        Figure::none("let through what must be refused", ran.let_through),
    ];
    Ok(Outcome { figures, seeds: format!("from {SEED}") })
}
