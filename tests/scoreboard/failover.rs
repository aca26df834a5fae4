//! How long nobody acts, after a holder was killed and after one gave the lease back.

use std::time::Duration;

use incumbent_tests::rounds::fault::Kind;
use incumbent_tests::rounds::site::{Program, TTL};
use incumbent_tests::rounds::takeover::{Going, measure};

use crate::row::{Budget, Figure, Outcome, Row};

pub(crate) const ROW: Row = Row {
    name: "failover",
    means: "from the signal to a holder process until the next one passes its gate",
    run,
};

const SEED: u64 = 1;

/// Stores of one kind side by side where a takeover is a ttl of waiting; where it takes a moment they would be in each
/// other's way.
const LANES: usize = 2;

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let program = Program::new(std::env::current_exe()?)?;
    let mut figures = Vec::new();
    let crash = (Going::Crash, "after kill -9, counted from the kill", TTL + Duration::from_millis(500));
    let release = (Going::Release, "after SIGTERM", Duration::from_millis(50));
    for ((going, means, goal), lanes, count) in [(crash, LANES, 20), (release, 1, 100)] {
        for (kind, took) in at_once(&program, going, lanes, budget.pick(count, 1000))? {
            figures.push(figure(&format!("{kind}, ttl {TTL:?}, {means}"), &took, goal));
        }
    }
    Ok(Outcome { figures, seeds: format!("{SEED} to {LANES}") })
}

/// So many takeovers on each store, on both at once.
fn at_once(
    program: &Program,
    going: Going,
    lanes: usize,
    count: usize,
) -> anyhow::Result<Vec<(Kind, Vec<Duration>)>> {
    std::thread::scope(|scope| {
        let lane = |kind, n| scope.spawn(move || measure(program, kind, going, count / lanes, SEED + n));
        let running = [Kind::Nats, Kind::Sqlite]
            .map(|kind| (kind, (0..lanes as u64).map(|n| lane(kind, n)).collect::<Vec<_>>()));
        let mut all = Vec::new();
        for (kind, lanes) in running {
            let mut took = Vec::new();
            for lane in lanes {
                took.extend(lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??);
            }
            all.push((kind, took));
        }
        Ok(all)
    })
}

/// The middle one and the 99th of a hundred.
fn figure(what: &str, took: &[Duration], goal: Duration) -> Figure {
    let mut took = took.to_vec();
    took.sort_unstable();
    // The smallest that so many of a hundred do not exceed.
    let of_hundred = |n: usize| took[(took.len() * n).div_ceil(100).saturating_sub(1)];
    let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    let (p50, p99) = (of_hundred(50), of_hundred(99));
    Figure::measured(
        &format!("{what}, {} takeovers", took.len()),
        format!("p50 {}, p99 {}", millis(p50), millis(p99)),
        format!("p99 ≤ {}", millis(goal)),
        p99 <= goal,
    )
}
