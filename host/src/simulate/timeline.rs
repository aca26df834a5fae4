//! What happened, for people to read: who held when, and what came before the first thing that must not happen.

use std::fmt;
use std::time::Duration;

use super::{Hold, Note, Run};

/// Notes shown before the finding.
const NOTES: usize = 60;
/// Holds shown, the last ones.
const HOLDS: usize = 20;

/// A run as lines of text.
pub struct Timeline<'a>(pub &'a Run);

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.0;
        let weather = &run.weather;
        writeln!(
            f,
            "{} instances, ttl {:?}, an absence is {}, clocks gain {:?} in a million, up to {:?} to the store",
            weather.instances,
            weather.ttl,
            format!("{:?}", weather.vacancy).trim_start_matches("Vacancy::").to_lowercase(),
            weather.gains,
            weather.latency
        )?;
        let end = run.findings.first().map_or(run.simulated, |found| found.at);
        writeln!(f, "\nwho held when:")?;
        let begun: Vec<&Hold> = run.holds.iter().filter(|hold| hold.from <= end).collect();
        for hold in begun.iter().skip(begun.len().saturating_sub(HOLDS)) {
            match &hold.ended {
                Some((at, how)) => {
                    writeln!(f, "  {} – {}  {}", span(hold.from), span(*at), Holder(hold, how))?;
                }
                None => writeln!(f, "  {} –              {}", span(hold.from), Holder(hold, ""))?,
            }
        }
        writeln!(f, "\nwhat happened:")?;
        let before: Vec<&Note> = run.notes.iter().filter(|note| note.at <= end).collect();
        for note in before.iter().skip(before.len().saturating_sub(NOTES)) {
            let who = note.instance.map_or_else(|| "store".into(), |who| format!("instance {who}"));
            writeln!(f, "  {}  {who:<10}  {}", span(note.at), note.text)?;
        }
        for found in &run.findings {
            writeln!(f, "  {}  BROKEN      {}", span(found.at), found.what)?;
        }
        Ok(())
    }
}

struct Holder<'a>(&'a Hold, &'a str);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instance {} at epoch {}", self.0.instance, self.0.epoch)?;
        if self.1.is_empty() { Ok(()) } else { write!(f, ": {}", self.1) }
    }
}

fn span(at: Duration) -> String {
    format!("{:>10.3} s", at.as_secs_f64())
}
