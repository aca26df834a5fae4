//! A small disk of its own for a file: a file system in memory, mounted where only this process and those that it starts
//! see it, and gone with them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;

use super::site::PATIENCE;

/// Room for a file of leases, a floor, and the log, which is cut at 4 MiB.
const SIZE: &str = "8m";

/// Set for a process that may mount what nobody else sees: the mount namespace of whoever started it.
const MAY_MOUNT: &str = "INCUMBENT_MAY_MOUNT";

/// What is written to fill it up.
const FILLING: &str = "filling";

/// Become this program once more, with the same arguments, where it may mount what nobody else sees. Comes back where it
/// may already, and where the machine lets nobody.
pub fn become_one_who_may_mount() {
    let (Ok(program), Some(outside)) = (std::env::current_exe(), namespace()) else { return };
    if may_mount() {
        return;
    }
    // Root's way, and everybody's.
    for options in [&["--mount"][..], &["--mount", "--user", "--map-root-user"]] {
        let apart = |command: &OsStr| {
            let mut unshare = Command::new("unshare");
            unshare.args(options).arg("--").arg(command);
            unshare
        };
        let mut mount = apart("mount".as_ref());
        mount.args(["-t", "tmpfs", "none", "/tmp"]).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            // Comes back only where it fails.
            let _ =
                apart(program.as_os_str()).args(std::env::args_os().skip(1)).env(MAY_MOUNT, &outside).exec();
        }
    }
}

/// Whether this process may mount.
#[must_use]
pub fn may_mount() -> bool {
    std::env::var_os(MAY_MOUNT).is_some_and(|outside| namespace().is_some_and(|here| here != *outside))
}

/// The mount namespace of this process.
fn namespace() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/ns/mnt").ok()
}

/// The disk; unmounted when dropped.
#[derive(Debug)]
pub(super) struct Disk(PathBuf);

impl Disk {
    /// One at this path.
    ///
    /// # Errors
    /// This process may not mount.
    pub(super) fn mount(path: PathBuf) -> Result<Self> {
        ensure!(may_mount(), "no disk of its own can be mounted here; be root, or allow user namespaces");
        std::fs::create_dir(&path)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={SIZE}"), "none"]).arg(&path);
        ensure!(mount.status()?.success(), "{mount:?} failed");
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Leave no room on it, for anything.
    ///
    /// # Errors
    /// It cannot be filled up.
    pub(super) fn fill(&self, database: &Path) -> Result<()> {
        let database = Connection::open(database)?;
        // What is written next would find room in the log.
        database.busy_timeout(PATIENCE)?;
        let cut_log =
            || database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        let busy = cut_log().context("its log cannot be cut")?;
        ensure!(!busy, "its log is never free to be cut");
        let mut filling = File::create(self.0.join(FILLING))?;
        fill_up(&mut filling)?;
        // What was written since; the file itself may want to grow for it, and cannot.
        let _ = cut_log();
        fill_up(&mut filling)
    }

    /// There is room again.
    ///
    /// # Errors
    /// It is not full.
    pub(super) fn empty(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.0.join(FILLING))?)
    }
}

fn fill_up(file: &mut File) -> Result<()> {
    loop {
        match file.write_all(&[0; 4096]) {
            Err(why) if why.kind() == ErrorKind::StorageFull => return Ok(()),
            done => done?,
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What still has a file of it open keeps it until it ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
