//! Simulated time: natively and through the component, in storms and in a calm.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use incumbent::Runtime;
use incumbent::policy::{BUILT_IN, Version};
use incumbent::simulate::{Counts, Mishap, Mishaps, Run, Simulation};

use crate::row::{Budget, Figure, Outcome, Row, grouped};

/// Simulated for each seed.
const LENGTH: Duration = Duration::from_secs(15 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) const NATIVE: Row = Row {
    name: "simulated",
    means: "the lease, its keeper, the guard rails and the gate under storms, the built-in decisions made natively",
    run: native,
};

pub(crate) const COMPONENT: Row = Row {
    name: "component",
    means: "the same seeds through the component: everything happens alike, to the millisecond",
    run: component,
};

pub(crate) const CALM: Row = Row {
    name: "calm",
    means: "nothing goes wrong but clocks of different rates and slow ways: nothing may be lost",
    run: calm,
};

/// What came of many seeds.
#[derive(Default)]
struct Total {
    runs: u64,
    simulated: Duration,
    mishaps: Mishaps,
    counts: Counts,
    broken: Vec<u64>,
    took: Duration,
}

impl Total {
    fn add(&mut self, seed: u64, run: &Run) {
        self.runs += 1;
        self.simulated += run.simulated;
        self.mishaps.add(&run.mishaps);
        self.counts.add(&run.counts);
        if !run.findings.is_empty() {
            self.broken.push(seed);
            println!("seed {seed} broke: {}", run.findings[0].what);
        }
    }

    fn seeds(&self) -> String {
        format!("0 to {}", self.runs.saturating_sub(1))
    }
}

/// Seeds from 0 on, until so much time is simulated.
fn simulate(simulation: &Simulation, time: Duration) -> Result<Total> {
    let (mut total, begun) = (Total::default(), Instant::now());
    simulation.run_each(0..u64::MAX, |seed, run| {
        total.add(seed, &run);
        if total.simulated < time { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    total.took = begun.elapsed();
    Ok(total)
}

fn natively() -> Simulation {
    let [candidate, proven] = incumbent_native::built_in();
    Simulation { candidate, proven, length: LENGTH, calm: false, narrow: None, keep: false }
}

fn native(budget: Budget) -> Result<Outcome> {
    let total = simulate(&natively(), DAY * budget.pick(365, 3650))?;
    let cores = std::thread::available_parallelism()?.get();
    let rate = total.simulated.as_secs_f64() / total.took.as_secs_f64() / f64::from(u32::try_from(cores)?);
    let fewest = Mishap::ALL.iter().map(|mishap| total.mishaps.of(*mishap)).min().unwrap_or(0);
    let kinds = u64::try_from(Mishap::ALL.len())?;
    let rows = vec![
        Figure::at_least("days simulated", total.simulated.as_secs() / DAY.as_secs(), budget.pick(365, 3650)),
        Figure::none("seeds that broke anything", u64::try_from(total.broken.len())?),
        Figure::measured(
            "times real time, for each core",
            format!("{rate:.0}"),
            budget.pick("–", "≥ 100,000").into(),
            budget == Budget::Quick || rate >= 100_000.0,
        ),
        Figure::at_least("kinds of mishaps", kinds, budget.pick(25, 30)),
        Figure::at_least("times that the rarest of them happened", fewest, budget.pick(1_000, 10_000)),
        Figure::told("leases taken, renewed, lost", counts(&total.counts)),
    ];
    Ok(Outcome { figures: rows, seeds: total.seeds() })
}

fn counts(counts: &Counts) -> String {
    format!("{}, {}, {}", grouped(counts.taken), grouped(counts.renewed), grouped(counts.lost))
}

fn component(budget: Budget) -> Result<Outcome> {
    let seeds = budget.pick(500, 10_000);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let load = async {
        let engine = Runtime::new()?;
        // A custom section more is another version, though it decides the same.
        let candidate = Version::load(&engine, &[BUILT_IN, &[0, 2, 1, b's']].concat()).await?;
        anyhow::Ok((candidate, Version::load(&engine, BUILT_IN).await?))
    };
    let (candidate, proven) = runtime.block_on(load)?;
    let told = transcripts(&Simulation { candidate, proven, ..natively() }, seeds)?;
    let again = transcripts(&natively(), seeds)?;
    ensure!(told.len() == again.len(), "a seed was left out");
    let other = told.iter().zip(&again).filter(|(one, other)| one.0 != other.0).count();
    let simulated: Duration = told.iter().map(|(_, run)| run).sum();
    let days = simulated.as_secs() / DAY.as_secs();
    Ok(Outcome {
        figures: vec![
            Figure::at_least("seeds", seeds, seeds),
            Figure::none("transcripts that differ", u64::try_from(other)?),
            Figure::at_least("days simulated", days, budget.pick(0, 90)),
        ],
        seeds: format!("0 to {}", seeds - 1),
    })
}

/// The transcript of each of these seeds, in their order, and how long it was.
fn transcripts(simulation: &Simulation, seeds: u64) -> Result<Vec<(u64, Duration)>> {
    let mut told = Vec::new();
    simulation.run_each(0..seeds, |seed, run| {
        told.push((seed, run.transcript, run.simulated));
        ControlFlow::Continue(())
    })?;
    told.sort_unstable();
    Ok(told.into_iter().map(|(_, transcript, simulated)| (transcript, simulated)).collect())
}

fn calm(_: Budget) -> Result<Outcome> {
    let calm = Simulation { calm: true, length: 10 * HOUR, ..natively() };
    let total = simulate(&calm, 1000 * HOUR)?;
    let hours = total.simulated.as_secs() / HOUR.as_secs();
    Ok(Outcome {
        figures: vec![
            Figure::at_least("hours simulated", hours, 1000),
            Figure::none("leases lost", total.counts.lost),
            Figure::none("seeds that broke anything", u64::try_from(total.broken.len())?),
        ],
        seeds: total.seeds(),
    })
}
