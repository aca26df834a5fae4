//! Who signed a policy: Ed25519 in the format of minisign, which every machine has a tool for.
//!
//! `minisign -G` makes a key, `minisign -Sm policy.wasm` puts the signature into `policy.wasm.minisig`.

use minisign_verify::{Error, Signature};

/// The key that policies must be signed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(minisign_verify::PublicKey);

/// A text that is no public key. Remedy: the second line of the `.pub` file that `minisign -G` made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no minisign public key; give the .pub file, or the line in it that begins with RW")]
pub struct NoKey;

/// Why a policy does not count as signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// A key is configured, and no signature came with the policy. Remedy: sign it.
    #[error("it is not signed, and this process takes only signed policies; sign it with minisign -S")]
    Missing,
    /// What came with it is not a minisign signature. Remedy: sign it again.
    #[error("its signature cannot be read: {0}; sign it again with minisign -S")]
    Unreadable(&'static str),
    /// Another key made the signature. Remedy: sign with the key that is configured, or configure that key.
    #[error("its signature is by another key than the one configured")]
    OtherKey,
    /// Made for other bytes, or by nobody who has the key.
    #[error("its signature does not fit its bytes: one of them was changed, or they do not belong together")]
    Wrong,
}

impl PublicKey {
    /// A key from its text: the contents of a minisign `.pub` file, or the bare base64 line of one.
    ///
    /// # Errors
    /// [`NoKey`].
    pub fn parse(text: &str) -> Result<Self, NoKey> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let key = match (lines.next(), lines.next(), lines.next()) {
            (Some(key), None, _) => key,
            (Some(comment), Some(key), None) if comment.starts_with("untrusted comment:") => key,
            _ => return Err(NoKey),
        };
        minisign_verify::PublicKey::from_base64(key).map(Self).map_err(|_| NoKey)
    }

    /// Whether this key signed these bytes. `signature` is the contents of a `.minisig` file.
    ///
    /// Legacy signatures (`minisign -l`) are refused: they are over the bytes themselves, as the one over the
    /// trusted comment is, so that one could be passed off as the other. minisign makes the other kind by
    /// itself.
    ///
    /// # Errors
    /// [`SignatureError`], one for each way it can fail.
    pub fn verify(&self, bytes: &[u8], signature: Option<&str>) -> Result<(), SignatureError> {
        let text = signature.ok_or(SignatureError::Missing)?;
        let read = Signature::decode(text).map_err(|why| match why {
            Error::UnsupportedAlgorithm => SignatureError::Unreadable("it is of an unknown kind"),
            _ => SignatureError::Unreadable("it has not the four lines of a .minisig file"),
        })?;
        self.0.verify(bytes, &read, false).map_err(|why| match why {
            Error::UnexpectedKeyId => SignatureError::OtherKey,
            Error::UnexpectedAlgorithm => {
                SignatureError::Unreadable("it is of minisign's legacy kind, which is not taken")
            }
            _ => SignatureError::Wrong,
        })
    }
}

impl std::str::FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        Self::parse(text)
    }
}
