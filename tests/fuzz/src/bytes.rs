//! Signatures of policies.

use incumbent::policies::PublicKey;

use crate::must_refuse;

/// The key and the signature of the format's own example, which signs these bytes.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const SIGNED: &[u8] = b"test";
const SIGNATURE: &str = include_str!("../corpus/signature/valid");

/// Only the signature that was made is one; the comment on its first line is anybody's.
pub(crate) fn signature(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(key) = PublicKey::parse(text) {
        must_refuse!(key.verify(SIGNED, Some(text)).is_err(), "a key passes for a signature");
    }
    let key = PublicKey::parse(KEY).expect("the example's key");
    let made = |text: &str| text.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let (read, valid) = (made(text), made(SIGNATURE));
    let is_valid = read.iter().take(valid.len()).eq(&valid);
    must_refuse!(key.verify(SIGNED, Some(text)).is_err() || is_valid, "a signature that nobody made");
    must_refuse!(key.verify(b"other", Some(text)).is_err(), "a signature of other bytes");
    if text == SIGNATURE {
        assert_eq!(key.verify(SIGNED, Some(text)), Ok(()));
    }
}
