//! Where policies come from: a file, or an object in a NATS bucket. Each is looked at several times a second,
//! which takes no event that could be lost, and offers what it finds once for each change.

mod file;
mod nats;

use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::str::FromStr;

pub use file::FileSource;
pub use nats::NatsSource;

use crate::digest;
use crate::limits::COMPONENT_BYTES;
use crate::store::Fault;

/// Where an object's metadata has its signature: the contents of a `.minisig` file.
pub(super) const SIGNATURE: &str = "minisig";

/// A signature, bytes. A `.minisig` file has some 300, and a comment of its signer's.
pub const SIGNATURE_BYTES: usize = 4 << 10;

/// A policy that a source has. It is neither checked nor loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The component's bytes, at most [`COMPONENT_BYTES`].
    pub bytes: Vec<u8>,
    /// The contents of its `.minisig` file, where one came with it.
    pub signature: Option<String>,
    /// Where it comes from, for people.
    pub from: String,
}

/// Why a source has nothing to offer. It goes on looking.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is nothing. It is offered once it is there.
    #[error("there is no policy at {0}")]
    Missing(String),
    /// More bytes than a policy may have. They were not all read.
    #[error("what is at {0} has more than {COMPONENT_BYTES} bytes, which is no policy")]
    TooLarge(String),
    /// It is there and cannot be read.
    #[error("the policy at {from} cannot be read: {why}")]
    Unreadable {
        /// The source.
        from: String,
        /// What is wrong.
        why: String,
    },
    /// The store refused, or cannot be reached.
    #[error("the policy at {from} cannot be looked at: {fault}")]
    Store {
        /// The source.
        from: String,
        /// What it said.
        fault: Fault,
    },
}

/// A source by its name: `nats:BUCKET/NAME`, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; a signature stands beside it, as `<path>.minisig`.
    File(PathBuf),
    /// An object in a NATS bucket; its signature is in its metadata.
    Nats {
        /// The object bucket.
        bucket: String,
        /// The object.
        name: String,
    },
}

/// The name of no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no source of policies; give a file's path, or nats:BUCKET/NAME")]
pub struct NoSource(String);

impl Source {
    /// Reads `nats:BUCKET/NAME` or a path. A file of such a name is written `./nats:…`.
    ///
    /// # Errors
    /// [`NoSource`].
    pub fn parse(text: &str) -> Result<Self, NoSource> {
        let refused = || NoSource(text.chars().take(100).collect());
        let Some(place) = text.strip_prefix("nats:") else {
            return if text.is_empty() { Err(refused()) } else { Ok(Self::File(text.into())) };
        };
        let (bucket, name) = place.split_once('/').ok_or_else(refused)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if bucket.is_empty() || bucket.len() > 200 || !bucket.chars().all(allowed) || !check_name(name) {
            return Err(refused());
        }
        Ok(Self::Nats { bucket: bucket.into(), name: name.into() })
    }
}

impl FromStr for Source {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Self, NoSource> {
        Self::parse(text)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Nats { bucket, name } => write!(f, "nats:{bucket}/{name}"),
        }
    }
}

/// Whether an object that policies are published as may have this name. `@` is between a name and a version.
pub(super) fn check_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && name.len() <= 100 && name.chars().all(allowed)
}

/// Either source, looked at.
#[derive(Debug)]
pub enum Offers {
    /// A file.
    File(FileSource),
    /// An object.
    Nats(NatsSource),
}

impl Offers {
    /// The next offer: first what is there, then each change. Cancel-safe, but a look that is under way begins
    /// anew, so do not cancel it faster than a policy is read.
    ///
    /// # Errors
    /// [`SourceError`], each kind once until it is over. Ask again after one; it goes on looking.
    pub async fn next(&mut self) -> Result<Offer, SourceError> {
        match self {
            Self::File(file) => file.next().await,
            Self::Nats(nats) => nats.next().await,
        }
    }

    /// Offer what is there again, changed or not.
    pub fn reread(&mut self) {
        match self {
            Self::File(file) => file.reread(),
            Self::Nats(nats) => nats.reread(),
        }
    }
}

/// What a source said last, so that the same is said once.
#[derive(Debug, Default)]
struct Said {
    /// The digest of what was offered, and its signature.
    offered: Option<(String, Option<String>)>,
    /// The error, until it is over.
    error: Option<Kind>,
}

type Kind = (Discriminant<SourceError>, Option<Discriminant<Fault>>);

impl Said {
    /// What was read, unless it is what was offered last. An error is over.
    fn offer(&mut self, offer: Offer) -> Option<Offer> {
        self.well();
        let content = Some((digest::of(&offer.bytes), offer.signature.clone()));
        let new = self.offered != content;
        self.offered = content;
        new.then_some(offer)
    }

    /// The error, unless its kind was the last one told.
    fn error(&mut self, error: SourceError) -> Option<SourceError> {
        let fault = match &error {
            SourceError::Store { fault, .. } => Some(discriminant(fault)),
            _ => None,
        };
        let kind = Some((discriminant(&error), fault));
        let new = self.error != kind;
        self.error = kind;
        new.then_some(error)
    }

    /// An error is over.
    fn well(&mut self) {
        self.error = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
    use super::*;

    #[test]
    fn a_source_is_a_path_or_an_object() {
        let object = Source::parse("nats:policies/team/lease.wasm").unwrap();
        let (bucket, name) = ("policies".into(), "team/lease.wasm".into());
        assert_eq!(object, Source::Nats { bucket, name });
        assert_eq!(object.to_string(), "nats:policies/team/lease.wasm");
        for path in ["policy.wasm", "/etc/policy.wasm", "./nats:policies/lease"] {
            assert_eq!(Source::parse(path).unwrap(), Source::File(path.into()));
            assert_eq!(Source::parse(path).unwrap().to_string(), path);
        }
    }

    #[test]
    fn what_names_neither_is_refused() {
        let long = format!("nats:policies/{}", "a".repeat(101));
        for text in ["", "nats:", "nats:policies", "nats:policies/", "nats:/lease", "nats:a.b/lease", &long] {
            assert!(Source::parse(text).is_err(), "{text}");
        }
        // Another policy's version, a subject's wildcard, and what looks like a server.
        for text in ["nats:policies/lease@12", "nats:policies/le*se", "nats://localhost:4222/lease"] {
            assert!(Source::parse(text).is_err(), "{text}");
        }
    }
}
