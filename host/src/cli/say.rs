//! What is said: answers on standard output, all else on standard error; as text, or with `--json` as JSON, a line each.

mod events;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use super::exit::Exit;

pub(crate) use events::{event, holds, job, policies};

/// Whether `--json` was given: what all of a process says is of one kind.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// How all is said from here on, and from which level on what the libraries log is.
pub(crate) fn begin(as_json: bool, level: LevelFilter) {
    AS_JSON.store(as_json, Ordering::Relaxed);
    let is_watched =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(is_watched)
        // Which are that nobody reads standard error any more: it would panic.
        .log_internal_errors(false)
        .without_time();
    // Set once, first thing: it cannot have been set before.
    let _ = if as_json { log.json().flatten_event(true).try_init() } else { log.try_init() };
}

fn as_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// The answer cannot be written to standard output. Whoever read it may have seen enough.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be written to standard output: {0}")]
pub(crate) struct NotSaid(#[from] io::Error);

impl NotSaid {
    /// Whether nobody reads any more, as `head` when it has what it wants.
    pub(crate) fn is_unread(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// The answer, on standard output; nothing where the text is empty.
pub(crate) fn answer(text: &str, json: &Value) -> Result<(), NotSaid> {
    let mut out = io::stdout().lock();
    if as_json() {
        writeln!(out, "{json}")?;
    } else if !text.is_empty() {
        writeln!(out, "{}", plain(text))?;
    }
    Ok(out.flush()?)
}

/// What went wrong.
pub(crate) fn error(why: &str) {
    tell(why, || json!({ "error": why }));
}

/// An error and what caused it, each said once: some say their cause themselves.
pub(crate) fn chain(why: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in why.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What went wrong, last thing.
pub(crate) fn failed(why: &str, exit: Exit) {
    tell(why, || json!({ "error": why, "code": exit as u8 }));
}

/// Something that is no error.
pub(crate) fn note(text: &str) {
    tell(text, || json!({ "message": text }));
}

/// One line on standard error. Whoever read it may be gone, which is no reason to stop: what goes on here keeps a lease.
fn tell(text: &str, json: impl FnOnce() -> Value) {
    let line = if as_json() { format!("{}\n", json()) } else { format!("incumbent: {}\n", plain(text)) };
    // At once: the command writes there too.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Without what a terminal would obey: names come from others.
fn plain(text: &str) -> Cow<'_, str> {
    let is_bad = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if !text.contains(is_bad) {
        return text.into();
    }
    let escaped =
        |letter: char| if is_bad(letter) { letter.escape_default().to_string() } else { letter.into() };
    text.chars().map(escaped).collect::<String>().into()
}

/// A name on one line, for people.
pub(crate) fn name(name: &str) -> String {
    plain(&name.replace('\n', "\\n").replace('\t', "\\t")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let unsaid = anyhow::Error::from(NotSaid(io::Error::other("full"))).context("the list");
        assert_eq!(chain(&unsaid), "the list: the answer cannot be written to standard output: full");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_done() {
        assert_eq!(plain("héron 👑\tat epoch 1\nnext"), "héron 👑\tat epoch 1\nnext");
        assert_eq!(plain("\u{1b}[2J\u{9b}\r\u{7f}"), "\\u{1b}[2J\\u{9b}\\r\\u{7f}");
        assert_eq!(name("alice\nbob holds it"), "alice\\nbob holds it");
    }
}
