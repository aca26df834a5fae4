//! Everything that came of the command, found and signalled without ever hitting a stranger.
//!
//! The guardian is the subreaper: whatever loses its parent becomes the guardian's own child. So it is
//! enough to end children, again and again, until the kernel says that there are none; and a child's
//! number cannot pass to another process before the guardian itself has reaped it. For the same reason
//! the command is reaped last: until then its number also stays the number of its group.

use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpgid, getpid, kill_process, kill_process_group,
    waitid,
};

use super::cgroup::Cgroup;

/// The command, its group, and the strays: children of the guardian that the command left behind.
#[derive(Debug)]
pub(super) struct Tree {
    command: Pid,
    reaped: bool,
    cgroup: Option<Cgroup>,
    /// Strays that were asked to end already.
    asked: Vec<Pid>,
}

impl Tree {
    /// What comes of `command`, a child of this process that leads a process group of its own.
    pub(super) fn new(command: Pid, cgroup: Option<Cgroup>) -> Self {
        Self { command, reaped: false, cgroup, asked: Vec::new() }
    }

    /// How the command ended, none while it lives.
    pub(super) fn ended(&self) -> Option<WaitIdStatus> {
        if self.reaped {
            return None;
        }
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.command), look).ok().flatten()
    }

    /// The signal that the command was stopped by since the last look.
    pub(super) fn stopped(&self) -> Option<i32> {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.command), look).ok().flatten()?.stopping_signal()
    }

    /// Pass a signal on to the command's group.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.reaped {
            // The only failures: nobody there any more, or a set-user-id command that is not ours to signal.
            let _ = kill_process_group(self.command, signal);
        }
    }

    /// Ask the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        // What is stopped would not hear it.
        self.signal(Signal::CONT);
    }

    /// Ask strays that left the group to end, each once.
    pub(super) fn terminate_strays(&mut self) {
        let mut strays = self.strays();
        self.asked.retain(|asked| strays.contains(asked));
        strays.retain(|stray| !self.asked.contains(stray));
        for stray in strays {
            if self.reaped || getpgid(Some(stray)) != Ok(self.command) {
                let _ = kill_process(stray, Signal::TERM);
                let _ = kill_process(stray, Signal::CONT);
            }
            self.asked.push(stray);
        }
    }

    /// Kill all that is known. What is orphaned by it is found at the next call.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            // The walk below follows in any case.
            let _ = cgroup.kill();
        }
        self.signal(Signal::KILL);
        for stray in self.strays() {
            let _ = kill_process(stray, Signal::KILL);
        }
    }

    /// Reap the strays that ended.
    pub(super) fn reap_strays(&self) {
        for stray in self.strays() {
            let _ = waitid(WaitId::Pid(stray), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }

    /// Whether nothing is left, once the command has ended. "Cannot tell" is no.
    pub(super) fn is_gone(&mut self) -> bool {
        self.reap_strays();
        if !self.strays().is_empty() || (!self.reaped && self.ended().is_none()) {
            return false;
        }
        // The list of children may miss one that is being born; the kernel's own word is final.
        loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                Ok(Some(_)) => self.reaped = true,
                Ok(None) => return false,
                Err(Errno::CHILD) => break,
                Err(_) => return false,
            }
        }
        self.reaped = true;
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.remove();
        }
        true
    }

    fn strays(&self) -> Vec<Pid> {
        let mut children = children();
        children.retain(|child| self.reaped || *child != self.command);
        children
    }
}

/// The children of this process, which has one thread.
fn children() -> Vec<Pid> {
    let own = getpid();
    match fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        Ok(listed) => {
            listed.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
        }
        // A kernel built without that file.
        Err(_) => children_by_parent(own),
    }
}

fn children_by_parent(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read(entry.path().join("stat")).ok()?;
            (parent_in(&stat)? == parent.as_raw_pid()).then(|| Pid::from_raw(pid))?
        })
        .collect()
}

/// The parent's number in the text of /proc/…/stat, where the name before it may hold anything.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_by_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("999").spawn().expect("sleep is installed");
        let pid = Pid::from_child(&child);
        let found = children_by_parent(getpid());
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        assert!(found.contains(&pid), "{pid:?} in {found:?}");
        assert!(!children_by_parent(getpid()).contains(&pid));
    }

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_obstacle() {
        assert_eq!(parent_in(b"7 (a) S 1 (b) Z 42 7 7 0"), Some(42));
        assert_eq!(parent_in(b"7 (sleep) S 1 7"), Some(1));
        assert_eq!(parent_in(b"7 (sleep"), None);
        assert_eq!(parent_in(b""), None);
    }
}
