//! In how many orders the steps of several threads were run.

use anyhow::{anyhow, bail};
use incumbent_schedules::drawn;
use incumbent_schedules::gate_loom::{Depth, MODELS};

use crate::row::{Budget, Figure, Outcome, Row, grouped};

pub(crate) const ROW: Row = Row {
    name: "schedules",
    means: "orders of the steps of several threads, at each of which the invariants were looked at",
    run,
};

/// The first seed.
const SEED: u64 = 1;

fn run(budget: Budget) -> anyhow::Result<Outcome> {
    let every = every_order(budget.pick(Depth::Quick, Depth::Nightly))?;
    let goal = budget.pick(1_000_000, 20_000_000);
    let drawn = drawn::run(goal, SEED).map_err(anyhow::Error::msg)?;
    let figures = vec![
        Figure::at_least("the gate, different orders (loom)", every, budget.pick(500_000, 5_000_000)),
        Figure::at_least(
            "gate, permits, versions, line, rails, lease, orders drawn (shuttle)",
            drawn.all,
            goal,
        ),
        Figure::told("of these, of the whole lease", grouped(drawn.whole)),
        Figure::at_least("of those, in which one held it after another", drawn.followed, drawn.whole / 2),
    ];
    Ok(Outcome { figures, seeds: format!("from {SEED}") })
}

/// The models in two threads, the long ones first; a model's own threads are loom's.
fn every_order(depth: Depth) -> anyhow::Result<u64> {
    let next = std::sync::Mutex::new(MODELS.iter().rev());
    let work = || {
        let mut orders = 0;
        while let Some(model) = next.lock().ok().and_then(|mut next| next.next()) {
            orders += model.run(depth);
        }
        orders
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut orders = 0;
        for thread in threads {
            orders += thread.join().map_err(|_| anyhow!("a model of the gate does not hold"))?;
        }
        if orders == 0 {
            bail!("no model was run");
        }
        Ok(orders)
    })
}
