//! The rehearsal: before a candidate decides anything, it plays the built-in decision tables against a mocked host.
//!
//! Each scene calls one export; what the policy asks of its imports is answered from the scene's script, and what it
//! asked and decided is compared with the table. The rule for another policy than the built-in one:
//!
//! * **Calls are exact**, in their order and with equal bytes: the reads, because a decision rests on what was read
//!   before; the writes, because other programs read these keys. A record is the same JSON to the byte, members in
//!   the tables' order, without spaces. Reading the clock is free.
//! * **Decisions are exact**, save the texts for people: why something failed, and a fault's words (not its case).
//! * **The log is free**, and what `describe` says.
//! * **Stricter is allowed** in two places: `renew` may say `lost` where the table says failed or refused, and may stop
//!   asking on the way there; `pass` may refuse where the table says open.
//!
//! Passing proves that a policy knows the cases; it is no defence against one that only pretends to. The guard
//! rails are, and the sandbox.

mod calls;
mod component;
mod parse;
mod script;
mod table;

use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::policy::{Misdeed, Policy};

#[doc(hidden)]
pub use component::Undecided;
#[doc(hidden)]
pub use script::Script;
#[doc(hidden)]
pub use table::{Line, Scene, TABLES};

/// What is told of one text, bytes. What a scene expects is below 1 KB.
const TOLD_BYTES: usize = 2 << 10;

/// What a policy that passed has played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many scenes.
    pub scenes: usize,
}

/// Why a policy did not pass. One scene is enough. Texts are cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// It decided, or asked, otherwise than the table says.
    #[error("{place}\nexpected:\n{expected}\ncame:\n{came}")]
    Differs {
        /// Where.
        place: Place,
        /// The calls and the decision of the table.
        expected: String,
        /// Those of the policy.
        came: String,
    },
    /// It trapped, did not end, wanted too much memory, or answered what is no answer.
    #[error("{place}\n{what}")]
    Failed {
        /// Where.
        place: Place,
        /// What it did.
        what: Misdeed,
    },
    /// The time was over before all scenes were played.
    #[error("the rehearsal was not over after {0:?}")]
    OutOfTime(Duration),
    /// A scene cannot be played, or the host gave up: a fault of this build.
    #[error("the rehearsal cannot be held: {0}")]
    Unplayable(String),
}

/// A scene's place in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The table.
    pub table: &'static str,
    /// The line of its command, from 1.
    pub line: usize,
    /// Its comment: what it shows.
    pub shown: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { table, line, shown } = self;
        write!(f, "in the scene at {table}.txt:{line} ({shown})")
    }
}

/// Have a policy play every scene of the built-in tables, within this time.
///
/// It plays off the async threads, so that a candidate that computes for long holds nobody up. When this future is
/// dropped, the rehearsal ends with the scene that is under way. A call that does not end is stopped as any call
/// is, so in the background it may go on for up to [`COMPUTING`](crate::limits::COMPUTING) more.
///
/// # Errors
/// [`RehearsalError`]: the first scene that it does not pass.
pub async fn rehearse(policy: &Policy, limit: Duration) -> Result<Report, RehearsalError> {
    let over = CancellationToken::new();
    let _over_when_dropped = over.clone().drop_guard();
    let (policy, here) = (policy.clone(), Handle::current());
    let played = tokio::task::spawn_blocking(move || {
        here.block_on(async move {
            tokio::select! {
                biased;
                () = over.cancelled() => Err(RehearsalError::OutOfTime(limit)),
                played = play(&policy) => played,
            }
        })
    });
    match tokio::time::timeout(limit, played).await {
        Ok(Ok(played)) => played,
        Ok(Err(why)) => Err(RehearsalError::Unplayable(cut(&why.to_string()))),
        Err(_) => Err(RehearsalError::OutOfTime(limit)),
    }
}

async fn play(policy: &Policy) -> Result<Report, RehearsalError> {
    let mut scenes = 0;
    for (table, text) in TABLES {
        for scene in Scene::of_table(text) {
            perform(policy, table, &scene).await?;
            scenes += 1;
            // Between two scenes one looks whether the time is over.
            tokio::task::yield_now().await;
        }
    }
    Ok(Report { scenes })
}

async fn perform(policy: &Policy, table: &'static str, scene: &Scene) -> Result<(), RehearsalError> {
    let script = Script::new(&scene.answers).without_logs();
    let decided = scene.decide(policy, &script).await;
    let place = || Place { table, line: scene.command.number, shown: cut(&scene.shown()) };
    let (calls, outcome) = (
        script.calls(),
        match decided {
            Ok(outcome) => outcome,
            Err(Undecided::Script(why)) => why,
            Err(Undecided::Policy(failed)) => {
                return Err(RehearsalError::Failed { place: place(), what: told(failed.what) });
            }
            Err(Undecided::Command(why)) => {
                return Err(RehearsalError::Unplayable(format!("{}: {}", place(), cut(&why))));
            }
        },
    );
    let expected = scene.expected();
    if passes(scene.command().0, (&expected.0, &expected.1), (&calls, &outcome)) {
        return Ok(());
    }
    let whole = |calls: &str, outcome: &str| cut(&format!("{calls}{outcome}"));
    Err(RehearsalError::Differs {
        place: place(),
        expected: whole(&expected.0, &expected.1),
        came: whole(&calls, &outcome),
    })
}

/// Whether calls and outcome are those of the table, or stricter ones.
fn passes(command: &str, expected: (&str, &str), came: (&str, &str)) -> bool {
    let said =
        |(_, outcome): (&str, &str), words: &[&str]| words.iter().any(|word| outcome.starts_with(word));
    let lost_at_once = command == "renew"
        && said(expected, &["failed: ", "refused: "])
        && said(came, &["lost: ", "lost to: ", "lost, "])
        && expected.0.starts_with(came.0);
    let shut =
        command == "pass" && said(expected, &["open: "]) && said(came, &["shut: "]) && expected.0 == came.0;
    let exact = expected.0 == came.0 && for_programs(expected.1).eq(for_programs(came.1));
    exact || lost_at_once || shut
}

/// An outcome line by line, without what stands in quotes at its end, which is for people.
fn for_programs(outcome: &str) -> impl Iterator<Item = &str> {
    outcome.lines().map(|line| line.split_once('"').map_or(line, |(words, _)| words))
}

fn told(what: Misdeed) -> Misdeed {
    match what {
        Misdeed::Trapped(words) => Misdeed::Trapped(cut(&words)),
        Misdeed::Broke(words) => Misdeed::Broke(cut(&words)),
        Misdeed::Overstepped(words) => Misdeed::Overstepped(cut(&words)),
        Misdeed::Overran | Misdeed::OutOfMemory | Misdeed::Lied(_) => what,
    }
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TOLD_BYTES);
    let more = if end < text.len() { " …" } else { "" };
    format!("{}{more}", &text[..end])
}
