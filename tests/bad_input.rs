//! Readers of bytes that somebody else wrote: every input that was ever worth keeping, and some near them.

use anyhow::{Result, ensure};
use incumbent_fuzz::{Report, run, run_corpus};

fn holds(report: &Report) -> Result<()> {
    let told: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    ensure!(report.panics == 0 && report.let_through == 0, "{}", told.join("\n"));
    Ok(())
}

#[test]
fn every_input_of_the_corpora_is_answered_as_it_must_be() -> Result<()> {
    let report = run_corpus()?;
    assert!(report.executions > 100, "the corpora are gone");
    holds(&report)
}

#[test]
fn inputs_near_the_corpora_are_answered_as_they_must_be() -> Result<()> {
    holds(&run(20_000, 1)?)
}
