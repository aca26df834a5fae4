//! A control group (v2) for the command, where one may be made: the kernel then kills everything in it
//! at once, however it forks. Where none may be made, the walk over descendants does without.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::Clock;

/// One folder of the hierarchy, made for one command.
#[derive(Clone, Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// A new one below this process's own; none where the kernel or the permissions do not allow it.
    pub(super) fn make() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        // The time too: a process number may come again while the folder of a killed one still stands.
        let name = format!(
            "incumbent-{}-{}-{}",
            std::process::id(),
            Clock::machine().now().0,
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let cgroup = Self(own_folder(&mounts, &own)?.join(name));
        fs::create_dir(&cgroup.0).ok()?;
        // Since Linux 5.14; without it the folder is of no use.
        if !cgroup.0.join(KILL).exists() {
            cgroup.remove();
            return None;
        }
        Some(cgroup)
    }

    /// The one at this path.
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Put the calling process into it, and so all that it starts.
    pub(super) fn join(&self) -> io::Result<()> {
        // Zero is whoever writes it.
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    /// Kill everything in it.
    pub(super) fn kill(&self) -> io::Result<()> {
        fs::write(self.0.join(KILL), "1")
    }

    /// Whether nothing in it is alive; a folder that is not there holds nothing.
    pub(super) fn is_empty(&self) -> bool {
        match fs::read_to_string(self.0.join("cgroup.events")) {
            Ok(events) => events.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Remove it, with the groups that the command made below it. One that stays harms nobody.
    pub(super) fn remove(&self) {
        remove(&self.0, NESTED);
    }
}

fn remove(folder: &Path, levels: u8) {
    if fs::remove_dir(folder).is_ok() || levels == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), levels - 1);
        }
    }
    // Nothing to do about a failure: somebody lives there, or it is gone already.
    let _ = fs::remove_dir(folder);
}

/// The folder of this process's own group, from the texts of /proc/self/mountinfo and /proc/self/cgroup.
fn own_folder(mounts: &str, own: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        if filesystem.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, folder) = (fields.next()?, fields.next()?);
        // What the mount shows starts at its root. A group outside of it, and a path with escaped
        // characters, are not worth the trouble.
        let below = Path::new(group).strip_prefix(root).ok()?;
        let plain = !folder.contains('\\') && !group.contains("/..");
        plain.then(|| Path::new(folder).join(below))
    })
}

const KILL: &str = "cgroup.kill";

/// How deep groups of the command's own are removed.
const NESTED: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_folder_is_found_below_the_mount() {
        let own = own_folder(UNIFIED, "0::/system.slice/a.service\n");
        assert_eq!(own, Some(PathBuf::from("/sys/fs/cgroup/system.slice/a.service")));
        let hybrid =
            "30 23 0:27 / /c/pids rw - cgroup cgroup rw,pids\n41 31 0:38 / /c/unified rw - cgroup2 none rw";
        assert_eq!(own_folder(hybrid, "8:pids:/x\n0::/\n"), Some(PathBuf::from("/c/unified/")));
        let rooted = "41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 none rw";
        assert_eq!(own_folder(rooted, "0::/docker/abc/d\n"), Some(PathBuf::from("/sys/fs/cgroup/d")));
    }

    #[test]
    fn no_folder_where_there_is_none() {
        assert_eq!(own_folder(UNIFIED, "8:pids:/x\n"), None);
        assert_eq!(own_folder("30 23 0:27 / /c/pids rw - cgroup cgroup rw,pids", "0::/\n"), None);
        assert_eq!(own_folder(UNIFIED, "0::/../other\n"), None);
        assert_eq!(own_folder("41 31 0:38 /a /c rw - cgroup2 none rw", "0::/b\n"), None);
        assert_eq!(own_folder("nonsense\n\n - \n", "0::/\n"), None);
    }
}
