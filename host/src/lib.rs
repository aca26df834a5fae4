//! A lease for controllers that run on several machines: one instance acts, its epoch rises with every
//! holder, and its gate shuts by the clock before another could have taken over.

mod bindings;
pub mod chance;
pub mod clock;
pub mod digest;
pub mod fence;
pub mod floor;
mod gate;
pub mod guard;
pub mod holds;
pub mod imports;
pub mod lease;
mod lie;
pub mod limits;
pub mod policies;
pub mod policy;
mod rails;
pub mod simulate;
pub mod store;
pub mod workers;

/// The gate's atomics; under loom, loom's (`tests/schedules`).
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

pub use bindings::{
    About, Admitted, Attempt, Building, Certainty, Closed, HeldLease, Holder, Identity, Kept, LetThrough,
    Loss, Open, PolicyFault, ReleaseOutcome, Renewal, Report, Request, Setback, Sighting, Standing, Tenure,
    Terms, Trouble, Vacancy, Verdict, Waiting, Wall,
};
pub use lease::{Lease, LeaseOptions};
pub use policy::{Policy, Runtime};

/// The README's program, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
