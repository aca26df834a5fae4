//! Policies that come and go while the process runs: where they come from, who signed them, and what is
//! remembered of them.

mod cache;
mod digest;
mod private;
mod signature;
mod state;

pub use cache::Cache;
pub use private::FolderError;
pub use signature::{NoKey, PublicKey, SignatureError};
pub use state::{Entry, Event, Known, Quarantined, Serving, State, StateDir, StateError, now};
