//! What each rule of vacancy is worth against what a store or a clock may do.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use incumbent_policy::Decisions;
use incumbent_policy::lease::Vacancy;

use crate::check::Invariant;
use crate::config::{Config, Expiry, Faults};
use crate::search::{Violation, explore};

/// How far each cell of the table is explored: two instances, one lease object each, and so much of these.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Ticks until the end; a record lives four.
    pub horizon: u8,
    /// How often the two look whether they can take the lease, together.
    pub looks: u8,
}

impl Bounds {
    /// A few seconds.
    pub const QUICK: Self = Self { horizon: 5, looks: 3 };
    /// Some minutes.
    pub const WIDE: Self = Self { horizon: 8, looks: 4 };
}

/// A row: what happens, and what that is in the model.
type Row = (&'static str, fn(&mut Config));

const ROWS: &[Row] = &[
    ("nothing but slowness; markers", |_| {}),
    ("old records leave no marker", |c| c.expiry = Expiry::Unmarked),
    ("a write comes late, without an answer", |c| c.faults.late = 1),
    ("a clock gains a tick; no markers", |c| {
        (c.expiry, c.faults.gains) = (Expiry::Unmarked, 1);
    }),
    ("a clock loses a tick; no markers", |c| {
        (c.expiry, c.faults.loses) = (Expiry::Unmarked, 1);
    }),
    ("the store's clock steps ahead by a tick", |c| c.faults.step = 1),
    ("a clock loses a tick and the store's steps, which is more than the margin", |c| {
        (c.faults.loses, c.faults.step) = (1, 1);
    }),
    ("wiped", |c| c.faults.wipe = 1),
    ("wiped, and each instance has a floor of its own", |c| {
        (c.faults.wipe, c.one_floor) = (1, false);
    }),
    ("an acknowledged create is forgotten", |c| c.faults.forget_create = 1),
    ("an acknowledged renewal is forgotten; markers", |c| c.faults.forget_renewal = 1),
    ("an acknowledged renewal is forgotten; no markers", |c| {
        (c.expiry, c.faults.forget_renewal) = (Expiry::Unmarked, 1);
    }),
];

/// Not [`Vacancy::Delayed`]: it waits for so long that nobody takes anything within bounds that can be explored. The
/// simulation is what shows it.
const RULES: [(&str, Vacancy); 2] = [("trusted", Vacancy::Trusted), ("watched", Vacancy::Watched)];

/// A table in Markdown: whether one incumbent and rising epochs hold in every state within the bounds, or the steps of
/// the shortest way to break each.
///
/// # Errors
/// The bounds do not fit.
pub fn vacancy_table<P: Decisions>(bounds: Bounds) -> Result<String, String> {
    let cells: Vec<_> = ROWS.iter().flat_map(|row| RULES.map(|(_, rule)| (row.1, rule))).collect();
    let told = Mutex::new(vec![Ok(String::new()); cells.len()]);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, (change, rule))) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(at).map(|cell| (at, *cell))
                } {
                    let cell = cell::<P>(bounds, change, rule);
                    told.lock().unwrap_or_else(PoisonError::into_inner)[at] = cell;
                }
            });
        }
    });
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut table = String::from("| what happens |");
    for (name, _) in RULES {
        let _ = write!(table, " {name} |");
    }
    table += "\n|---|---|---|\n";
    let mut told = told.into_iter();
    for (what, _) in ROWS {
        let _ = write!(table, "| {what} |");
        for cell in told.by_ref().take(RULES.len()) {
            let _ = write!(table, " {} |", cell?);
        }
        table.push('\n');
    }
    Ok(table)
}

fn cell<P: Decisions>(bounds: Bounds, change: fn(&mut Config), rule: Vacancy) -> Result<String, String> {
    const BOTH: [Invariant; 2] = [Invariant::OneIncumbent, Invariant::EpochsOnlyRise];
    let mut config = Config::two(bounds.horizon);
    config.rule = rule;
    config.faults = Faults { looks: bounds.looks, ..Faults::default() };
    change(&mut config);
    config.judged = BOTH.to_vec();
    let Some(first) = explore::<P>(&config)?.violation else { return Ok("holds".into()) };
    config.judged.retain(|invariant| *invariant != first.invariant);
    let other = explore::<P>(&config)?.violation;
    let mut broken: Vec<_> = [Some(first), other].into_iter().flatten().collect();
    broken.sort_by_key(|violation| violation.invariant as u8);
    let told =
        |violation: &Violation| format!("{} broken in {}", violation.invariant.name(), violation.path.len());
    Ok(broken.iter().map(told).collect::<Vec<_>>().join(", "))
}
