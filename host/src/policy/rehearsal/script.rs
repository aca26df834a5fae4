//! Imports that answer from a script, and write down what they were asked: the ground of the decision tables.
//!
//! A script is a list of lines. `now +2s` and `now 100s` move the clock, which otherwise stands still: they
//! take effect as soon as the answer before them was given. Each other line is one import's answer, and
//! they are given in order. An answer of another kind than was asked for, a missing one and one left over
//! break the script, and so does asking without end. One that broke answers no more.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Steady};
use crate::policy::rehearsal::parse::{time, time_text};
use crate::policy::rehearsal::table::Line;
use crate::store::Fault;

/// When a script begins unless it says otherwise.
const BEGINNING: Steady = Steady(100_000_000_000);

/// What is written down of one run, bytes. The longest one in a table is below 1 KB.
const TRANSCRIPT_BYTES: usize = 256 << 10;

/// One run of a script. Clones share it.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) clock: Clock,
    state: Arc<Mutex<State>>,
    broke: Arc<Notify>,
    pub(super) logs: bool,
}

#[derive(Debug, Default)]
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
        let script = Self {
            clock: Clock::by_hand(BEGINNING),
            state: Arc::new(Mutex::new(state)),
            broke: Arc::new(Notify::new()),
            logs: true,
        };
        script.move_clock(&mut script.state());
        script
    }

    /// The same, which writes no log down.
    #[must_use]
    pub fn without_logs(self) -> Self {
        Self { logs: false, ..self }
    }

    /// What was asked so far, one line a call.
    #[must_use]
    pub fn calls(&self) -> String {
        self.state().transcript.clone()
    }

    /// Waits until the script breaks, and says why.
    pub async fn broken(&self) -> String {
        loop {
            let broke = self.broke.notified();
            if let Some(why) = &self.state().broken {
                return why.clone();
            }
            broke.await;
        }
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

    /// Writes down a call that needs no answer.
    pub(super) fn note(&self, call: &str) {
        let now = time_text(self.clock.now().0);
        let mut state = self.state();
        if state.transcript.len() + call.len() > TRANSCRIPT_BYTES {
            self.breaks(&mut state, format!("it asked for more than {TRANSCRIPT_BYTES} bytes tell"));
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(state.transcript, "{now} {call}");
    }

    /// Writes down a call and gives the next answer, which must begin with this word. None is given once the
    /// script broke, so that nothing is decided, nor asked without end.
    pub(super) async fn answer<T>(
        &self,
        call: &str,
        word: &str,
        parse: impl FnOnce(&str) -> Result<Result<T, Fault>, String> + Send,
    ) -> Result<T, Fault> {
        self.note(call);
        match self.next(call, word, parse) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn next<T>(
        &self,
        call: &str,
        word: &str,
        parse: impl FnOnce(&str) -> Result<Result<T, Fault>, String>,
    ) -> Option<Result<T, Fault>> {
        let mut state = self.state();
        if state.broken.is_some() {
            return None;
        }
        let said = match state.ahead.pop_front() {
            None => Err(format!("{call:?} was asked, and the script has no answer left")),
            Some(line) => match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                (kind, rest) if kind == word => parse(rest.trim()),
                _ => Err(format!("{call:?} was asked, which {:?} does not answer", line.text)),
            }
            .map_err(|why| format!("line {}: {why}", line.number)),
        };
        match said {
            Ok(answer) => {
                self.move_clock(&mut state);
                Some(answer)
            }
            Err(why) => {
                self.breaks(&mut state, why);
                None
            }
        }
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
                Err(why) => self.breaks(state, format!("line {}: {why}", line.number)),
            }
        }
    }

    /// The first thing that broke is the one that is told.
    fn breaks(&self, state: &mut State, why: String) {
        state.broken.get_or_insert(why);
        self.broke.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
