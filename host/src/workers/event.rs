//! What happens to a worker, each in one plain line. What happens to its lease is told by the lease's events.

use std::fmt;
use std::time::Duration;

/// Something that happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It cannot stand for its lease for now; tried again. Said once until it can.
    NotStanding {
        /// Why.
        why: String,
    },
    /// It works now.
    Started {
        /// Under its lease at this epoch; `None` without election.
        epoch: Option<u64>,
    },
    /// It said that its work is finished, and does not work again.
    Finished,
    /// It failed, and works again.
    Failed {
        /// What it said, or how it panicked.
        why: String,
        /// How long it rests.
        again_in: Duration,
    },
    /// Its lease was lost while it worked; it has ended, and stands again.
    Lost,
    /// It is not well, or was asked to give way: it ends, gives its lease back, and stands again after the interval.
    SteppingDown {
        /// What it said, or who asked.
        why: String,
    },
    /// It was stopped, and has ended.
    Stopped,
    /// It did not end in time; its lease is left to expire.
    Abandoned {
        /// How long was waited.
        after: Duration,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStanding { why } => write!(f, "cannot stand, trying again: {why}"),
            Self::Started { epoch: Some(epoch) } => write!(f, "works at epoch {epoch}"),
            Self::Started { epoch: None } => f.write_str("works, without election"),
            Self::Finished => f.write_str("finished"),
            Self::Failed { why, again_in } => write!(f, "failed, again in {again_in:?}: {why}"),
            Self::Lost => f.write_str("ended because its lease was lost, stands again"),
            Self::SteppingDown { why } => write!(f, "steps down: {why}"),
            Self::Stopped => f.write_str("stopped"),
            Self::Abandoned { after } => {
                write!(f, "abandoned: it did not end within {after:?}, its lease is left to expire")
            }
        }
    }
}
