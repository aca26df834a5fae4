//! The lease, the check holds and the workers from the host's own sources, and their tests as they are, on decisions made
//! in this process. No runtime for components is built for it, so that each mutant of them can be tried (`cargo mutants`).

// What the tests and the sources name.
extern crate self as incumbent;
extern crate self as incumbent_native;
extern crate self as incumbent_tests;

mod bindings;
#[path = "../../native/src/lib.rs"]
mod natively;
pub mod policy;

/// Sources of the host. A module of a folder, so that modules of theirs are found where they are.
#[path = "../../../host/src"]
#[allow(dead_code, missing_docs, unreachable_pub, unused_imports, reason = "more than is used here")]
mod host {
    pub mod chance;
    pub mod clock;
    pub mod digest;
    pub mod fence;
    pub mod floor;
    pub mod gate;
    pub mod holds;
    pub mod imports;
    pub mod lease;
    pub mod lie;
    pub mod limits;
    pub mod rails;
    pub mod store;
    pub mod workers;

    /// The gate's atomics.
    mod sync {
        pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
    }
}

pub use bindings::*;
pub use host::*;
pub use lease::{Lease, LeaseOptions};
pub use natively::*;
pub use policy::{Policy, Runtime};

/// What tests stand on.
#[path = "../../support"]
#[allow(dead_code, reason = "more than is used here")]
mod support {
    pub mod crew;
    pub mod faulty;
    pub mod site;
    pub mod world;
}
pub use support::*;

#[cfg(test)]
#[path = "../.."]
mod tests {
    mod holds_input;
    mod holds_keep;
    mod holds_let_through;
    mod holds_plans;
    mod holds_taking;
    mod holds_trouble;
    mod lease_answers;
    mod lease_fence;
    mod lease_floor;
    mod lease_input;
    mod lease_keep;
    mod lease_line;
    mod lease_lost_answers;
    mod lease_moving;
    mod lease_operator;
    mod lease_release;
    mod lease_take;
    mod lease_vacancy;
    mod lease_words;
    mod workers;
    mod workers_shutdown;
    mod workers_told;
}
