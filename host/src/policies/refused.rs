//! Why a version that was offered does not serve.

use std::fmt;

use crate::policies::SignatureError;
use crate::policy::LoadError;
use crate::policy::rehearsal::RehearsalError;

/// The steps from bytes to a version that serves, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Reading it, no more than a policy may have.
    Read,
    /// Its digest, which must not be in quarantine.
    Digest,
    /// Its signature, where a key is configured.
    Signature,
    /// Parsing and compiling.
    Compile,
    /// Linking against our world and nothing else.
    Link,
    /// Who it says it is.
    Describe,
    /// The rehearsal.
    Rehearse,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Digest => "digest",
            Self::Signature => "signature",
            Self::Compile => "compile",
            Self::Link => "link",
            Self::Describe => "describe",
            Self::Rehearse => "rehearse",
        })
    }
}

/// A version that was refused, at which step and why. Whatever served before serves on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} is refused: {step}: {why}")]
pub struct Refused {
    /// Where it came from.
    pub from: String,
    /// Its digest; empty when it was not even read whole.
    pub digest: String,
    /// At which step.
    pub step: Step,
    /// Why, for people.
    pub why: String,
}

impl Refused {
    pub(super) fn new(from: &str, digest: &str, step: Step, why: impl fmt::Display) -> Self {
        Self { from: from.into(), digest: digest.into(), step, why: why.to_string() }
    }

    pub(super) fn load(from: &str, digest: &str, why: &LoadError) -> Self {
        let step = match why {
            LoadError::TooLarge(_) => Step::Read,
            LoadError::NotAComponent(_) | LoadError::Broken(_) => Step::Compile,
            LoadError::OtherContract(_) | LoadError::NotYetOffered { .. } | LoadError::OtherWorld(_) => {
                Step::Link
            }
            LoadError::Undescribed(_) => Step::Describe,
        };
        Self::new(from, digest, step, why)
    }

    pub(super) fn signature(from: &str, digest: &str, why: &SignatureError) -> Self {
        Self::new(from, digest, Step::Signature, why)
    }

    pub(super) fn rehearsal(from: &str, digest: &str, why: &RehearsalError) -> Self {
        Self::new(from, digest, Step::Rehearse, why)
    }
}
