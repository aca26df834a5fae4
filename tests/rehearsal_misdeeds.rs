//! Policies that misbehave in a rehearsal: each ends as a typed refusal, in time, and the host lives.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use incumbent::imports::{Imports as _, Level};
use incumbent::limits::{COMPUTING, REHEARSAL};
use incumbent::policy::rehearsal::{Place, RehearsalError, Script, rehearse};
use incumbent::policy::{BUILT_IN, Misdeed};
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::{Guest, faulty};
use tokio::sync::OnceCell;

#[tokio::test]
async fn a_misdeed_is_told_with_its_scene() -> Result<()> {
    for (number, misdeed) in
        [(40, Misdeed::Trapped("it panicked".into())), (41, Misdeed::Overran), (42, Misdeed::OutOfMemory)]
    {
        let (place, what) = failed(&faulty(number)?).await?;
        assert_eq!((place.table, what), ("terms", misdeed), "{place}");
    }
    // Calls that need no answer.
    let (place, what) = failed(&faulty(5)?).await?;
    assert_eq!((place.table, what), ("anew", Misdeed::Overran), "{place}");
    let (place, what) = failed(&faulty(43)?).await?;
    assert!(place.table == "view" && what.to_string().contains("fuel"), "{place}: {what}");
    Ok(())
}

#[tokio::test]
async fn one_that_knows_nothing_is_refused_in_the_first_scene() -> Result<()> {
    let (place, what) = failed(&Guest::new().component()?).await?;
    assert_eq!((place.table, what), ("anew", Misdeed::Trapped("it panicked".into())));
    Ok(())
}

/// An answer that is none, in the first scene's export.
#[tokio::test]
async fn nonsense_for_an_answer_is_refused() -> Result<()> {
    for answer in [
        "i32.const -8",
        "i32.const 129",
        "(memory.fill (i32.const 0) (i32.const 255) (i32.const 262144)) i32.const 128",
    ] {
        let (place, what) = failed(&Guest::new().export("lease#take", answer).component()?).await?;
        assert!(place.table == "anew" && matches!(what, Misdeed::Broke(_)), "{answer}: {place}: {what:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_told_is_cut() -> Result<()> {
    let list = load(&faulty(44)?).await?;
    match rehearse(&list, REHEARSAL).await {
        Err(RehearsalError::Differs { came, .. }) => assert!(came.len() <= (2 << 10) + 8, "{}", came.len()),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn one_that_is_slow_in_each_scene_runs_out_of_time() -> Result<()> {
    let (slow, limit) = (load(&faulty(45)?).await?, Duration::from_millis(200));
    let began = Instant::now();
    assert_eq!(rehearse(&slow, limit).await, Err(RehearsalError::OutOfTime(limit)));
    assert!(began.elapsed() < limit + COMPUTING, "{:?}", began.elapsed());
    Ok(())
}

/// One thread has everything to do, and goes on with it while a candidate computes.
#[tokio::test(flavor = "current_thread")]
async fn a_rehearsal_holds_nobody_up() -> Result<()> {
    let endless = load(&faulty(41)?).await?;
    let rehearsal = tokio::spawn(async move { rehearse(&endless, REHEARSAL).await });
    let mut longest = Duration::ZERO;
    while !rehearsal.is_finished() {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        longest = longest.max(began.elapsed());
    }
    assert!(rehearsal.await?.is_err());
    assert!(longest < COMPUTING, "{longest:?}");
    Ok(())
}

/// Refused or passed, but never with a fault of the host.
#[tokio::test]
async fn a_damaged_policy_does_no_harm() -> Result<()> {
    let mut played = 0;
    for flip in 1..=12 {
        let mut damaged = BUILT_IN.to_vec();
        let at = damaged.len() * flip / 13;
        damaged[at] ^= 1 << (flip % 8);
        let Ok(policy) = load(&damaged).await else { continue };
        played += 1;
        let limit = Duration::from_secs(2);
        let ended = rehearse(&policy, limit).await;
        assert!(!matches!(ended, Err(RehearsalError::Unplayable(_))), "byte {at}: {ended:?}");
    }
    assert!(played > 0, "no damaged policy was ever played");
    Ok(())
}

#[test]
fn a_candidate_cannot_raise_its_voice() {
    let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = said.clone();
    let loud = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(move || Writer(writer.clone()))
        .finish();
    tracing::subscriber::with_default(loud, || {
        Script::new(&[]).without_logs().log(Level::Critical, "lease", "the sky falls");
    });
    assert_eq!(said.lock().map(|said| said.len()).ok(), Some(0));
}

struct Writer(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What this policy did wrong, and where.
async fn failed(bytes: &[u8]) -> Result<(Place, Misdeed)> {
    match rehearse(&load(bytes).await?, REHEARSAL).await.err().context("it passed")? {
        RehearsalError::Failed { place, what } => Ok((place, what)),
        other => Err(other.into()),
    }
}

async fn load(bytes: &[u8]) -> Result<Policy> {
    static RUNTIME: OnceCell<Runtime> = OnceCell::const_new();
    let runtime = RUNTIME.get_or_try_init(|| async { Runtime::new() }).await?;
    Ok(Policy::load(runtime, bytes).await?)
}
