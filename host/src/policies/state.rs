//! What is known of policies beyond the life of a process: which one is proven, which one serves, which never
//! again, and what happened. Several processes may share one folder.

mod layout;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

pub use layout::{Entry, Event, Known, Quarantined, Serving, State};

use super::private::{Folder, FolderError};
use crate::digest;
use crate::limits::COMPONENT_BYTES;

/// The layout that is written. A change that older code would misread or lose makes it one higher.
const LAYOUT: u32 = 1;

const FILE: &str = "state.json";
const LOCK: &str = "lock";

/// `state.json`, bytes. Its lists and texts are bounded: what is written is half of it at the most.
const FILE_BYTES: u64 = 4 << 20;

/// A policy that no state names stays this long: who keeps one names it only afterwards.
const UNNAMED_STAYS: Duration = Duration::from_secs(10 * 60);

/// Policies in the folder, however new.
const KEPT: usize = 16;

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The folder, or a file in it, is not private, not readable, or not writable.
    #[error("the policy state cannot be used: {0}")]
    Folder(#[from] FolderError),
    /// The state cannot be read. Which policies are quarantined stands in it, so it is never passed over.
    #[error(
        "the policy state {path} is damaged ({why}); mend it, or move it away, and with it forget which \
             policies are quarantined"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        why: String,
    },
    /// A newer incumbent wrote it. Remedy: that one, or another folder.
    #[error(
        "the policy state {path} has layout {found}, and this incumbent knows {LAYOUT} and older; use the \
             newer incumbent that wrote it, or another folder"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: u64,
    },
    /// The bytes are not those of the digest.
    #[error("the bytes to keep are not those of {0:?}")]
    OtherBytes(String),
}

/// The folder of the state. Cheap to clone. Its functions read, write and wait for other processes: call them
/// off the async threads.
#[derive(Clone, Debug)]
pub struct StateDir {
    folder: Folder,
}

impl StateDir {
    /// The folder at `path`, made for this user alone where there is none.
    ///
    /// # Errors
    /// [`StateError::Folder`] when it is somebody else's, others may write to it, or it cannot be made.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StateError> {
        Ok(Self { folder: Folder::open(path.as_ref())? })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The state as it is now, an empty one when nothing was written yet.
    ///
    /// # Errors
    /// [`StateError`]; what is damaged or newer is never taken for empty.
    pub fn read(&self) -> Result<State, StateError> {
        #[derive(Deserialize)]
        struct Versioned {
            layout: u64,
        }

        let Some(bytes) = self.folder.read(FILE, FILE_BYTES)? else { return Ok(State::default()) };
        let path = || self.folder.file(FILE);
        let damaged = |why: serde_json::Error| StateError::Damaged { path: path(), why: why.to_string() };
        // A list of the fields' values would be read as well, and a list of one as a state without a quarantine.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(StateError::Damaged { path: path(), why: "it is no JSON object".into() });
        }
        // Its layout first: the rest of a newer one need not look like anything known here.
        let Versioned { layout } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if layout > u64::from(LAYOUT) {
            return Err(StateError::Newer { path: path(), found: layout });
        }
        if layout == 0 {
            return Err(StateError::Damaged { path: path(), why: "there is no layout 0".into() });
        }
        serde_json::from_slice(&bytes).map_err(damaged)
    }

    /// Change the state: reads it anew, changes it and writes it durably, while no other process does. What is
    /// over the bounds goes, the oldest first; so do the bytes of policies that it no longer names.
    ///
    /// # Errors
    /// [`StateError`]; the state is then as it was before, or, where only the last syncing failed, changed.
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, StateError> {
        let lock = self.folder.lock(LOCK)?;
        let mut state = self.read()?;
        let proven = state.proven.clone();
        let answer = change(&mut state);
        state.layout = LAYOUT;
        state.remember_proven(proven);
        state.bound();
        let bytes = serde_json::to_vec_pretty(&state)
            .map_err(|why| StateError::Damaged { path: self.folder.file(FILE), why: why.to_string() })?;
        self.folder.write(FILE, &[&bytes])?;
        self.prune(&state);
        drop(lock);
        Ok(answer)
    }

    /// Keep a policy's bytes, so that it can be served again after a restart without its source. Name it in the
    /// state afterwards; what no state names is removed in time.
    ///
    /// # Errors
    /// [`StateError::OtherBytes`], or the folder cannot be written.
    pub fn keep(&self, digest: &str, bytes: &[u8]) -> Result<(), StateError> {
        if bytes.len() > COMPONENT_BYTES || digest::of(bytes) != digest {
            return Err(StateError::OtherBytes(digest.chars().take(64).collect()));
        }
        let _lock = self.folder.lock(LOCK)?;
        // Written also where it is there: that one may be damaged, or about to be pruned.
        Ok(self.folder.write(&file_of(digest), &[bytes])?)
    }

    /// The bytes of a policy that was kept. `None` also when they are damaged, which the log says.
    #[must_use]
    pub fn kept(&self, digest: &str) -> Option<Vec<u8>> {
        if !digest::is_one(digest) {
            return None;
        }
        let name = file_of(digest);
        match self.folder.read(&name, u64::try_from(COMPONENT_BYTES).unwrap_or(u64::MAX)) {
            Ok(None) => None,
            Ok(Some(bytes)) if digest::of(&bytes) == digest => Some(bytes),
            Ok(Some(_)) => {
                let file = self.folder.file(&name);
                tracing::warn!(file = %file.display(), "a policy that was kept is damaged; it is not used");
                None
            }
            Err(why) => {
                tracing::warn!(%why, "a policy that was kept cannot be read");
                None
            }
        }
    }

    fn prune(&self, state: &State) {
        let named: Vec<String> = state.named().map(file_of).collect();
        let old = SystemTime::now().checked_sub(UNNAMED_STAYS);
        let ours = |name: &str| name == FILE || name.strip_suffix(ENDING).is_some_and(digest::is_one);
        let unnamed = self.folder.newest(ours).into_iter();
        let unnamed = unnamed.filter(|file| file.name != FILE && !named.contains(&file.name));
        for (place, file) in unnamed.enumerate() {
            if place + named.len() >= KEPT || old.is_some_and(|old| file.modified < old) {
                self.folder.remove(&file.name);
            }
        }
    }
}

/// The time now as the state has it: RFC 3339, UTC, to the millisecond.
#[must_use]
pub fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

const ENDING: &str = ".wasm";

fn file_of(digest: &str) -> String {
    format!("{digest}{ENDING}")
}
