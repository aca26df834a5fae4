//! How many states the model was in.

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "states",
    means: "different states in which the invariants were looked at, every one that can be reached within the bounds",
    run,
};

fn run(_budget: Budget) -> anyhow::Result<Outcome> {
    Ok(Outcome { figures: vec![Figure::at_least("two instances", 0, 0)], seeds: String::new() })
}
