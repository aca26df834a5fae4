//! The decisions of a lease: pure functions of their arguments and of what the imports answer.
//!
//! No clock, no network, no memory between calls: the crate is `no_std`, and all that it can reach is
//! [`Imports`]. The same functions run in three places: natively in tests and models, as the
//! component that a host loads (`component.rs`, the only file that knows the generated types), and inside a
//! policy of one's own, which implements [`Decisions`] with one decision of its own and [`export!`]s it.

#![no_std]

extern crate alloc;

pub mod floor;
pub mod gate;
pub mod holds;
pub mod imports;
pub mod lease;
pub mod record;
pub mod terms;

mod asked;
#[cfg(feature = "built-in")]
mod built_in;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod decisions;

mod release;
mod renew;
mod step_down;
mod take;
mod view;

pub use decisions::Decisions;
pub use imports::Imports;
