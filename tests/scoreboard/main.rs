//! The proof in one table: each row a figure, what it means, what it was to reach, and how long it took.

mod failover;
mod fuzz;
mod museum;
mod mutants;
mod rounds;
mod row;
mod schedules;
mod simulated;
mod states;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use incumbent_tests::rounds::disk;

use row::{Budget, Outcome, Row};

const ROWS: &[Row] = &[
    states::ROW,
    simulated::NATIVE,
    simulated::COMPONENT,
    simulated::CALM,
    rounds::ROW,
    failover::ROW,
    museum::ROW,
    mutants::ROW,
    fuzz::ROW,
    // Last: loom's coroutines take the signal by which a policy's access out of bounds is noticed.
    schedules::ROW,
];

/// Every row's figure, what it means, seeds and seconds.
#[derive(Parser)]
struct Args {
    /// What fits into a few minutes. The default.
    #[arg(long, conflicts_with = "nightly")]
    quick: bool,
    /// The long goals, for a night.
    #[arg(long)]
    nightly: bool,
    /// These rows only.
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(played) = rounds::part() {
        return played.map_or_else(
            |why| {
                eprintln!("{why:#}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let args = Args::parse();
    let budget = if args.nightly { Budget::Nightly } else { Budget::Quick };
    if let Some(unknown) = args.rows.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        eprintln!("there is no row {unknown:?}; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    // As whoever may mount a disk for a round, where the machine lets one.
    disk::become_one_who_may_mount();
    println!("| row | what | reached | goal | seeds | seconds |\n|---|---|---|---|---|---|");
    let wanted = |row: &&Row| args.rows.is_empty() || args.rows.iter().any(|name| name == row.name);
    let mut holds = true;
    for row in ROWS.iter().filter(wanted) {
        let begun = Instant::now();
        let outcome = (row.run)(budget).unwrap_or_else(|why| Outcome::failed(&why));
        holds &= outcome.figures.iter().all(|figure| figure.holds || figure.told_only);
        row.print(&outcome, begun.elapsed());
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
