//! A row of the table.

use std::time::Duration;

/// How much time a row may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Some seconds to a minute on two cores.
    Quick,
    /// Hours.
    Nightly,
}

impl Budget {
    /// One of two figures.
    pub(crate) fn pick<T>(self, quick: T, nightly: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Nightly => nightly,
        }
    }
}

/// A row, as a program.
pub(crate) struct Row {
    /// Names it: `--row NAME`.
    pub(crate) name: &'static str,
    /// What its figures mean, for people who read the table.
    pub(crate) means: &'static str,
    /// Finds them out. An error is a figure that does not hold.
    pub(crate) run: fn(Budget) -> anyhow::Result<Outcome>,
}

/// What came of a row.
pub(crate) struct Outcome {
    /// In the order printed; at least one.
    pub(crate) figures: Vec<Figure>,
    /// From which seed to which, or empty where nothing is drawn.
    pub(crate) seeds: String,
}

/// One figure.
pub(crate) struct Figure {
    /// What is counted.
    pub(crate) what: String,
    /// The figure.
    pub(crate) reached: String,
    /// What it was to be.
    pub(crate) goal: String,
    /// Whether it is.
    pub(crate) holds: bool,
    /// Whether it is told when it is missed, and fails nothing: it hangs on how fast this machine is at the moment, or is
    /// known to be missed.
    pub(crate) told_only: bool,
}

impl Figure {
    /// A count that is to reach this.
    pub(crate) fn at_least(what: &str, reached: u64, goal: u64) -> Self {
        let (text, asked) = (grouped(reached), format!("≥ {}", grouped(goal)));
        Self { what: what.into(), reached: text, goal: asked, holds: reached >= goal, told_only: false }
    }

    /// Something measured, what it was to be, and whether it is.
    pub(crate) fn measured(what: &str, reached: String, goal: String, holds: bool) -> Self {
        Self { what: what.into(), reached, goal, holds, told_only: true }
    }

    /// Something told, without a goal.
    pub(crate) fn told(what: &str, text: String) -> Self {
        Self::measured(what, text, "–".into(), true)
    }

    /// A count that is to be none.
    pub(crate) fn none(what: &str, reached: u64) -> Self {
        let (text, goal) = (grouped(reached), "0".into());
        Self { what: what.into(), reached: text, goal, holds: reached == 0, told_only: false }
    }
}

impl Outcome {
    /// A row that could not be made.
    pub(crate) fn failed(why: &anyhow::Error) -> Self {
        let what = format!("{why:#}").replace(['|', '\n'], " ");
        let (reached, goal) = ("failed".into(), "to run".into());
        let figure = Figure { what, reached, goal, holds: false, told_only: false };
        Self { figures: vec![figure], seeds: String::new() }
    }
}

impl Row {
    /// One line of the table for each figure; the seconds are the row's.
    pub(crate) fn print(&self, outcome: &Outcome, took: Duration) {
        for (at, figure) in outcome.figures.iter().enumerate() {
            let (name, seconds) = match at {
                0 => (format!("**{}**: {}", self.name, self.means), format!("{:.1}", took.as_secs_f64())),
                _ => Default::default(),
            };
            let Figure { what, reached, goal, holds, .. } = figure;
            let missed = if *holds { "" } else { " **MISSED**" };
            println!("| {name} | {what} | {reached}{missed} | {goal} | {} | {seconds} |", outcome.seeds);
        }
    }
}

/// `5123456` as `5,123,456`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
