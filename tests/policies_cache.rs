//! Compiled policies on disk: used where they can only be one's own, whole and of this engine, else made anew.
//!
//! Whether the cache was used shows when another policy's code lies in the place of the one that is loaded.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use incumbent::policies::{Cache, FolderError};
use incumbent::policy::BUILT_IN;
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::Guest;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A cache that holds a policy named `test` and the built-in one.
struct Stage {
    _folder: TempDir,
    path: PathBuf,
    runtime: Runtime,
    bytes: Vec<u8>,
    /// The code of `test`, and of the other.
    file: PathBuf,
    others: PathBuf,
}

impl Stage {
    async fn set() -> Result<Self> {
        let folder = TempDir::new()?;
        let path = folder.path().join("cache");
        let runtime = Runtime::with_cache(Cache::open(&path)?)?;
        let bytes = Guest::new().component()?;
        ensure!(Policy::load(&runtime, &bytes).await?.version().about().name == "test");
        let file = only(&path)?;
        ensure!(Policy::built_in(&runtime).await?.version().about().name != "test");
        let others = files(&path)?.into_iter().find(|other| *other != file).context("one file")?;
        Ok(Self { _folder: folder, path, runtime, bytes, file, others })
    }

    /// Puts the other's code where that of `test` is.
    fn swap(&self) -> Result<()> {
        Ok(fs::copy(&self.others, &self.file).map(drop)?)
    }

    async fn load(&self) -> Result<String> {
        Ok(Policy::load(&self.runtime, &self.bytes).await?.version().about().name.clone())
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}

fn only(path: &Path) -> Result<PathBuf> {
    let files = files(path)?;
    ensure!(files.len() == 1, "{files:?}");
    files.into_iter().next().context("no file")
}

#[tokio::test]
async fn a_policy_that_was_compiled_once_is_not_compiled_again() -> Result<()> {
    let stage = Stage::set().await?;
    ensure!(fs::metadata(&stage.path)?.mode() & 0o777 == 0o700);
    ensure!(fs::metadata(&stage.file)?.mode() & 0o777 == 0o600);
    ensure!(stage.load().await? == "test", "from the cache");
    stage.swap()?;
    ensure!(stage.load().await? != "test", "compiled again");
    // Another runtime, as after a restart.
    let again = Runtime::with_cache(Cache::open(&stage.path)?)?;
    ensure!(Policy::load(&again, &stage.bytes).await?.version().about().name != "test");
    // One without a cache does not look.
    ensure!(Policy::load(&Runtime::new()?, &stage.bytes).await?.version().about().name == "test");
    Ok(())
}

#[tokio::test]
async fn code_that_others_may_have_written_is_not_run() -> Result<()> {
    let stage = Stage::set().await?;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    stage.swap()?;
    mode(&stage.file, 0o660)?;
    ensure!(stage.load().await? == "test", "others may write the file");
    stage.swap()?;
    mode(&stage.path, 0o703)?;
    ensure!(stage.load().await? == "test", "others may write to the folder");
    ensure!(matches!(Cache::open(&stage.path), Err(FolderError::OpenToOthers { .. })));
    mode(&stage.path, 0o700)?;
    ensure!(stage.load().await? != "test", "it is private again");
    // A link to a file elsewhere.
    fs::remove_file(&stage.file)?;
    std::os::unix::fs::symlink(&stage.others, &stage.file)?;
    ensure!(stage.load().await? == "test", "a link was followed");
    if rustix::process::geteuid().is_root() {
        stage.swap()?;
        std::os::unix::fs::chown(&stage.file, Some(4242), None)?;
        ensure!(stage.load().await? == "test", "the file is another user's");
        stage.swap()?;
        std::os::unix::fs::chown(&stage.path, Some(4242), None)?;
        ensure!(stage.load().await? == "test", "the folder is another user's");
    }
    Ok(())
}

#[tokio::test]
async fn damaged_code_is_not_run_and_is_made_anew() -> Result<()> {
    let stage = Stage::set().await?;
    let others = fs::read(&stage.others)?;
    let mut flipped = others.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let mut other_kind = others.clone();
    other_kind[0] ^= 1;
    let header = others.get(..16).context("short")?;
    let nonsense = b"no code at all, though the checksum fits";
    let forged = [header, &Sha256::digest(nonsense)[..], nonsense].concat();
    for (what, damaged) in [
        ("a bit", flipped),
        ("another kind", other_kind),
        ("cut off", others[..others.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("no code", forged),
    ] {
        fs::write(&stage.file, &damaged)?;
        ensure!(stage.load().await? == "test", "{what}");
        ensure!(fs::read(&stage.file)? != damaged, "{what}: it is still there");
        // What was made anew is used.
        stage.swap()?;
        ensure!(stage.load().await? != "test", "{what}");
    }
    // More than is ever read.
    fs::OpenOptions::new().write(true).open(&stage.file)?.set_len((64 << 20) + 1)?;
    ensure!(stage.load().await? == "test");
    Ok(())
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_costs_the_cache_and_nothing_else() -> Result<()> {
    let folder = TempDir::new()?;
    let path = folder.path().join("cache");
    let runtime = Runtime::with_cache(Cache::open(&path)?)?;
    fs::remove_dir(&path)?;
    ensure!(Policy::load(&runtime, BUILT_IN).await?.version().about().name != "test");
    ensure!(!path.exists(), "it is not made again: nobody looked whose it is");
    Ok(())
}

#[tokio::test]
async fn only_the_newest_stay() -> Result<()> {
    let stage = Stage::set().await?;
    fs::write(stage.path.join("of-somebody"), "")?;
    // Left by a process that was killed while it wrote.
    fs::write(format!("{}.1-0.new", stage.others.display()), "")?;
    for number in 0..20 {
        let guest = Guest::new().export("lease#check", &format!("(drop (i32.const {number})) unreachable"));
        Policy::load(&stage.runtime, &guest.component()?).await?;
    }
    let files = files(&stage.path)?;
    ensure!(files.len() == 17, "{files:?}");
    ensure!(stage.path.join("of-somebody").exists() && !stage.file.exists() && !stage.others.exists());
    ensure!(files.iter().all(|file| file.extension().is_none_or(|ending| ending != "new")));
    Ok(())
}
