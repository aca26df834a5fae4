//! What happened, for whoever watches a builder or a delivery.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Checks wait for these plans now.
    Held {
        /// The plans that build.
        plans: Vec<String>,
    },
    /// Checks are taken as usual again.
    Free,
    /// Something cannot be read or written. It is said once, and again when it recovered and failed anew.
    Trouble {
        /// What it is about, and what is done without it.
        about: String,
        /// What went wrong.
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { plans } => {
                let verb = if plans.len() == 1 { "builds" } else { "build" };
                write!(f, "checks wait: {} {verb}", plans.join(", "))
            }
            Self::Free => f.write_str("checks are taken as usual"),
            Self::Trouble { about, why } => write!(f, "{about}: {why}"),
        }
    }
}

/// Who is told.
pub(super) type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// Says each trouble once for as long as it lasts.
pub(super) struct SayOnce {
    on_event: OnEvent,
    lasting: Mutex<BTreeSet<String>>,
}

impl SayOnce {
    pub(super) fn new(on_event: OnEvent) -> Self {
        Self { on_event, lasting: Mutex::default() }
    }

    /// The value, if there is one; the trouble is said if it is new. A value ends it.
    pub(super) fn value<T, E: fmt::Display>(&self, about: &str, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => {
                self.lasting().remove(about);
                Some(value)
            }
            Err(why) => {
                let is_new = self.lasting().insert(about.into());
                if is_new {
                    (self.on_event)(&Event::Trouble { about: about.into(), why: why.to_string() });
                }
                None
            }
        }
    }

    fn lasting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
