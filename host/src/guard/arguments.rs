//! The command lines of our own processes, written and read in one place.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Pid;

use super::WORD;
use super::cgroup::Cgroup;
use super::command::Becoming;
use super::guardian::Guarding;
use super::protocol::number;
use crate::clock::nanos;

/// What a process of ours was started as.
pub(super) enum Role {
    /// The guardian.
    Guardian(Guarding),
    /// What becomes the command.
    Command(Becoming),
}

/// The command line of a guardian.
pub(super) fn guarding(guarding: &Guarding) -> Vec<OsString> {
    line(GUARDIAN, nanos(guarding.grace).to_string(), guarding)
}

/// The command line of what becomes the command.
pub(super) fn becoming(guarding: &Guarding, guardian: Pid) -> Vec<OsString> {
    line(COMMAND, guardian.as_raw_pid().to_string(), guarding)
}

fn line(role: &str, own: String, guarding: &Guarding) -> Vec<OsString> {
    let terminal = guarding.terminal.map_or(0, Pid::as_raw_pid);
    let cgroup = guarding.cgroup.as_ref().map(|cgroup| cgroup.path().into());
    [WORD.into(), role.into(), own.into(), terminal.to_string().into(), cgroup.unwrap_or_default()]
        .into_iter()
        .chain(guarding.command.iter().cloned())
        .collect()
}

/// The role in a command line, after the hidden word; none when it is not one of the above.
pub(super) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Role> {
    let role = arguments.next()?;
    let own = arguments.next()?;
    let terminal = Pid::from_raw(number(arguments.next()?.to_str()?)?);
    let cgroup = Some(arguments.next()?).filter(|path| !path.is_empty());
    let cgroup = cgroup.map(|path| Cgroup::at(PathBuf::from(path)));
    let command: Vec<_> = arguments.collect();
    if command.is_empty() {
        return None;
    }
    match role.to_str()? {
        GUARDIAN => {
            let grace = Duration::from_nanos(number(own.to_str()?)?);
            Some(Role::Guardian(Guarding { grace, terminal, cgroup, command }))
        }
        COMMAND => {
            let guardian = Pid::from_raw(number(own.to_str()?)?)?;
            Some(Role::Command(Becoming { guardian, terminal, cgroup, command }))
        }
        _ => None,
    }
}

const GUARDIAN: &str = "guardian";
const COMMAND: &str = "command";

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guarding {
        Guarding {
            grace: Duration::from_millis(1500),
            terminal: Pid::from_raw(7),
            cgroup: None,
            command: vec!["sh".into(), "".into(), "-c".into()],
        }
    }

    #[test]
    fn a_guardian_reads_what_was_written_for_it() {
        let Some(Role::Guardian(read)) = parse(guarding(&guard()).into_iter().skip(1)) else {
            panic!("not a guardian");
        };
        assert_eq!((read.grace, read.terminal), (guard().grace, guard().terminal));
        assert!(read.cgroup.is_none());
        assert_eq!(read.command, guard().command);
    }

    #[test]
    fn the_command_reads_what_was_written_for_it() {
        let mut guard = guard();
        guard.terminal = None;
        guard.cgroup = Some(Cgroup::at("/a b".into()));
        let guardian = rustix::process::getpid();
        let Some(Role::Command(read)) = parse(becoming(&guard, guardian).into_iter().skip(1)) else {
            panic!("not a command");
        };
        assert_eq!((read.guardian, read.terminal), (guardian, None));
        assert_eq!(read.cgroup.expect("written").path(), std::path::Path::new("/a b"));
    }

    #[test]
    fn any_other_command_line_is_none() {
        let lines: [&[&str]; 6] = [
            &[],
            &["guardian", "1", "0", ""],
            &["guardian", "x", "0", "", "sh"],
            &["guardian", "1", "-1", "", "sh"],
            &["command", "0", "0", "", "sh"],
            &["other", "1", "0", "", "sh"],
        ];
        for line in lines {
            assert!(parse(line.iter().map(OsString::from)).is_none(), "{line:?}");
        }
    }
}
