//! Putting a policy where running processes take it from: an object in a NATS bucket, with its signature in
//! the object's metadata, so that both change at once.
//!
//! A copy of each version is kept beside it as the object `NAME@<digest>`, for going back.

use std::collections::HashMap;

use super::source::{SIGNATURE, SIGNATURE_BYTES, check_name};
use crate::digest;
use crate::limits::COMPONENT_BYTES;
use crate::store::Fault;
use crate::store::nats::{Content, Nats, Object, Objects, Put};

/// Versions kept, the current one among them.
const VERSIONS: usize = 10;

/// Tries to write a copy of a version while others write the same one.
const TRIES: usize = 3;

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The SHA-256 of its bytes, hexadecimal.
    pub digest: String,
    /// Whether it stood there already, with this signature, so that nothing was done.
    pub unchanged: bool,
}

/// A version that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The SHA-256 of its bytes, hexadecimal.
    pub digest: String,
    /// Its size, bytes.
    pub size: usize,
    /// When it was published last, RFC 3339, by the publisher's clock; empty where another program did not say.
    pub published: String,
    /// Whether a signature came with it.
    pub signed: bool,
    /// Whether it is the one that stands there now.
    pub current: bool,
}

/// Why nothing was published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// More bytes than any process would load.
    #[error("the policy has {0} bytes; a policy has at most {COMPONENT_BYTES}")]
    TooLarge(usize),
    /// A signature larger than any is.
    #[error("the signature has {0} bytes; a .minisig file has at most {SIGNATURE_BYTES}")]
    SignatureTooLarge(usize),
    /// The name of no object.
    #[error("{0:?} does not fit as a policy's name; use 1 to 100 of the characters a-z A-Z 0-9 . _ - /")]
    Name(String),
    /// Somebody else published at the same time. Remedy: look, and publish again if it still should be.
    #[error("somebody else published {0} at the same time; look which version it should be, and try again")]
    Raced(String),
    /// No such version is kept. Remedy: one of the history.
    #[error("no version {digest} of {name} is kept; incumbent policy history shows those that are")]
    NoVersion {
        /// The policy's name.
        name: String,
        /// What was asked for.
        digest: String,
    },
    /// The version that is kept cannot be used.
    #[error("the version {digest} of {name} is damaged: {why}")]
    Damaged {
        /// The policy's name.
        name: String,
        /// What was asked for.
        digest: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store refused, or cannot be reached.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Make the bucket that policies are published to, on as many servers. One that is there is left as it is.
///
/// # Errors
/// What the store said.
pub async fn create_bucket(nats: &Nats, bucket: &str, replicas: usize) -> Result<(), Fault> {
    nats.objects(bucket)?.create(replicas).await
}

/// Publish a policy as `name`: whoever follows that name is offered it within a second. The bucket must be there.
///
/// # Errors
/// [`PublishError`]. After [`Fault::Unknown`] it may have been published, or may be yet; publishing again is
/// harmless.
pub async fn publish(
    nats: &Nats,
    bucket: &str,
    name: &str,
    bytes: &[u8],
    signature: Option<&str>,
) -> Result<Published, PublishError> {
    if bytes.len() > COMPONENT_BYTES {
        return Err(PublishError::TooLarge(bytes.len()));
    }
    if let Some(large) = signature.map(str::len).filter(|&bytes| bytes > SIGNATURE_BYTES) {
        return Err(PublishError::SignatureTooLarge(large));
    }
    let objects = open(nats, bucket, name)?;
    let digest = digest::of(bytes);
    // The copy first: whatever was ever current can be gone back to.
    keep(&objects, &version_name(name, &digest), bytes, signature).await?;
    let published = put(&objects, name, digest, bytes, signature).await?;
    prune(&objects, name, &published.digest).await;
    Ok(published)
}

/// Publish a kept version again, with the signature that it was published with: a rollback for all who follow.
///
/// # Errors
/// [`PublishError`], as for [`publish`].
pub async fn republish(
    nats: &Nats,
    bucket: &str,
    name: &str,
    digest: &str,
) -> Result<Published, PublishError> {
    let objects = open(nats, bucket, name)?;
    let missing = || PublishError::NoVersion { name: name.into(), digest: digest.chars().take(64).collect() };
    if !digest::is_one(digest) {
        return Err(missing());
    }
    let version = objects.look(&version_name(name, digest)).await?.filter(|version| !version.deleted);
    let version = version.ok_or_else(missing)?;
    let damaged = |why: String| PublishError::Damaged { name: name.into(), digest: digest.into(), why };
    if version.size > COMPONENT_BYTES {
        return Err(PublishError::TooLarge(version.size));
    }
    let bytes = match objects.read(&version).await? {
        Content::Whole(bytes) if digest::of(&bytes) == digest => bytes,
        Content::Whole(_) => return Err(damaged("its bytes are those of another version".into())),
        Content::Replaced => return Err(missing()),
        Content::Damaged(why) => return Err(damaged(why)),
    };
    put(&objects, name, digest.into(), &bytes, signature_of(&version)).await
}

/// The versions that are kept, the one published last first.
///
/// # Errors
/// What the store said; a name of no object.
pub async fn history(nats: &Nats, bucket: &str, name: &str) -> Result<Vec<Version>, PublishError> {
    let objects = open(nats, bucket, name)?;
    let current = objects.look(name).await?.filter(|object| !object.deleted);
    let versions = versions(&objects, name).await?.into_iter();
    let versions = versions.map(|(digest, object)| Version {
        current: current.as_ref().is_some_and(|current| current.digest == object.digest),
        digest,
        size: object.size,
        signed: signature_of(&object).is_some(),
        published: object.mtime.unwrap_or_default(),
    });
    Ok(versions.collect())
}

fn open(nats: &Nats, bucket: &str, name: &str) -> Result<Objects, PublishError> {
    if !check_name(name) {
        return Err(PublishError::Name(name.chars().take(100).collect()));
    }
    Ok(nats.objects(bucket)?)
}

/// Write what everybody follows.
async fn put(
    objects: &Objects,
    name: &str,
    digest: String,
    bytes: &[u8],
    signature: Option<&str>,
) -> Result<Published, PublishError> {
    let stands = objects.look(name).await?;
    if let Some(object) = stands.as_ref().filter(|object| !object.deleted)
        && signature_of(object) == signature
        && object.size == bytes.len()
        && let Content::Whole(there) = objects.read(object).await?
        && there == bytes
    {
        return Ok(Published { digest, unchanged: true });
    }
    match objects.put(name, bytes, metadata(signature), stands.as_ref()).await? {
        Put::Written => Ok(Published { digest, unchanged: false }),
        Put::Lost => Err(PublishError::Raced(name.into())),
    }
}

/// Write a copy. Whoever else writes it at the same time writes the same bytes.
async fn keep(
    objects: &Objects,
    name: &str,
    bytes: &[u8],
    signature: Option<&str>,
) -> Result<(), PublishError> {
    for _ in 0..TRIES {
        let stands = objects.look(name).await?;
        if let Put::Written = objects.put(name, bytes, metadata(signature), stands.as_ref()).await? {
            return Ok(());
        }
    }
    Err(PublishError::Raced(name.into()))
}

/// Removes the versions over the bound, but never the one that was just published.
async fn prune(objects: &Objects, name: &str, current: &str) {
    let over = match versions(objects, name).await {
        Ok(versions) => versions.into_iter().skip(VERSIONS),
        Err(why) => return tracing::debug!(name, %why, "old versions stay"),
    };
    for (digest, version) in over.filter(|(digest, _)| digest != current) {
        if let Err(why) = objects.remove(&version).await {
            tracing::debug!(name, digest, %why, "an old version stays");
        }
    }
}

async fn versions(objects: &Objects, name: &str) -> Result<Vec<(String, Object)>, Fault> {
    let mut versions = Vec::new();
    for full in objects.names().await? {
        let Some((of, digest)) = full.rsplit_once('@') else { continue };
        if of != name || !digest::is_one(digest) {
            continue;
        }
        if let Some(object) = objects.look(&full).await?.filter(|object| !object.deleted) {
            versions.push((digest.to_owned(), object));
        }
    }
    versions.sort_by_key(|(_, object)| std::cmp::Reverse(object.revision));
    Ok(versions)
}

fn version_name(name: &str, digest: &str) -> String {
    format!("{name}@{digest}")
}

fn metadata(signature: Option<&str>) -> HashMap<String, String> {
    signature.map(|text| (SIGNATURE.to_owned(), text.to_owned())).into_iter().collect()
}

fn signature_of(object: &Object) -> Option<&str> {
    object.metadata.get(SIGNATURE).map(String::as_str)
}
