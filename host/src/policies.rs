//! Policies that come and go while the process runs: where they come from, who signed them, and what is
//! remembered of them.

mod cache;
mod digest;
mod private;
mod publish;
mod signature;
mod source;
mod state;

pub use cache::Cache;
pub use private::FolderError;
pub use publish::{PublishError, Published, Version, create_bucket, history, publish, republish};
pub use signature::{NoKey, PublicKey, SignatureError};
pub use source::{FileSource, NatsSource, NoSource, Offer, Offers, Source, SourceError};
pub use state::{Entry, Event, Known, Quarantined, Serving, State, StateDir, StateError, now};
