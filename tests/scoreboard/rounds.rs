//! How many rounds of real faults on real stores were played, and what the sweep found.

use std::path::Path;

use incumbent_tests::rounds::fault::{Kind, deck};
use incumbent_tests::rounds::round::{Order, many};
use incumbent_tests::rounds::site::Program;
use incumbent_tests::rounds::{holder, writer};

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "rounds",
    means: "real servers and processes: three holders that pass their gate all the time, and one fault a round",
    run,
};

/// Draws the faults, and every round from it on.
const SEED: u64 = 1;

/// Rounds side by side: most of a round is waiting.
const LANES: usize = 5;

/// This program as one of the processes of a round.
pub(crate) fn part() -> Option<anyhow::Result<()>> {
    let mut words = std::env::args().skip(1);
    match (words.next()?.as_str(), words.next()?) {
        ("holder", part) => Some(holder::main(&part)),
        ("writer", path) => Some(writer::main(Path::new(&path))),
        _ => None,
    }
}

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let count = budget.pick(40, 1000);
    let program = Program::new(std::env::current_exe()?)?;
    let drawn = deck(SEED, &Kind::ALL, count);
    let orders: Vec<_> =
        (SEED..).zip(&drawn).map(|(seed, (kind, fault))| Order { seed, kind: *kind, fault: *fault }).collect();
    let tally = many(&program, &orders, LANES, |report, took| {
        let Order { seed, kind, fault } = report.order;
        let evidence = report.evidence.as_deref().unwrap_or("no evidence");
        eprintln!("round {seed}: {kind}, {fault}: {evidence}; {:.1} s", took.as_secs_f64());
        let sweep = &report.sweep;
        for found in sweep.overlaps.iter().chain(&sweep.epochs) {
            eprintln!("  FOUND: {found}{}", report.tails);
        }
    });
    for order in &tally.uncounted {
        eprintln!("round {}: {}, {}: did not hit", order.seed, order.kind, order.fault);
    }
    for why in &tally.broken_off {
        eprintln!("broke off: {why}");
    }
    let sum = |of: fn(&incumbent_tests::rounds::round::Report) -> u64| tally.counted.iter().map(of).sum::<u64>();
    let counted = |kind: Kind| tally.counted.iter().filter(|report| report.order.kind == kind).count() as u64;
    let places: Vec<_> = Kind::ALL.iter().map(|kind| format!("{kind} {}", counted(*kind))).collect();
    Ok(Outcome {
        figures: vec![
            Figure::at_least(
                &format!("rounds that count ({})", places.join(", ")),
                tally.counted.len() as u64,
                count as u64,
            ),
            Figure::none("two holders at one time", sum(|report| report.sweep.overlaps.len() as u64)),
            Figure::none("epochs issued twice, or not above the one before", sum(|report| report.sweep.epochs.len() as u64)),
            Figure::none("stale acts admitted by the receiver's fence", sum(|report| report.admitted)),
            Figure::at_least("stale acts that reached it and were refused", sum(|report| report.refused), 1),
            Figure::at_least("passes of the gate", sum(|report| report.sweep.passes), 100 * count as u64),
            Figure::none("rounds that broke off", tally.broken_off.len() as u64),
            Figure::told("rounds whose fault did not hit, played again", tally.uncounted.len() as u64),
            Figure::told("acts begun in time that ended under the next holder", sum(|report| report.sweep.under_way)),
        ],
        seeds: format!("{SEED} to {}", SEED + count as u64 - 1),
    })
}
