//! A command that is dead before another instance could take the lease, whatever becomes of this one.
//!
//! `incumbent run` may be killed, stopped, or wedged in a system call; the command that it started would
//! live on, beside that of the next holder. So a process of its own, the *guardian*, holds the deadline:
//!
//! ```text
//! run ──────────────► guardian ───────────────► command ──► what it starts
//!     until, signal,           TERM, KILL
//!     end                      to all of it
//!     ◄──────────────
//!     born, started, exited, gone
//! ```
//!
//! * `run` tells it the new `until` at each renewal. Without one, the guardian asks the command to end
//!   (SIGTERM) and kills it, 100 ms before `until` by the clock that counts time asleep.
//! * When `run` is killed, the socket between them closes, and the guardian ends the command at once.
//! * All of it: the command's process group, what forked twice or made a session of its own (the guardian
//!   is the subreaper, so orphans become its children), and a control group where one may be made. `gone`
//!   is said when the kernel knows no descendant any more; the lease is given back after that.
//! * When the guardian is killed, the kernel kills the command with it, and `run` the rest of its group.
//!   Only what had left the group survives that, where there is no control group.
//!
//! What cannot be helped: a process in uninterruptible sleep dies when it wakes up; a set-user-id command
//! is not ours to signal outside of a control group; a machine that slept past `until` ends the command
//! when it wakes up. The receiver's fence is for these.

mod arguments;
mod cgroup;
mod command;
mod group;
mod guarded;
mod guardian;
mod link;
mod plan;
mod protocol;
mod terminal;
mod tree;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

pub use guarded::{GuardOptions, Guarded};

/// The hidden first argument by which an executable is told to call [`guardian_main`].
pub const WORD: &str = "__guard";

/// How a guarded command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the command itself ended.
    pub status: Status,
    /// Whether it was ended because its time ran out, whatever its status then says.
    pub overdue: bool,
    /// Whether nothing that came of it lives any more. If not, leave the lease to expire.
    pub all_gone: bool,
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited, with this code.
    Exit(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// The guardian died first, and took the command with it.
    GuardianDied,
}

/// Why a command is not run, or its guardian not reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// Nothing to run was given.
    #[error("no command was given; put it after `--`")]
    NoCommand,
    /// There is no such program. Shells say 127.
    #[error("command {command:?} not found; give a path, or a name that is in PATH")]
    NotFound {
        /// The program as it was given.
        command: OsString,
    },
    /// The program is there and cannot be executed. Shells say 126.
    #[error("command {command:?} cannot be executed")]
    NotExecutable {
        /// The program as it was given.
        command: OsString,
        /// What the kernel said.
        source: io::Error,
    },
    /// The deadline passed before the command ran: the machine is overloaded, or the ttl too short for it.
    #[error("command {command:?} was not started, its time was over before it ran; try a longer ttl")]
    Late {
        /// The program as it was given.
        command: OsString,
    },
    /// The guardian was killed as the command started, and not all that it had started is gone. Leave the lease to expire.
    #[error("the guardian of the command was killed as it started, and not all of the command is gone")]
    Left,
    /// No guardian could be started, or it is not to be reached. The command does not run or is being ended.
    #[error("the guardian of the command is not to be reached; it needs /proc, and not to be killed")]
    Guardian {
        /// What went wrong.
        source: io::Error,
    },
    /// Only named signals can be passed on.
    #[error("there is no signal {signal} to pass on")]
    NoSignal {
        /// The number that was given.
        signal: i32,
    },
}

/// What an executable does when its first argument is [`WORD`], given the arguments after it, before
/// anything else: no thread may have been started. Returns when there is nothing left to guard.
pub fn guardian_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let ran = match arguments::parse(arguments) {
        Some(arguments::Role::Guardian(guarding)) => guardian::run(guarding),
        Some(arguments::Role::Command(becoming)) => command::run(becoming),
        None => Err(io::Error::other(format!("`{WORD}` is for `incumbent run` alone"))),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever read it may be gone.
            let _ = writeln!(io::stderr(), "incumbent: guardian: {error}");
            ExitCode::FAILURE
        }
    }
}
