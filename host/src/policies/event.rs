//! What happens to the versions of a policy, each in one plain line.

use std::fmt;

use crate::policies::Refused;

/// Something that happened to the versions of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Another version serves.
    Published {
        /// Its name and version.
        version: String,
        /// Its digest.
        digest: String,
        /// Whether it is on probation.
        on_probation: bool,
    },
    /// A version on probation is proven.
    Proven {
        /// Its name and version.
        version: String,
        /// Its digest.
        digest: String,
    },
    /// A version on probation failed and is in quarantine; the one before it serves.
    RolledBack {
        /// The name and version of the one that failed.
        version: String,
        /// Its digest.
        digest: String,
        /// What it did.
        why: String,
    },
    /// A version was refused; said once for the same bytes.
    Refused(Refused),
    /// A source of versions cannot be read; said once until it can.
    Unreadable {
        /// Which, and why.
        why: String,
    },
    /// What outlives the process cannot be written.
    Forgetful {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published { version, digest, on_probation } => {
                let probation = if *on_probation { ", on probation" } else { "" };
                write!(f, "policy {version} serves{probation} (sha256:{digest})")
            }
            Self::Proven { version, digest } => write!(f, "policy {version} is proven (sha256:{digest})"),
            Self::RolledBack { version, digest, why } => {
                write!(f, "policy {version} is rolled back and in quarantine (sha256:{digest}): {why}")
            }
            Self::Refused(refused) => write!(f, "policy {refused}"),
            Self::Unreadable { why } => write!(f, "no policy can be read: {why}"),
            Self::Forgetful { why } => write!(f, "the policy's state cannot be kept: {why}"),
        }
    }
}
