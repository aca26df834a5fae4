//! The content of `state.json`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Policies in quarantine.
const QUARANTINED: usize = 200;

/// Entries of the history.
const HISTORY: usize = 200;

/// Proven policies before the last one.
const PREVIOUS: usize = 3;

/// A reason, characters. A compiler's complaint can be long.
const WHY_CHARS: usize = 500;

/// Any other text, characters: as long as a policy's name may be.
const TEXT_CHARS: usize = 100;

/// What outlives the process. Digests are SHA-256, hexadecimal; times are RFC 3339, as
/// [`now`](super::now) gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(super) layout: u32,
    /// The last policy that was proven.
    #[serde(default)]
    pub proven: Option<Known>,
    /// Those proven before it, the latest first. Kept by itself whenever `proven` changes.
    #[serde(default)]
    previous: VecDeque<Known>,
    /// The policy that serves, or did when the process ended.
    #[serde(default)]
    pub serving: Option<Serving>,
    /// Policies that are never served again, the oldest first. At most 200; the oldest go.
    #[serde(default)]
    pub quarantined: Vec<Quarantined>,
    /// What happened, the oldest first. At most 200; the oldest go.
    #[serde(default)]
    pub history: Vec<Entry>,
}

/// A policy, by its bytes and by what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The SHA-256 of its bytes.
    pub digest: String,
    /// As it says.
    pub name: String,
    /// As it says.
    pub version: String,
}

/// The policy that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The SHA-256 of its bytes.
    pub digest: String,
    /// As it says.
    pub name: String,
    /// As it says.
    pub version: String,
    /// When it began to.
    pub since: String,
    /// Whether it is not yet proven.
    pub on_probation: bool,
}

/// A policy that is never served again, until an operator clears it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The SHA-256 of its bytes.
    pub digest: String,
    /// As it said.
    pub name: String,
    /// As it said.
    pub version: String,
    /// What it did.
    pub why: String,
    /// When.
    pub when: String,
}

/// Something that happened to a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub when: String,
    /// What.
    pub what: Event,
    /// The SHA-256 of its bytes.
    pub digest: String,
    /// As it says; empty when it never could.
    pub name: String,
    /// As it says; empty when it never could.
    pub version: String,
    /// The reason; empty where there is none to give.
    pub why: String,
}

/// What can happen to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// It serves from now on, on probation.
    Published,
    /// It went through its probation.
    Proven,
    /// It served, and the one before it serves again.
    RolledBack,
    /// It never came to serve.
    Refused,
    /// An operator took it out of quarantine.
    QuarantineCleared,
}

impl State {
    /// The policies proven before [`proven`](Self::proven), the latest first, at most three.
    pub fn previous(&self) -> impl Iterator<Item = &Known> {
        self.previous.iter()
    }

    /// Why this policy is never served again, if so.
    #[must_use]
    pub fn quarantine_of(&self, digest: &str) -> Option<&Quarantined> {
        self.quarantined.iter().rev().find(|one| one.digest == digest)
    }

    /// The digests whose bytes stay.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        let proven = self.proven.iter().chain(&self.previous).map(|known| known.digest.as_str());
        proven.chain(self.serving.iter().map(|serving| serving.digest.as_str()))
    }

    /// What was proven until this change goes to the previous ones.
    pub(super) fn remember_proven(&mut self, until_now: Option<Known>) {
        let is_now = self.proven.as_ref().map(|known| known.digest.clone());
        if let Some(known) = until_now.filter(|known| is_now.as_ref() != Some(&known.digest)) {
            self.previous.push_front(known);
        }
        let mut seen: Vec<String> = is_now.into_iter().collect();
        self.previous.retain(|known| {
            let new = !seen.contains(&known.digest);
            seen.push(known.digest.clone());
            new
        });
        self.previous.truncate(PREVIOUS);
    }

    /// Cuts what is over the bounds: lists from their old end, texts from their end.
    pub(super) fn bound(&mut self) {
        self.quarantined.drain(..self.quarantined.len().saturating_sub(QUARANTINED));
        self.history.drain(..self.history.len().saturating_sub(HISTORY));
        for one in self.proven.iter_mut().chain(&mut self.previous) {
            cut(TEXT_CHARS, [&mut one.digest, &mut one.name, &mut one.version]);
        }
        if let Some(one) = &mut self.serving {
            cut(TEXT_CHARS, [&mut one.digest, &mut one.name, &mut one.version, &mut one.since]);
        }
        for one in &mut self.quarantined {
            cut(TEXT_CHARS, [&mut one.digest, &mut one.name, &mut one.version, &mut one.when]);
            cut(WHY_CHARS, [&mut one.why]);
        }
        for one in &mut self.history {
            cut(TEXT_CHARS, [&mut one.digest, &mut one.name, &mut one.version, &mut one.when]);
            cut(WHY_CHARS, [&mut one.why]);
        }
    }
}

fn cut<const N: usize>(chars: usize, texts: [&mut String; N]) {
    for text in texts {
        if let Some((end, _)) = text.char_indices().nth(chars) {
            text.truncate(end);
        }
    }
}
