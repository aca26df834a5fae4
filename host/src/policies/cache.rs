//! Compiled policies on disk, so that a restart does not compile them again.
//!
//! What is loaded runs as it is, with the rights of this process. It is therefore only ever what this user's
//! own processes wrote into a folder that nobody else may write to, which is looked at at each load. The
//! checksum is against damage, not against an enemy.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::private::{Folder, FolderError};
use crate::digest;

/// Files in a cache. The oldest go.
const FILES: usize = 16;

/// One file, bytes. The largest policy that may be loaded compiles to some 40 MiB.
const FILE_BYTES: u64 = 64 << 20;

/// What a file begins with, before the checksum of what follows that.
const MAGIC: &[u8; 16] = b"incumbent code 1";
const SUM: usize = 32;

/// A folder of compiled policies. Cheap to clone. Its functions read and write: call them off the async threads.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Folder,
}

impl Cache {
    /// The cache in the folder at `path`, made for this user alone where there is none.
    ///
    /// # Errors
    /// [`FolderError`] when it is somebody else's, others may write to it, or it cannot be made.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        Ok(Self { folder: Folder::open(path.as_ref())? })
    }

    /// The compiled policy of this digest, if this very engine compiled it. Whatever is wrong is a miss.
    #[must_use]
    pub fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let name = name_of(engine, digest)?;
        let miss = |why: &dyn std::fmt::Display| tracing::debug!(file = name, %why, "compiled code not used");
        let file = match self.folder.read(&name, FILE_BYTES) {
            Ok(file) => file?,
            Err(why) => {
                miss(&why);
                return None;
            }
        };
        let Some(code) = checked(&file) else {
            miss(&"it is damaged");
            self.folder.remove(&name);
            return None;
        };
        deserialize(engine, code).inspect_err(|why| miss(&format!("{why:#}"))).ok()
    }

    /// Keep a compiled policy. Where that fails it is compiled again the next time, which the log says.
    pub fn store(&self, engine: &Engine, digest: &str, component: &Component) {
        let Some(name) = name_of(engine, digest) else { return };
        let failed =
            |why: &dyn std::fmt::Display| tracing::debug!(file = name, %why, "compiled code not kept");
        let code = match component.serialize() {
            Ok(code) => code,
            Err(why) => return failed(&format!("{why:#}")),
        };
        if u64::try_from(MAGIC.len() + SUM + code.len()).is_ok_and(|bytes| bytes > FILE_BYTES) {
            return failed(&"it is too large");
        }
        match self.folder.write(&name, &[MAGIC, &Sha256::digest(&code), &code]) {
            Ok(()) => self.prune(),
            Err(why) => failed(&why),
        }
    }

    fn prune(&self) {
        for file in self.folder.newest(|name| name.ends_with(ENDING)).iter().skip(FILES) {
            self.folder.remove(&file.name);
        }
    }
}

const ENDING: &str = ".compiled";

/// The file of a policy as this engine compiles it. The hash is over all that the code depends on: settings,
/// processor, and wasmtime's full version, of which the code's own header names only the first number.
fn name_of(engine: &Engine, digest: &str) -> Option<String> {
    // Its fixed keys make it the same in every process. Where a newer Rust hashes otherwise, all is a miss.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    digest::is_one(digest).then(|| format!("{digest}-{:016x}{ENDING}", hasher.finish()))
}

/// The code in a file that is whole.
fn checked(file: &[u8]) -> Option<&[u8]> {
    let (sum, code) = file.strip_prefix(MAGIC)?.split_at_checked(SUM)?;
    (Sha256::digest(code)[..] == *sum).then_some(code)
}

#[expect(unsafe_code, reason = "wasmtime cannot know who wrote the code that it is to run")]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the code is what `Component::serialize` gave, unchanged since: it comes from `load` alone, which
    // read it from a file whose owner and mode, like its folder's, say that only this user's processes could
    // have written it, and whose checksum fits. An engine of other settings refuses it.
    unsafe { Component::deserialize(engine, code) }
}
