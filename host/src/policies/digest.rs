//! A SHA-256 as text, as policies are named by.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Of these bytes, hexadecimal in small letters.
pub(super) fn of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether this is the text of one. What is not names no file and no object.
pub(super) fn is_one(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
