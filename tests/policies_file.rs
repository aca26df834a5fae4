//! Policies from a file: what is there, then each change, whole and once. Time here passes when nobody is busy.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use incumbent::limits::COMPONENT_BYTES;
use incumbent::policies::source::{FileSource, Offer, SourceError};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(10);

struct Stage {
    folder: TempDir,
    path: PathBuf,
    source: FileSource,
}

impl Stage {
    fn set() -> Result<Self> {
        let folder = TempDir::new()?;
        let path = folder.path().join("policy.wasm");
        Ok(Self { source: FileSource::new(&path), folder, path })
    }

    /// Replaces a file at once.
    fn rename(&self, path: &Path, content: &[u8]) -> Result<()> {
        let draft = self.folder.path().join("draft");
        fs::write(&draft, content)?;
        Ok(fs::rename(draft, path)?)
    }

    fn signature(&self) -> PathBuf {
        self.folder.path().join("policy.wasm.minisig")
    }

    async fn offered(&mut self) -> Result<Offer> {
        Ok(timeout(LONG, self.source.next()).await.context("nothing was offered")??)
    }

    async fn refused(&mut self) -> Result<SourceError> {
        match timeout(LONG, self.source.next()).await.context("nothing was said")? {
            Ok(offer) => bail!("{offer:?}"),
            Err(why) => Ok(why),
        }
    }

