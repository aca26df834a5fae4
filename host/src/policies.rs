//! Policies that come and go while the process runs: where they come from, who signed them, what each is asked
//! before it serves, and what is remembered of them.

mod cache;
mod event;
mod follow;
mod private;
pub mod publish;
mod refused;
mod registry;
mod shared;
mod signature;
pub mod source;
pub mod state;

pub use cache::Cache;
pub use event::Event;
pub use follow::Following;
pub use private::FolderError;
pub use refused::{Refused, Step};
pub use registry::{Checked, Offered, OnEvent, OpenError, Policies, PoliciesOptions, RollBackError, Status};
pub use signature::{NoKey, PublicKey, SignatureError};
