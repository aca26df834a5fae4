//! How many rounds of real faults on real stores were played, and what the sweep found.

use std::path::Path;

use incumbent_tests::rounds::disk;
use incumbent_tests::rounds::fault::{Fault, Kind, all, deck};
use incumbent_tests::rounds::round::{self, Broken, Order, Report};
use incumbent_tests::rounds::site::Program;
use incumbent_tests::rounds::{holder, writer};

use crate::row::{Budget, Figure, Outcome, Row, grouped};

pub(crate) const ROW: Row = Row {
    name: "rounds",
    means: "real servers and processes: three holders that pass their gate all the time, and one fault a round",
    run,
};

/// Draws the faults, and every round from it on.
const SEED: u64 = 1;

/// Rounds side by side: most of a round is waiting.
const LANES: usize = 5;

/// This program as one of the processes of a round, or playing a single round again: `round SEED 'STORE, FAULT'`.
pub(crate) fn part() -> Option<anyhow::Result<()>> {
    let mut words = std::env::args().skip(1);
    let (word, one, other) = (words.next()?, words.next()?, words.next());
    match (word.as_str(), other) {
        ("holder", None) => Some(holder::main(&one)),
        ("writer", None) => Some(writer::main(Path::new(&one))),
        ("round", Some(what)) => {
            disk::become_one_who_may_mount();
            Some(again(&one, &what))
        }
        _ => None,
    }
}

fn again(seed: &str, what: &str) -> anyhow::Result<()> {
    let program = Program::new(std::env::current_exe()?)?;
    let report = round::run(&program, Order::parse(seed, what)?, Broken::default())?;
    tell(&report);
    println!("{:#?}{}", report.sweep.tenures, report.tails);
    anyhow::ensure!(report.is_clean(), "it found what must not be");
    Ok(())
}

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let count = budget.pick(40, 1000);
    let program = Program::new(std::env::current_exe()?)?;
    let small_disk = (Kind::Sqlite, Fault::DiskFull);
    let has_disk = disk::may_mount();
    let possible: Vec<_> = all().filter(|what| has_disk || *what != small_disk).collect();
    if !has_disk {
        eprintln!("no file runs out of disk: none of its own can be mounted here");
    }
    let drawn = deck(SEED, &possible, count);
    let order = |(seed, &(kind, fault)): (u64, &(Kind, Fault))| Order { seed, kind, fault };
    let orders: Vec<_> = (SEED..).zip(&drawn).map(order).collect();
    let tally = round::many(&program, &orders, LANES, tell);
    for order in &tally.uncounted {
        eprintln!("round {order} did not hit");
    }
    for why in &tally.broken_off {
        eprintln!("broke off: {why}");
    }
    let sum = |of: fn(&Report) -> u64| tally.counted.iter().map(of).sum::<u64>();
    let of_kind = |kind: &Kind| tally.counted.iter().filter(|report| report.order.kind == *kind).count();
    let full = tally.counted.iter().filter(|report| (report.order.kind, report.order.fault) == small_disk);
    let full = full.count() as u64;
    let places = Kind::ALL.map(|kind| format!("{kind} {}", of_kind(&kind))).join(", ");
    let (reached, goal) = (tally.counted.len() as u64, count as u64);
    let figures = vec![
        Figure::at_least(&format!("rounds that count ({places})"), reached, goal),
        Figure::none("two holders at one time", sum(|report| report.sweep.overlaps.len() as u64)),
        Figure::none(
            "epochs issued twice, or not above the one before",
            sum(|report| report.sweep.epochs.len() as u64),
        ),
        Figure::none("stale acts admitted by the receiver's fence", sum(|report| report.admitted)),
        Figure::at_least("stale acts that reached it and were refused", sum(|report| report.refused), 1),
        Figure::at_least("passes of the gate", sum(|report| report.sweep.passes), 200 * goal),
        Figure::none("rounds that broke off", tally.broken_off.len() as u64),
        Figure::told("rounds whose fault did not hit, played again", grouped(tally.uncounted.len() as u64)),
        Figure::told("rounds of a file on a full disk of its own", grouped(full)),
        Figure::told(
            "acts begun in time that ended under the next holder",
            grouped(sum(|report| report.sweep.under_way)),
        ),
    ];
    Ok(Outcome { figures, seeds: format!("{SEED} to {}", SEED + goal - 1) })
}

fn tell(report: &Report) {
    let evidence = report.evidence.as_deref().unwrap_or("it did not hit");
    eprintln!("round {}: {evidence}; {:.1} s", report.order, report.took.as_secs_f64());
    let sweep = &report.sweep;
    for found in sweep.overlaps.iter().chain(&sweep.epochs) {
        eprintln!("FOUND: {found}{}", report.tails);
    }
}
