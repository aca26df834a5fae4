//! Every change that cargo-mutants knows of the policy, the gate, the guard rails and the lease: whether a test notices it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "mutants",
    means: "the policy, the gate, the guard rails and the lease, changed in every way that cargo-mutants knows, one at a time",
    run,
};

/// What `cargo mutants` leaves in `outcomes.json`.
#[derive(Deserialize)]
struct Outcomes {
    caught: u64,
    missed: u64,
    timeout: u64,
}

impl Outcomes {
    fn viable(&self) -> u64 {
        self.caught + self.missed + self.timeout
    }
}

fn run(budget: Budget) -> Result<Outcome> {
    if budget == Budget::Quick {
        let figures = vec![Figure::told("viable mutants killed", "at night only: an hour".into())];
        return Ok(Outcome { figures, seeds: String::new() });
    }
    let version = Command::new("cargo").args(["mutants", "--version"]).output()?;
    ensure!(version.status.success(), "cargo-mutants is not here: `cargo install --locked cargo-mutants`");
    let decisions = tried(".cargo/mutants.toml")?;
    let lease = tried(".cargo/mutants-lease.toml")?;
    Ok(Outcome {
        figures: vec![
            Figure::at_least("of policy, gate and guard rails: killed", decisions.caught, decisions.viable()),
            Figure::at_least("viable", decisions.viable(), 400),
            Figure::at_least("of the lease: killed", lease.caught, lease.viable()),
            Figure::at_least("viable", lease.viable(), 150),
        ],
        seeds: String::new(),
    })
}

/// Each mutant of what this configuration names.
fn tried(config: &str) -> Result<Outcomes> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Its status says whether any was missed, which is counted below; what it prints is for people.
    let ended = Command::new("cargo")
        .args(["mutants", "--colors", "never", "--config", config])
        .current_dir(&root)
        .status()?;
    let path = root.join("target/mutants.out/outcomes.json");
    let text = std::fs::read(&path).with_context(|| format!("{} after {ended}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}
