//! The process that becomes the command: it does to itself what has to be done before the command's
//! first instruction, and then executes it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::cgroup::Cgroup;
use super::link::{Link, Received};
use super::protocol::{MESSAGE_BYTES, Report};
use super::terminal;

/// From the guardian to the process that is to become the command: `run` knows of it.
pub(super) const GO: &str = "go";

/// How to become the command.
pub(super) struct Becoming {
    /// The guardian, whose death is to be this process's too.
    pub(super) guardian: Pid,
    /// The group that the terminal belongs to, when the command is to have it.
    pub(super) terminal: Option<Pid>,
    /// The control group to be in.
    pub(super) cgroup: Option<Cgroup>,
    /// The program, looked for in PATH, and its arguments.
    pub(super) command: Vec<OsString>,
}

/// Become the command. Returns only when that failed, which the guardian has then been told: it sees
/// success by the link closing without a word.
pub(super) fn run(becoming: Becoming) -> io::Result<()> {
    let link = Link::take_over()?;
    let Err(error) = become_command(becoming, &link);
    // InvalidInput, of a zero byte in an argument, is the one without a number.
    let number = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
    link.send(&Report::Failed(number).to_string())
}

/// Waits for the guardian's word that this process is known of. `false` when it is dead.
fn is_let_go(link: &Link) -> io::Result<bool> {
    let mut buffer = [0; MESSAGE_BYTES];
    loop {
        match link.receive(&mut buffer) {
            Ok(Received::Message(length)) => return Ok(buffer.get(..length) == Some(GO.as_bytes())),
            Ok(Received::Malformed | Received::Closed) => return Ok(false),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                // Interrupted or not, the next look tells.
                let _ = poll(&mut [PollFd::new(link, PollFlags::IN)], None);
            }
            Err(why) => return Err(why),
        }
    }
}

fn become_command(becoming: Becoming, link: &Link) -> io::Result<std::convert::Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(becoming.guardian) {
        // It died before that was set.
        return Err(rustix::io::Errno::OWNERDEAD.into());
    }
    if !is_let_go(link)? {
        return Err(rustix::io::Errno::OWNERDEAD.into());
    }
    if let Some(cgroup) = becoming.cgroup {
        // Where it cannot, the walk over descendants does without.
        let _ = cgroup.join();
    }
    if let Some(owner) = becoming.terminal {
        terminal::lend(owner, getpid());
    }
    // The guardian's mask is inherited, and a shell that inherits it hears no SIGTERM and waits for ever.
    SigSet::empty().thread_set_mask()?;
    let (program, arguments) = becoming.command.split_first().ok_or(rustix::io::Errno::INVAL)?;
    // Also puts SIGPIPE back to what a program expects.
    Err(Command::new(program).args(arguments).exec())
}
