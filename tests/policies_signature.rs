//! Signatures of policies, as minisign makes them.

use anyhow::{Context as _, Result, ensure};
use incumbent::policies::{PublicKey, SignatureError};
use incumbent_tests::signer::Signer;

const BYTES: &[u8] = b"a policy";

/// Of minisign's own tests: made with -l, over these bytes themselves and not over their hash.
const LEGACY_KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const LEGACY_BYTES: &[u8] = b"test";
const LEGACY: &str = "untrusted comment: signature from minisign secret key
RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=
trusted comment: timestamp:1555779966\tfile:test
QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==
";

#[test]
fn a_signature_of_the_key_is_taken_from_either_form_of_it() -> Result<()> {
    let alice = Signer::new()?;
    let signature = alice.sign(BYTES)?;
    for text in [alice.public_key(), &alice.public_file()?, &format!("\n {} \r\n", alice.public_key())] {
        PublicKey::parse(text)?.verify(BYTES, Some(&signature))?;
    }
    let windows = signature.replace('\n', "\r\n");
    PublicKey::parse(alice.public_key())?.verify(BYTES, Some(&windows))?;
    Ok(())
}

#[test]
fn each_way_to_fail_is_told_apart() -> Result<()> {
    let (alice, bob) = (Signer::new()?, Signer::new()?);
    let key = PublicKey::parse(alice.public_key())?;
    let signature = alice.sign(BYTES)?;
    let verify = |bytes: &[u8], text: Option<&str>| key.verify(bytes, text).err();

    ensure!(verify(BYTES, None) == Some(SignatureError::Missing));
    ensure!(verify(BYTES, Some(&bob.sign(BYTES)?)) == Some(SignatureError::OtherKey));
    ensure!(verify(b"a policy.", Some(&signature)) == Some(SignatureError::Wrong));
    ensure!(verify(b"", Some(&signature)) == Some(SignatureError::Wrong));
    let half = &signature[..signature.len() / 2];
    for text in ["", "a policy", half, alice.public_key(), &"\n".repeat(4)] {
        let why = verify(BYTES, Some(text));
        ensure!(matches!(why, Some(SignatureError::Unreadable(_))), "{text:?}: {why:?}");
    }
    Ok(())
}

#[test]
fn what_the_signer_remarked_cannot_be_changed() -> Result<()> {
    let alice = Signer::new()?;
    let signature = alice.sign(BYTES)?;
    let other = signature.replace("\ntrusted comment: ", "\ntrusted comment: not ");
    // The first line is anybody's.
    let first = signature.lines().next().context("empty")?;
    let retitled = signature.replace(first, "untrusted comment: anything");
    let key = PublicKey::parse(alice.public_key())?;
    ensure!(other != signature && key.verify(BYTES, Some(&other)) == Err(SignatureError::Wrong));
    key.verify(BYTES, Some(&retitled))?;
    Ok(())
}

#[test]
fn another_key_of_the_same_number_does_not_do() -> Result<()> {
    // The number in a signature is not secret: eve gives hers alice's.
    let (alice, eve) = (Signer::new()?, Signer::new()?);
    let forged = eve.sign_as(&alice, BYTES)?;
    let why = PublicKey::parse(alice.public_key())?.verify(BYTES, Some(&forged)).err();
    ensure!(why == Some(SignatureError::Wrong), "{why:?}");
    Ok(())
}

#[test]
fn a_legacy_signature_is_refused_with_the_reason() -> Result<()> {
    let why = PublicKey::parse(LEGACY_KEY)?.verify(LEGACY_BYTES, Some(LEGACY)).err();
    let Some(SignatureError::Unreadable(why)) = why else { panic!("{why:?}") };
    ensure!(why.contains("legacy"), "{why}");
    Ok(())
}

#[test]
fn what_is_no_key_is_refused() -> Result<()> {
    let alice = Signer::new()?;
    let signature = alice.sign(BYTES)?;
    let cut = &alice.public_key()[..40];
    let two = format!("{}\n{}", alice.public_key(), alice.public_key());
    for text in ["", "untrusted comment: a key", cut, &signature, &two] {
        ensure!(PublicKey::parse(text).is_err(), "{text:?}");
    }
    Ok(())
}
