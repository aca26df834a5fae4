//! A name of any characters as one token of a NATS subject, and back.
//!
//! Letters, digits, `_` and `-` stand for themselves; every other byte is written `=XX`, in upper-case
//! hex: `labeler:did:plc:abc` is `labeler=3Adid=3Aplc=3Aabc`. That is one token, so a permission can
//! name it, every NATS client takes it for a key, and no two names share one.

use std::fmt::Write as _;

/// The token of a name.
#[must_use]
pub fn encode(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for &byte in name.as_bytes() {
        if stands_for_itself(byte) {
            token.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(token, "={byte:02X}");
        }
    }
    token
}

/// The name of a token; `None` for one that [`encode`] does not make.
///
/// Strict on purpose: if `=3a` or `=41` were read too, two tokens would be one name.
#[must_use]
pub fn decode(token: &str) -> Option<String> {
    let mut name = Vec::with_capacity(token.len());
    let mut bytes = token.bytes();
    while let Some(byte) = bytes.next() {
        if stands_for_itself(byte) {
            name.push(byte);
        } else if byte == b'=' {
            let escaped = digit(bytes.next()?)? << 4 | digit(bytes.next()?)?;
            if stands_for_itself(escaped) {
                return None;
            }
            name.push(escaped);
        } else {
            return None;
        }
    }
    String::from_utf8(name).ok()
}

fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ODD: [&str; 16] = [
        "labeler:did:plc:abc",
        "controller",
        ".",
        "..",
        "a..b",
        "*",
        ">",
        " ",
        "é",
        "$",
        "=",
        "=3A",
        ":",
        "\u{0}",
        "/etc/passwd",
        "👑",
    ];

    #[test]
    fn every_name_comes_back_as_it_was() {
        for name in ODD {
            assert_eq!(decode(&encode(name)).as_deref(), Some(name));
        }
        for c in (0..=u32::from(u8::MAX)).chain([0x7FF, 0xFFFF, 0x10_FFFF]).filter_map(char::from_u32) {
            let name = format!("a{c}b");
            assert_eq!(decode(&encode(&name)), Some(name));
        }
    }

    #[test]
    fn no_two_names_share_a_token() {
        let tokens: HashSet<String> = ODD.iter().map(|name| encode(name)).collect();
        assert_eq!(tokens.len(), ODD.len());
    }

    #[test]
    fn a_token_is_readable_and_one_token() {
        assert_eq!(encode("labeler:did:plc:abc"), "labeler=3Adid=3Aplc=3Aabc");
        for name in ODD {
            let fits = |c: char| c.is_ascii_alphanumeric() || "_-=".contains(c);
            assert!(encode(name).chars().all(fits), "{name:?}");
        }
        assert_eq!(encode(&"é".repeat(100)).len(), 600);
    }

    #[test]
    fn what_encode_does_not_make_is_refused() {
        for token in ["=3a", "=41", "=5F", "=2D", "=", "=3", "=G0", "a.b", "a/b", "é", "=FF", "=C3"] {
            assert_eq!(decode(token), None, "{token}");
        }
    }
}
