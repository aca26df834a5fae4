//! Simulated time, natively.

use std::time::{Duration, Instant};

use incumbent::simulate::Simulation;

use crate::row::{Budget, Outcome, Row};

pub(crate) const ROW: Row = Row { name: "simulated", means: "x", run };

fn run(_budget: Budget) -> anyhow::Result<Outcome> {
    let [candidate, proven] = incumbent_native::built_in();
    let simulation =
        Simulation { candidate, proven, length: Duration::from_secs(900), calm: false, keep: false };
    let begun = Instant::now();
    let mut sim = Duration::ZERO;
    for seed in 0..100 {
        let run = simulation.run(seed)?;
        sim += run.simulated;
        if !run.findings.is_empty() {
            println!("seed {seed}: {:?} {:?} {:?}", run.findings, run.counts, run.weather);
        }
    }
    println!("{sim:?} in {:?}", begun.elapsed());
    Ok(Outcome { figures: vec![], seeds: String::new() })
}
