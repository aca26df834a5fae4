//! Planted bugs, and how many layers find each.

use anyhow::Result;
use incumbent_museum::{BUGS, Caught};

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "museum",
    means: "bugs planted in the policy, one for each rule of safety: two layers of tables, simulation and model find each",
    run,
};

fn run(_: Budget) -> Result<Outcome> {
    let (mut by_two, mut by_none) = (0, 0);
    for bug in BUGS.iter() {
        let caught = bug.caught()?;
        if caught.len() >= 2 {
            by_two += 1;
            continue;
        }
        by_none += u64::from(caught.is_empty());
        println!(
            "{} ({}) is found by {:?} only",
            bug.name,
            bug.does,
            caught.iter().map(told).collect::<Vec<_>>()
        );
    }
    let all = u64::try_from(BUGS.len())?;
    Ok(Outcome {
        figures: vec![
            Figure::at_least("bugs planted", all, 40),
            Figure::none("bugs found by no layer", by_none),
            Figure { told_only: true, ..Figure::at_least("bugs found by two layers", by_two, all) },
        ],
        seeds: "0 to 199, or to 3999".into(),
    })
}

fn told(caught: &Caught) -> String {
    format!("{:?}: {}", caught.by, caught.what)
}
