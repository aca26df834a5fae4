//! Every change that cargo-mutants knows of the policy, the gate and the guard rails: whether a test notices it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "mutants",
    means: "the policy, the gate and the guard rails, changed in every way that cargo-mutants knows, one at a time",
    run,
};

/// What `cargo mutants` leaves in `outcomes.json`.
#[derive(Deserialize)]
struct Outcomes {
    caught: u64,
    missed: u64,
    timeout: u64,
}

fn run(budget: Budget) -> Result<Outcome> {
    if budget == Budget::Quick {
        let figures = vec![Figure::told("viable mutants killed", "at night only: half an hour".into())];
        return Ok(Outcome { figures, seeds: String::new() });
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let version = Command::new("cargo").args(["mutants", "--version"]).output()?;
    ensure!(version.status.success(), "cargo-mutants is not here: `cargo install --locked cargo-mutants`");
    // Its status says whether any was missed, which is counted below; what it prints is for people.
    let ended = Command::new("cargo").args(["mutants", "--colors", "never"]).current_dir(&root).status()?;
    let path = root.join("target/mutants.out/outcomes.json");
    let text = std::fs::read(&path).with_context(|| format!("{} after {ended}", path.display()))?;
    let Outcomes { caught, missed, timeout } = serde_json::from_slice(&text)?;
    let viable = caught + missed + timeout;
    Ok(Outcome {
        figures: vec![
            Figure::at_least("viable mutants killed", caught, viable),
            Figure::at_least("viable mutants", viable, 400),
        ],
        seeds: String::new(),
    })
}
