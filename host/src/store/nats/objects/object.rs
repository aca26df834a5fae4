//! What an object is, in the words of every client.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest;
use crate::store::Fault;

/// What stands in the bucket under an object's name. The fields are those of every client; others are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) bucket: String,
    /// Marks its pieces; another one at each writing.
    #[serde(default)]
    pub(crate) nuid: String,
    /// Bytes.
    #[serde(default)]
    pub(crate) size: usize,
    #[serde(default)]
    pub(crate) chunks: usize,
    /// When it was written, RFC 3339.
    #[serde(default)]
    pub(crate) mtime: Option<String>,
    /// `SHA-256=` and the digest in base64.
    #[serde(default)]
    pub(crate) digest: Option<String>,
    #[serde(default)]
    pub(crate) deleted: bool,
    #[serde(default)]
    pub(crate) metadata: HashMap<String, String>,
    /// Where the message that says all this stands in the stream.
    #[serde(skip)]
    pub(crate) revision: u64,
}

/// What reading an object gave.
pub(crate) enum Content {
    Whole(Vec<u8>),
    /// Its pieces are no longer there: it was replaced meanwhile, or deleted.
    Replaced,
    /// It is not what it says it is.
    Damaged(String),
}

/// What writing an object did.
pub(crate) enum Put {
    Written,
    /// Somebody else wrote it first.
    Lost,
}

/// Of these bytes, as an object's `digest` has it.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    format!("SHA-256={}", URL_SAFE.encode(Sha256::digest(bytes)))
}

/// A mark that no other object's pieces have.
pub(super) fn mark() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|why| Fault::Unavailable(format!("no random numbers: {why}")))?;
    Ok(digest::hex(&bytes))
}
