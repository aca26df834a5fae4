//! A policy in a file. What replaces it at once (a rename, a link that is pointed elsewhere) is seen; what is
//! written into it piece by piece waits until the pieces end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::time::Instant;

use super::{Offer, SIGNATURE_BYTES, Said, SourceError};
use crate::limits::COMPONENT_BYTES;

/// How often the file is looked at. It is offered at the second look that sees the same, so a file that is
/// renamed into place is offered within two of these.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A policy in a file, with its signature, where there is one, in `<path>.minisig`.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    signature: PathBuf,
    next_look: Instant,
    /// What the last look saw.
    saw: Option<Stamps>,
    /// What was dealt with: offered, or told as an error.
    done: Option<Stamps>,
    said: Said,
}

impl FileSource {
    /// The policy in this file, which need not be there yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        let mut signature = path.clone().into_os_string();
        signature.push(".minisig");
        Self {
            path,
            signature: signature.into(),
            next_look: Instant::now(),
            saw: None,
            done: None,
            said: Said::default(),
        }
    }

    /// The next offer: first what is there, then one for each change of the file's content or its signature's.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`SourceError`], each kind once until it is over.
    pub async fn next(&mut self) -> Result<Offer, SourceError> {
        loop {
            tokio::time::sleep_until(self.next_look).await;
            // Nothing of it is changed before the look has ended: where this is cancelled, the next one looks.
            let look = Look {
                path: self.path.clone(),
                signature: self.signature.clone(),
                saw: self.saw,
                done: self.done,
            };
            let looked = tokio::task::spawn_blocking(move || look.take()).await;
            self.next_look = Instant::now() + LOOK_EVERY;
            let (stamps, found) =
                looked.map_err(|why| self.unreadable(&io::Error::other(why.to_string())))?;
            self.saw = Some(stamps);
            let Some(found) = found else { continue };
            let judged = self.judge(found);
            // What could not be read is tried again though it looks the same: the reason may lie elsewhere.
            let again = matches!(judged, Err(SourceError::Unreadable { .. }));
            self.done = (!again).then_some(stamps);
            match judged {
                Ok(Some(offer)) => return Ok(offer),
                Ok(None) => {}
                Err(error) => {
                    if let Some(news) = self.said.error(error) {
                        return Err(news);
                    }
                }
            }
        }
    }

    /// Offer what is there again, changed or not: for a signal that asks for it.
    pub fn reread(&mut self) {
        self.done = None;
        self.said = Said::default();
        self.next_look = Instant::now();
    }

    /// What a settled look found: something new to offer, nothing new, or an error.
    fn judge(&mut self, found: io::Result<Found>) -> Result<Option<Offer>, SourceError> {
        let from = || self.path.display().to_string();
        let Found { bytes, signature } = found.map_err(|why| match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SourceError::Missing(from()),
            io::ErrorKind::FileTooLarge => SourceError::TooLarge(from()),
            _ => self.unreadable(&why),
        })?;
        let offer = Offer { bytes, signature, from: from() };
        Ok(self.said.offer(offer))
    }

    fn unreadable(&self, why: &io::Error) -> SourceError {
        SourceError::Unreadable { from: self.path.display().to_string(), why: why.to_string() }
    }
}

/// What tells a changed file from an unchanged one without reading it; `None` for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        // Links are followed: whoever points one elsewhere changes the policy.
        let found = fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            // Also when a time of modification was set by hand, as cp -p and tar do.
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// The policy's and its signature's.
type Stamps = (Option<Stamp>, Option<Stamp>);

struct Found {
    bytes: Vec<u8>,
    signature: Option<String>,
}

struct Look {
    path: PathBuf,
    signature: PathBuf,
    saw: Option<Stamps>,
    done: Option<Stamps>,
}

impl Look {
    /// What is seen now, and what is there where it has settled and was not dealt with yet.
    fn take(&self) -> (Stamps, Option<io::Result<Found>>) {
        let stamps = self.stamps();
        if self.saw != Some(stamps) || self.done == Some(stamps) {
            return (stamps, None);
        }
        let found = self.read();
        // Changed while it was read: what was read may be half of each.
        let now = self.stamps();
        (now, (now == stamps).then_some(found))
    }

    fn stamps(&self) -> Stamps {
        (Stamp::of(&self.path), Stamp::of(&self.signature))
    }

    fn read(&self) -> io::Result<Found> {
        let bytes = read(&self.path, COMPONENT_BYTES)?;
        let signature = match read(&self.signature, SIGNATURE_BYTES) {
            // What is no text is no signature either, and is refused as one by whoever wants one.
            Ok(signature) => Some(String::from_utf8_lossy(&signature).into_owned()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                return Err(io::Error::other(format!("its signature {}: {why}", self.signature.display())));
            }
        };
        Ok(Found { bytes, signature })
    }
}

/// The content of a file. [`io::ErrorKind::FileTooLarge`] when it has more than `most` bytes.
fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}
