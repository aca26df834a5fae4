//! Where the highest epoch ever issued is kept, outside the lease's own store, so that no epoch is issued
//! twice even when that store was raised again from nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;

/// A floor's file has a number of at most 20 digits and a line end.
const FILE_BYTES: u64 = 64;

/// Keeps the highest epoch issued. An embedder with a durable store of its own supplies one that all its
/// instances share.
#[async_trait]
pub trait Floor: Send + Sync + std::fmt::Debug {
    /// The highest epoch ever issued, zero when none was.
    ///
    /// # Errors
    /// It cannot be read; nobody takes the lease then.
    async fn highest(&self) -> io::Result<u64>;

    /// Keep `epoch` when it is higher, durably before this returns. Never lowers.
    ///
    /// # Errors
    /// It cannot be kept; the gate does not open then.
    async fn raise(&self, epoch: u64) -> io::Result<()>;
}

/// A floor that is forgotten with the process: for a store that does not outlive it either, and for tests.
#[derive(Debug, Default)]
pub struct MemoryFloor(Mutex<u64>);

#[async_trait]
impl Floor for MemoryFloor {
    async fn highest(&self) -> io::Result<u64> {
        Ok(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        let mut highest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = epoch.max(*highest);
        Ok(())
    }
}

/// A floor in a file: written beside, synced, renamed over, the folder synced. Processes that share the file
/// take turns by a lock on a file beside it.
#[derive(Clone, Debug)]
pub struct FileFloor {
    path: PathBuf,
}

impl FileFloor {
    /// The floor in this file, which is made when it is first raised.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn read(&self) -> io::Result<u64> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => {
                file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|why| self.named(&why))?
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(why) => return Err(self.named(&why)),
        };
        // The beginning of a longer file is not what it says: of a number cut off it would be a lower floor.
        let whole = u64::try_from(text.len()).is_ok_and(|bytes| bytes <= FILE_BYTES);
        text.trim().parse().ok().filter(|_| whole).ok_or_else(|| {
            let why = format!(
                "the floor {} does not hold a number; write the highest epoch that was issued into it",
                self.path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    fn write(&self, epoch: u64) -> io::Result<()> {
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.beside(".lock"))?;
        lock.lock()?;
        // Read under the lock: another process may have raised it since.
        if epoch <= self.read()? {
            return Ok(());
        }
        let draft = self.beside(".new");
        let mut file = File::create(&draft)?;
        writeln!(file, "{epoch}")?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        File::open(folder)?.sync_all()
    }

    /// A file beside it, of its whole name and this ending: never the floor of another name, or this one itself.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }

    fn named(&self, why: &io::Error) -> io::Error {
        io::Error::new(why.kind(), format!("the floor {}: {why}", self.path.display()))
    }
}

#[async_trait]
impl Floor for FileFloor {
    async fn highest(&self) -> io::Result<u64> {
        let floor = self.clone();
        tokio::task::spawn_blocking(move || floor.read()).await.map_err(io::Error::other)?
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        let floor = self.clone();
        tokio::task::spawn_blocking(move || floor.write(epoch).map_err(|why| floor.named(&why)))
            .await
            .map_err(io::Error::other)?
    }
}