    async fn silent(&mut self) -> Result<()> {
        match timeout(LONG, self.source.next()).await {
            Ok(said) => bail!("{said:?}"),
            Err(_) => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_offered_and_then_each_change_once() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    let offer = stage.offered().await?;
    ensure!(offer.bytes == b"one" && offer.signature.is_none());
    ensure!(offer.from == stage.path.display().to_string());
    stage.silent().await?;
    stage.rename(&stage.path, b"two")?;
    ensure!(stage.offered().await?.bytes == b"two");
    // Replaced by the same content.
    stage.rename(&stage.path, b"two")?;
    stage.silent().await?;
    // Back to an earlier one.
    stage.rename(&stage.path, b"one")?;
    ensure!(stage.offered().await?.bytes == b"one");
    stage.silent().await
}

#[tokio::test(start_paused = true)]
async fn a_renamed_file_is_offered_within_600_ms() -> Result<()> {
    let mut stage = Stage::set()?;
    stage.rename(&stage.path, b"0")?;
    stage.offered().await?;
    for round in 1..20_u64 {
        // At any moment between two looks.
        ensure!(timeout(Duration::from_millis(round * 37), stage.source.next()).await.is_err());
        let began = Instant::now();
        stage.rename(&stage.path, round.to_string().as_bytes())?;
        ensure!(stage.offered().await?.bytes == round.to_string().as_bytes());
        ensure!(began.elapsed() <= Duration::from_millis(600), "{:?}", began.elapsed());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_in_pieces_waits_for_the_last_one() -> Result<()> {
    let mut stage = Stage::set()?;
    let mut file = File::create(&stage.path)?;
    let writer = tokio::spawn(async move {
        for _ in 0..30 {
            file.write_all(b"piece ").expect("it is open");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    ensure!(stage.offered().await?.bytes == b"piece ".repeat(30));
    writer.await?;
    stage.silent().await
}

#[tokio::test(start_paused = true)]
async fn a_change_in_place_that_leaves_the_size_is_seen() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    stage.offered().await?;
    // The looks of this test are a moment apart, and so may be the file's times.
    let later = fs::metadata(&stage.path)?.modified()? + Duration::from_secs(1);
    fs::write(&stage.path, "two")?;
    File::options().append(true).open(&stage.path)?.set_modified(later)?;
    ensure!(stage.offered().await?.bytes == b"two");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_signature_beside_it_comes_with_it_and_its_change_offers_again() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    fs::write(stage.signature(), "by alice")?;
    ensure!(stage.offered().await?.signature.as_deref() == Some("by alice"));
    stage.rename(&stage.signature(), b"by bob")?;
    let offer = stage.offered().await?;
    ensure!(offer.bytes == b"one" && offer.signature.as_deref() == Some("by bob"));
    fs::remove_file(stage.signature())?;
    ensure!(stage.offered().await?.signature.is_none());
    // No text, and no signature either; whoever wants one refuses it.
    fs::write(stage.signature(), [0xff, 0xfe])?;
    ensure!(stage.offered().await?.signature.is_some());
    fs::write(stage.signature(), vec![b'a'; 5000])?;
    let why = stage.refused().await?;
    ensure!(matches!(&why, SourceError::Unreadable { why, .. } if why.contains("minisig")), "{why}");
    stage.silent().await
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_is_told_once_and_waited_for() -> Result<()> {
    let mut stage = Stage::set()?;
    for content in [b"one", b"two"] {
        let why = stage.refused().await?;
        ensure!(matches!(&why, SourceError::Missing(path) if path.ends_with("policy.wasm")), "{why}");
        stage.silent().await?;
        stage.rename(&stage.path, content)?;
        ensure!(stage.offered().await?.bytes == content);
        fs::remove_file(&stage.path)?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_away_for_a_moment_is_not_missing() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    stage.offered().await?;
    let path = stage.path.clone();
    fs::remove_file(&path)?;
    let writer = tokio::spawn(async move {
        // Long enough for a look, not for two.
        tokio::time::sleep(Duration::from_millis(260)).await;
        fs::write(path, "two").expect("it is writable");
    });
    ensure!(stage.offered().await?.bytes == b"two");
    Ok(writer.await?)
}

#[tokio::test(start_paused = true)]
async fn one_too_large_is_told_once_and_waited_for() -> Result<()> {
    let mut stage = Stage::set()?;
    let most = u64::try_from(COMPONENT_BYTES)?;
    File::create(&stage.path)?.set_len(most + 1)?;
    ensure!(matches!(stage.refused().await?, SourceError::TooLarge(_)));
    stage.silent().await?;
    // Still too large, which is no news.
    File::create(&stage.path)?.set_len(most + 2)?;
    stage.silent().await?;
    File::create(&stage.path)?.set_len(most)?;
    ensure!(stage.offered().await?.bytes.len() == COMPONENT_BYTES);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_no_file_is_told_and_not_waited_in() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::create_dir(&stage.path)?;
    ensure!(matches!(stage.refused().await?, SourceError::Unreadable { .. }));
    stage.silent().await?;
    fs::remove_dir(&stage.path)?;
    // A pipe that nobody writes to would be waited in for ever.
    rustix::fs::mkfifoat(rustix::fs::CWD, &stage.path, 0o600.into())?;
    stage.silent().await?;
    fs::remove_file(&stage.path)?;
    stage.rename(&stage.path, b"one")?;
    ensure!(stage.offered().await?.bytes == b"one");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn links_are_followed_as_a_config_map_swaps_them() -> Result<()> {
    let mut stage = Stage::set()?;
    let folder = stage.folder.path().to_owned();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join(name));
    for version in ["one", "two"] {
        fs::create_dir(folder.join(version))?;
        fs::write(folder.join(version).join("policy.wasm"), version)?;
        fs::write(folder.join(version).join("policy.wasm.minisig"), version)?;
    }
    link("one", "..data")?;
    link("..data/policy.wasm", "policy.wasm")?;
    link("..data/policy.wasm.minisig", "policy.wasm.minisig")?;
    ensure!(stage.offered().await?.bytes == b"one");
    link("two", "..new")?;
    fs::rename(folder.join("..new"), folder.join("..data"))?;
    let offer = stage.offered().await?;
    ensure!(offer.bytes == b"two" && offer.signature.as_deref() == Some("two"), "{offer:?}");
    stage.silent().await
}

#[tokio::test(start_paused = true)]
async fn reread_offers_the_same_again() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    stage.offered().await?;
    stage.silent().await?;
    stage.source.reread();
    ensure!(stage.offered().await?.bytes == b"one");
    stage.silent().await?;
    fs::remove_file(&stage.path)?;
    stage.refused().await?;
    stage.source.reread();
    ensure!(matches!(stage.refused().await?, SourceError::Missing(_)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cancelled_again_and_again_still_offers_once() -> Result<()> {
    let mut stage = Stage::set()?;
    fs::write(&stage.path, "one")?;
    let mut offers = Vec::new();
    for _ in 0..200 {
        if let Ok(offer) = timeout(Duration::from_millis(7), stage.source.next()).await {
            offers.push(offer?.bytes);
        }
    }
    ensure!(offers == [b"one"], "{} offers", offers.len());
    Ok(())
}
