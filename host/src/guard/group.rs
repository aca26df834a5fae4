//! Whether anything of a process group lives, as seen by a process that is not its parent.

use std::fs;
use std::io::ErrorKind;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};

/// Whether the kernel knows no such group, or only what died and was not taken note of yet by whoever became its parent,
/// which may take seconds. What cannot be looked at is there.
///
/// To be asked after the group was killed: what has SIGKILL pending starts nothing any more.
pub(super) fn is_gone(group: Pid) -> bool {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => true,
        // One that may not be signalled.
        Err(_) => false,
        Ok(()) => all_dead(group).unwrap_or(false),
    }
}

/// `None` when that cannot be told.
fn all_dead(group: Pid) -> Option<bool> {
    let mut seen = false;
    for entry in fs::read_dir("/proc").ok()? {
        let entry = entry.ok()?;
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let stat = match fs::read(entry.path().join("stat")) {
            Ok(stat) => stat,
            // Gone since it was listed.
            Err(why)
                if why.kind() == ErrorKind::NotFound
                    || why.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
            {
                continue;
            }
            Err(_) => return None,
        };
        let (of, is_dead) = read(&stat)?;
        if of == group.as_raw_pid() {
            seen = true;
            if !is_dead {
                return Some(false);
            }
        }
    }
    // Of a group that is there nobody was seen, where others' processes are hidden.
    seen.then_some(true)
}

/// The group in the text of /proc/…/stat, and whether the process is dead with all its threads.
fn read(stat: &[u8]) -> Option<(i32, bool)> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let threads: i64 = fields.get(17)?.parse().ok()?;
    Some((fields.get(2)?.parse().ok()?, matches!(*fields.first()?, "Z" | "X") && threads <= 1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    use super::*;

    #[test]
    fn what_is_dead_and_not_taken_note_of_is_gone_and_what_lives_is_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("999")
            .process_group(0)
            .spawn()
            .expect("sleep is installed");
        let group = Pid::from_child(&child);
        assert!(!is_gone(group));
        kill_process_group(group, Signal::KILL).expect("it runs");
        // Its end is waited for, and not taken note of.
        waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child");
        assert!(test_kill_process_group(group).is_ok() && is_gone(group));
        child.wait().expect("it was killed");
        assert!(is_gone(group));
    }

    #[test]
    fn a_leader_that_died_before_its_threads_lives() {
        let stat = |state: &str, threads: u8| {
            format!("7 (a) b) {state} 1 42 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0")
        };
        assert_eq!(read(stat("S", 1).as_bytes()), Some((42, false)));
        assert_eq!(read(stat("Z", 1).as_bytes()), Some((42, true)));
        assert_eq!(read(stat("Z", 2).as_bytes()), Some((42, false)));
        assert_eq!(read(b"7 (sleep) S 1 42"), None);
    }
}
