//! Imports that answer from a script, and write down what they were asked: the ground of the decision tables.
//!
//! A script is a list of lines. `now +2s` and `now 100s` move the clock, which otherwise stands still: they
//! take effect as soon as the answer before them was given. Each other line is one import's answer, and
//! they are given in order. An answer of another kind than was asked for, a missing one and one left over
//! break the script.

mod calls;
mod component;
mod native;
mod parse;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use incumbent::clock::{Clock, Steady};
use incumbent::store::Fault;

pub use component::decide as decide_through_the_component;
pub use native::decide as decide_natively;
pub use parse::{Args, time, time_text};

/// When a script begins unless it says otherwise.
const BEGINNING: Steady = Steady(100_000_000_000);

/// A line of a table, with its number in the file.
#[derive(Clone, Debug)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// What it says.
    pub text: String,
}

/// One run of a script. Clones share it.
#[derive(Clone)]
pub struct Script {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ahead: VecDeque<Line>,
    transcript: String,
    broken: Option<String>,
}

impl Script {
    /// A run of these lines.
    #[must_use]
    pub fn new(lines: &[Line]) -> Self {
        let state = State { ahead: lines.to_vec().into(), ..State::default() };
        let script = Self { clock: Clock::by_hand(BEGINNING), state: Arc::new(Mutex::new(state)) };
        script.move_clock(&mut script.state());
        script
    }

    /// What was asked, one line a call.
    ///
    /// # Errors
    /// The script broke, or answers are left over.
    pub fn end(self) -> Result<String, String> {
        let mut state = self.state();
        if let Some(broken) = state.broken.take() {
            return Err(broken);
        }
        if let Some(line) = state.ahead.front() {
            return Err(format!("line {}: nothing asked for the answer {:?}", line.number, line.text));
        }
        Ok(std::mem::take(&mut state.transcript))
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Writes down a call that needs no answer.
    fn note(&self, call: &str) {
        let now = time_text(self.clock.now().0);
        // Writing to a string cannot fail.
        let _ = writeln!(self.state().transcript, "{now} {call}");
    }

    /// Writes down a call and gives the next answer, which must begin with this word.
    fn answer<T>(
        &self,
        call: &str,
        word: &str,
        parse: impl FnOnce(&str) -> Result<Result<T, Fault>, String>,
    ) -> Result<T, Fault> {
        self.note(call);
        let mut state = self.state();
        let Some(line) = state.ahead.pop_front() else {
            return Err(broken(&mut state, format!("{call:?} was asked, and the script has no answer left")));
        };
        let said = match line.text.split_once(' ').unwrap_or((&line.text, "")) {
            (kind, rest) if kind == word => parse(rest.trim()),
            _ => Err(format!("{call:?} was asked, which {:?} does not answer", line.text)),
        };
        let answer = said.unwrap_or_else(|why| {
            let why = format!("line {}: {why}", line.number);
            Err(broken(&mut state, why))
        });
        self.move_clock(&mut state);
        answer
    }

    fn move_clock(&self, state: &mut State) {
        while let Some(line) = state.ahead.pop_front_if(|line| line.text.starts_with("now ")) {
            let text = line.text.trim_start_matches("now ").trim();
            let now = self.clock.now().0;
            let by = match text.strip_prefix('+') {
                Some(by) => time(by),
                None => time(text)
                    .and_then(|at| at.checked_sub(now).ok_or_else(|| "the clock does not go back".into())),
            };
            match by {
                Ok(by) => self.clock.advance(Duration::from_nanos(by)),
                Err(why) => {
                    broken(state, format!("line {}: {why}", line.number));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first thing that broke is the one that is told. The decision goes on with a fault, so that it ends.
fn broken(state: &mut State, why: String) -> Fault {
    state.broken.get_or_insert(why);
    Fault::Unavailable("the script is broken".into())
}
