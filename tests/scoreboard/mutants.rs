//! Every change that cargo-mutants knows of policy, gate, guard rails, lease, holds and workers: whether a test notices it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "mutants",
    means: "policy, gate, guard rails, lease, holds and workers, changed in every way that cargo-mutants knows, one at a time",
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
    /// A test fails, or waits for what does not come any more.
    fn killed(&self) -> u64 {
        self.caught + self.timeout
    }

    fn viable(&self) -> u64 {
        self.killed() + self.missed
    }
}

fn run(budget: Budget) -> Result<Outcome> {
    if budget == Budget::Quick {
        let figures = vec![Figure::told("viable mutants killed", "at night only".into())];
        return Ok(Outcome { figures, seeds: String::new() });
    }
    let version = Command::new("cargo").args(["mutants", "--version"]).output()?;
    ensure!(version.status.success(), "cargo-mutants is not here: `cargo install --locked cargo-mutants`");
    let decisions = tried(".cargo/mutants.toml")?;
    let host = tried(".cargo/mutants-host.toml")?;
    Ok(Outcome {
        figures: vec![
            Figure::at_least(
                "of policy, gate and guard rails: killed",
                decisions.killed(),
                decisions.viable(),
            ),
            Figure::at_least("viable", decisions.viable(), 400),
            Figure::at_least("of lease, holds and workers: killed", host.killed(), host.viable()),
            Figure::at_least("viable", host.viable(), 150),
        ],
        seeds: String::new(),
    })
}

/// Each mutant of what this configuration names.
fn tried(config: &str) -> Result<Outcomes> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // What it prints is for people.
    let ended = Command::new("cargo")
        .args(["mutants", "--colors", "never", "--config", config])
        .current_dir(&root)
        .status()?;
    // All were caught, some missed, some out of time, which is counted below. Else nothing was tried.
    ensure!(matches!(ended.code(), Some(0 | 2 | 3)), "cargo mutants: {ended}");
    let path = root.join("target/mutants.out/outcomes.json");
    let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_slice(&text)?)
}
