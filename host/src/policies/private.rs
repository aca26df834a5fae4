//! A folder that nobody else may write to, and files in it that are there whole or not at all.
//!
//! What lies in it is believed after a restart: which policy to serve, which never again, machine code. So its
//! owner and its mode are looked at each time, not only when it is opened.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

/// Others may write.
const FOR_OTHERS: u32 = 0o022;

/// A folder of this user's own.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

/// Why a folder, or a file in it, is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It belongs to another user. Remedy: a folder of one's own, or its owner's user.
    #[error(
        "{path} belongs to the user {owner}, and this is the user {own}; name a folder of your own, or run \
             as its owner"
    )]
    OfAnother {
        /// The folder or file.
        path: PathBuf,
        /// The number of the user that it belongs to.
        owner: u32,
        /// The number of the user that asks.
        own: u32,
    },
    /// Others may write to it. Remedy: `chmod go-w`.
    #[error(
        "others may write to {path} (its mode is {mode:o}); chmod go-w {path}, after a look at what is there"
    )]
    OpenToOthers {
        /// The folder or file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is something else of that name. Remedy: another name.
    #[error("{path} is no {wanted}; name another, or move it away")]
    OtherKind {
        /// What is there.
        path: PathBuf,
        /// What should be.
        wanted: &'static str,
    },
    /// More bytes than belong there.
    #[error("{path} has more than {most} bytes, which is more than was ever written there; move it away")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound, bytes.
        most: u64,
    },
    /// The system refused.
    #[error("{path}: {why}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What it said.
        why: io::Error,
    },
}

impl Folder {
    /// The folder at `path`, made for this user alone where there is none.
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        // Where something else has the name, the look says so in better words.
        if let Err(why) = made
            && why.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(path)(why));
        }
        let folder = Self { path: path.into() };
        folder.check()?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether it is still what it was when it was opened.
    pub(super) fn check(&self) -> Result<(), FolderError> {
        let found = fs::metadata(&self.path).map_err(failed(&self.path))?;
        if !found.is_dir() {
            return Err(FolderError::OtherKind { path: self.path.clone(), wanted: "folder" });
        }
        own(&self.path, &found)
    }

    /// The content of a file, `None` where there is none. Refused when others may have written it.
    pub(super) fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, FolderError> {
        self.check()?;
        let path = self.file(name);
        // A link, or a pipe that never ends, is nothing that was written here.
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(failed(&path)(why)),
        };
        let found = file.metadata().map_err(failed(&path))?;
        if !found.is_file() {
            return Err(FolderError::OtherKind { path, wanted: "file" });
        }
        own(&path, &found)?;
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed(&path))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
            return Err(FolderError::TooLarge { path, most });
        }
        Ok(Some(bytes))
    }

    /// Writes a file durably: beside, synced, renamed over, the folder synced. Whoever has the old one open or
    /// mapped keeps it as it was.
    pub(super) fn write(&self, name: &str, pieces: &[&[u8]]) -> Result<(), FolderError> {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        self.check()?;
        let draft = self.file(&format!(
            "{name}.{}-{}{DRAFT}",
            std::process::id(),
            DRAFTS.fetch_add(1, Ordering::Relaxed)
        ));
        let written = self.write_by(&draft, name, pieces);
        if written.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn write_by(&self, draft: &Path, name: &str, pieces: &[&[u8]]) -> Result<(), FolderError> {
        // A draft of a process of the same number that was killed is of no use.
        let _ = fs::remove_file(draft);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
        let mut file = made.map_err(failed(draft))?;
        for piece in pieces {
            file.write_all(piece).map_err(failed(draft))?;
        }
        file.sync_all().map_err(failed(draft))?;
        fs::rename(draft, self.file(name)).map_err(failed(draft))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), FolderError> {
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed(&self.path))
    }

    /// One process at a time, and one of its threads, has this. Others wait. Given back when dropped.
    pub(super) fn lock(&self, name: &str) -> Result<File, FolderError> {
        self.check()?;
        let path = self.file(name);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = opened.map_err(failed(&path))?;
        lock.lock().map_err(failed(&path))?;
        Ok(lock)
    }

    /// The files whose names `ours` knows, drafts of killed processes among them by the name they were for; the
    /// newest first.
    pub(super) fn newest(&self, ours: impl Fn(&str) -> bool) -> Vec<Found> {
        let mut files: Vec<Found> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let found = entry.metadata().ok()?;
                let whole = name.strip_suffix(DRAFT).and_then(|rest| rest.rsplit_once('.'));
                (found.is_file() && ours(whole.map_or(name.as_str(), |(whole, _)| whole)))
                    .then(|| Found { modified: found.modified().unwrap_or(std::time::UNIX_EPOCH), name })
            })
            .collect();
        files.sort_by(|one, other| (other.modified, &one.name).cmp(&(one.modified, &other.name)));
        files
    }

    /// Removes a file. One that is already gone is as good.
    pub(super) fn remove(&self, name: &str) {
        let path = self.file(name);
        if let Err(why) = fs::remove_file(&path)
            && why.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %path.display(), %why, "cannot be removed");
        }
    }
}

/// What ends the name of a file that is being written.
const DRAFT: &str = ".new";

/// A file in the folder.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) modified: std::time::SystemTime,
}

fn own(path: &Path, found: &fs::Metadata) -> Result<(), FolderError> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(FolderError::OfAnother { path: path.into(), owner: found.uid(), own });
    }
    if found.mode() & FOR_OTHERS != 0 {
        return Err(FolderError::OpenToOthers { path: path.into(), mode: found.mode() & 0o7777 });
    }
    Ok(())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> FolderError {
    move |why| FolderError::Io { path: path.into(), why }
}
