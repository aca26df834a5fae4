//! Bytes as hexadecimal text, and a SHA-256 so written, as policies are named by.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// These bytes, hexadecimal in small letters.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The SHA-256 of these bytes.
#[must_use]
pub fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether this is the text of one. What is not names no file and no object.
#[must_use]
pub fn is_one(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
