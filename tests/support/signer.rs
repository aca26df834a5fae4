//! Somebody who signs policies, by the library of minisign's author.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign::KeyPair;

/// A key pair of its own.
#[derive(Debug)]
pub struct Signer {
    pair: KeyPair,
    public: String,
}

impl Signer {
    /// One with a new key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self> {
        let pair = KeyPair::generate_unencrypted_keypair()?;
        let public = pair.pk.to_base64();
        Ok(Self { pair, public })
    }

    /// The bare public key.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public
    }

    /// The contents of its `.pub` file.
    ///
    /// # Errors
    /// None is known.
    pub fn public_file(&self) -> Result<String> {
        Ok(self.pair.pk.to_box()?.to_string())
    }

    /// The contents of a `.minisig` file for these bytes.
    ///
    /// # Errors
    /// None is known.
    pub fn sign(&self, bytes: &[u8]) -> Result<String> {
        Ok(minisign::sign(None, &self.pair.sk, bytes, None, None)?.to_string())
    }

    /// The same, with another's key number written over one's own.
    ///
    /// # Errors
    /// None is known.
    pub fn sign_as(&self, other: &Self, bytes: &[u8]) -> Result<String> {
        let (own, others) = (self.sign(bytes)?, other.sign(bytes)?);
        let line = |text: &str| text.lines().nth(1).map(str::to_owned).context("no signature line");
        let (mine, theirs) = (line(&own)?, line(&others)?);
        // Two bytes of kind, then eight of number.
        let mut raw = STANDARD.decode(&mine)?;
        raw[..10].copy_from_slice(&STANDARD.decode(&theirs)?[..10]);
        Ok(own.replace(&mine, &STANDARD.encode(&raw)))
    }
}
