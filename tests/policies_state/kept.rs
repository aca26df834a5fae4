//! The bytes of policies: those of the digest or none, and no more of them than are of use.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::policies::state::StateError;

use super::{age, digest, fresh, known, serving};

#[test]
fn kept_bytes_are_those_of_the_digest_or_none() -> Result<()> {
    let (_folder, state) = fresh()?;
    let one = digest(b"one");
    ensure!(state.kept(&one).is_none());
    state.keep(&one, b"one")?;
    ensure!(state.kept(&one).as_deref() == Some(&b"one"[..]));
    ensure!(matches!(state.keep(&one, b"two"), Err(StateError::OtherBytes(_))));
    fs::write(state.path().join(format!("{one}.wasm")), "damaged")?;
    ensure!(state.kept(&one).is_none());
    // Mended by keeping it again.
    state.keep(&one, b"one")?;
    ensure!(state.kept(&one).as_deref() == Some(&b"one"[..]));
    fs::write(state.path().join("state.wasm"), "")?;
    for odd in ["state", "", "../one", &one.to_uppercase()] {
        ensure!(state.kept(odd).is_none() && state.keep(odd, b"one").is_err());
    }
    Ok(())
}

#[test]
fn bytes_that_the_state_names_stay_and_others_go_in_time() -> Result<()> {
    let (_folder, state) = fresh()?;
    let (hour, all) = (Duration::from_secs(3600), ["1", "2", "3", "4", "5", "6"]);
    for version in all {
        state.keep(&digest(version.as_bytes()), version.as_bytes())?;
        age(&state, version.as_bytes(), hour)?;
        state.update(|state| state.proven = Some(known(version.as_bytes(), version)))?;
    }
    let there = |version: &str| {
        state.kept(&digest(version.as_bytes())).is_some_and(|kept| kept == version.as_bytes())
    };
    // The last one and the three before it.
    let stay: Vec<_> = all.into_iter().filter(|version| there(version)).collect();
    ensure!(stay == ["3", "4", "5", "6"], "{stay:?}");
    let previous: Vec<_> = state.read()?.previous().map(|known| known.version.clone()).collect();
    ensure!(previous == ["5", "4", "3"], "{previous:?}");

    // Back to an earlier one: it is not its own predecessor.
    state.update(|state| state.proven = Some(known(b"5", "5")))?;
    let previous: Vec<_> = state.read()?.previous().map(|known| known.version.clone()).collect();
    ensure!(previous == ["6", "4", "3"], "{previous:?}");

    // One that serves stays though it is not proven; one that nobody names stays while it is new.
    state.keep(&digest(b"7"), b"7")?;
    age(&state, b"7", hour)?;
    state.update(|state| state.serving = Some(serving(b"7", "7")))?;
    state.keep(&digest(b"8"), b"8")?;
    state.update(|_| ())?;
    ensure!(there("7") && there("8"));
    age(&state, b"8", hour)?;
    state.update(|state| state.serving = None)?;
    ensure!(!there("7") && !there("8"));

    // However new, there are not more than so many.
    for number in 100..140_u32 {
        state.keep(&digest(&number.to_le_bytes()), &number.to_le_bytes())?;
    }
    fs::write(state.path().join("of-somebody.wasm"), "")?;
    state.update(|_| ())?;
    let count = fs::read_dir(state.path())?.count();
    // 16 policies, the state, the lock, and what nobody here made.
    ensure!(count == 19, "{count} files");
    ensure!(there("6") && there("5"));
    Ok(())
}
