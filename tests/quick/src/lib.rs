//! What is tried in seconds: the decision tables played natively, what holds of all values, a small model, and the gate
//! and the guard rails from the host's own sources. No runtime for components is built for it, so that each mutant of
//! what it tries can be tried (`cargo mutants`).

mod native;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use script::Script;
use table::Scene;

/// Have the policy's own functions decide a scene, which is given as it stands in a table: what was asked of the imports and
/// how it ended.
///
/// # Errors
/// The scene cannot be played: its command is not understood, or something else was asked than it answers.
pub fn play(given: &str) -> Result<String, String> {
    let scene = Scene::of_table(given).pop().ok_or("there is no scene")?;
    played(&scene)
}

fn played(scene: &Scene) -> Result<String, String> {
    let script = Script::new(&scene.answers);
    let outcome = native::decide(scene, &script)?;
    Ok(format!("{}{outcome}", script.end()?))
}

// Sources of the host, as they are, and below them the few types that they name.
#[path = "../../../host/src/policy/rehearsal/calls.rs"]
mod calls;
#[path = "../../../host/src/clock.rs"]
#[allow(dead_code, unreachable_pub, reason = "more than is used here")]
mod clock;
#[path = "../../../host/src/gate.rs"]
#[allow(dead_code, reason = "its own tests use it")]
mod gate;
#[path = "../../../host/src/lie.rs"]
#[allow(dead_code, unreachable_pub, reason = "more than is used here")]
mod lie;
#[path = "../../../host/src/policy/rehearsal/parse.rs"]
mod parse;
#[path = "../../../host/src/rails.rs"]
#[allow(dead_code, unreachable_pub, reason = "its own tests use it")]
mod rails;
#[path = "../../../host/src/policy/rehearsal/script.rs"]
#[allow(dead_code, unreachable_pub, reason = "more than is used here")]
mod script;
#[path = "../../../host/src/policy/rehearsal/table.rs"]
#[allow(dead_code, unreachable_pub, reason = "more than is used here")]
mod table;
#[path = "../../../host/src/policy/rehearsal/words.rs"]
mod words;

mod policy {
    pub(crate) mod rehearsal {
        pub(crate) use crate::{parse, table};
    }
}

mod imports {
    pub(crate) use incumbent_policy::imports::Role;

    /// As the host has it: the time since 1970.
    pub(crate) struct Ask {
        pub(crate) sequence: u64,
        pub(crate) stored: Option<std::time::Duration>,
        pub(crate) body: Vec<u8>,
    }
}

mod store {
    pub(crate) use incumbent_policy::imports::{Entry, Fault, Reading, Write};

    /// As the host has it.
    pub(crate) struct BucketInfo {
        pub(crate) created: u64,
        pub(crate) ttl: std::time::Duration,
        #[expect(dead_code, reason = "no policy is told")]
        pub(crate) markers: bool,
    }
}

/// The gate's atomics.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

/// The types of `words`.
mod types {
    pub(crate) use incumbent_policy::gate::{Closed, Open, Standing};
    pub(crate) use incumbent_policy::holds::{Admitted, Building, Kept, Report, Verdict};
    pub(crate) use incumbent_policy::imports::Fault as PolicyFault;
    pub(crate) use incumbent_policy::lease::{
        Attempt, Certainty, HeldLease, Holder, Identity, Loss, Release as ReleaseOutcome, Renewal, Request,
        Sighting, Tenure, Terms, Trouble, Vacancy,
    };
}
