//! What holders write down, and the sweep over it: two at one time, an epoch issued twice, a stale act admitted.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

/// One line of a holder's log. Times are nanoseconds of the machine's steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The lease was taken.
    Taken {
        /// When.
        at: u64,
        /// At this epoch.
        epoch: u64,
    },
    /// The gate was passed.
    Pass(Pass),
    /// Something else happened.
    Said {
        /// When.
        at: u64,
        /// What.
        what: String,
    },
}

/// One pass of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// At this epoch.
    pub epoch: u64,
    /// Read before the gate was asked.
    pub before: u64,
    /// Read after the act.
    pub after: u64,
}

/// All that one holder process wrote down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Who.
    pub holder: String,
    /// In its order.
    pub lines: Vec<Line>,
}

impl Line {
    /// As it stands in the file.
    ///
    /// # Errors
    /// It is no such line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.splitn(3, ' ');
        let [kind, one, rest] = [words.next(), words.next(), words.next()].map(Option::unwrap_or_default);
        let parsed = match kind {
            "taken" => Self::Taken { at: number(one)?, epoch: number(rest)? },
            "pass" => {
                let (before, after) = rest.split_once(' ').context("a pass has two times")?;
                Self::Pass(Pass { epoch: number(one)?, before: number(before)?, after: number(after)? })
            }
            "said" => Self::Said { at: number(one)?, what: rest.into() },
            _ => bail!("the line {text:?} is not known"),
        };
        Ok(parsed)
    }

    /// To be written into the file, with its end.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Taken { at, epoch } => format!("taken {at} {epoch}\n"),
            Self::Pass(Pass { epoch, before, after }) => format!("pass {epoch} {before} {after}\n"),
            // A line is a line, whatever was said.
            Self::Said { at, what } => format!("said {at} {}\n", what.replace('\n', " ")),
        }
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is no number"))
}

impl Log {
    /// Every pass.
    pub fn passes(&self) -> impl DoubleEndedIterator<Item = Pass> {
        self.lines.iter().filter_map(|line| if let Line::Pass(pass) = line { Some(*pass) } else { None })
    }

    /// What it said first, since then, that contains this.
    #[must_use]
    pub fn said(&self, since: u64, words: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| match line {
            Line::Said { at, what } if *at >= since && what.contains(words) => Some(what.as_str()),
            _ => None,
        })
    }
}

/// From a take to the last pass that followed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Whose.
    pub holder: String,
    /// At this epoch.
    pub epoch: u64,
    /// Its first pass.
    pub first: Pass,
    /// Its last one.
    pub last: Pass,
}

/// What the logs of all holders of one lease show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Those in which the gate was passed, in the order of their first pass.
    pub tenures: Vec<Tenure>,
    /// How often it was.
    pub passes: u64,
    /// An earlier tenure's gate passed after a later one's had.
    pub overlaps: Vec<String>,
    /// Epochs that were issued twice, or did not rise.
    pub epochs: Vec<String>,
    /// Acts that began in time and ended under the next holder: the gate cannot know, the fence's matter.
    pub under_way: u64,
}

/// Sweep the logs of all holders of one lease.
#[must_use]
pub fn sweep(logs: &[Log]) -> Sweep {
    let mut found = Sweep::default();
    let mut issued = BTreeMap::<u64, &str>::new();
    for log in logs {
        let mut tenure: Option<Tenure> = None;
        for line in &log.lines {
            match line {
                Line::Taken { epoch, .. } => {
                    found.tenures.extend(tenure.take());
                    if let Some(other) = issued.insert(*epoch, &log.holder) {
                        found
                            .epochs
                            .push(format!("epoch {epoch} was issued to {other} and to {}", log.holder));
                    }
                }
                Line::Pass(pass) => {
                    found.passes += 1;
                    if issued.get(&pass.epoch) != Some(&log.holder.as_str()) {
                        let what =
                            format!("{} passed at epoch {}, which it did not take", log.holder, pass.epoch);
                        found.epochs.push(what);
                    }
                    let (holder, epoch) = (log.holder.clone(), pass.epoch);
                    tenure.get_or_insert(Tenure { holder, epoch, first: *pass, last: *pass }).last = *pass;
                }
                Line::Said { .. } => {}
            }
        }
        found.tenures.extend(tenure);
    }
    found.tenures.sort_by_key(|tenure| tenure.first.before);
    let mut highest: Option<&Tenure> = None;
    for (n, earlier) in found.tenures.iter().enumerate() {
        if let Some(highest) = highest.filter(|highest| highest.epoch >= earlier.epoch) {
            found.epochs.push(format!("{} is not above {}", shown(earlier), shown(highest)));
        }
        highest = highest.filter(|highest| highest.epoch > earlier.epoch).or(Some(earlier));
        for later in &found.tenures[n + 1..] {
            // Its gate was asked after the first time read, the later one's before the second.
            if earlier.last.before > later.first.after {
                let by = (earlier.last.before - later.first.after) / 1_000_000;
                found.overlaps.push(format!("{} passed {by} ms after {}", shown(earlier), shown(later)));
            } else if earlier.last.after > later.first.before {
                found.under_way += 1;
            }
        }
    }
    found
}

fn shown(tenure: &Tenure) -> String {
    format!("{} (epoch {}, first pass {})", tenure.holder, tenure.epoch, tenure.first.before)
}

/// One act that reached the receiving side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// Sent at this epoch.
    pub epoch: u64,
    /// Whether it was admitted.
    pub admitted: bool,
}

/// Of the acts in the order in which they were judged: how many stale ones were admitted, and how many refused.
#[must_use]
pub fn stale(acts: &[Act]) -> (u64, u64) {
    let (mut heard, mut admitted, mut refused) = (0, 0, 0);
    for act in acts {
        if act.epoch < heard {
            *(if act.admitted { &mut admitted } else { &mut refused }) += 1;
        } else if act.admitted {
            heard = act.epoch;
        }
    }
    (admitted, refused)
}
