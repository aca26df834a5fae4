//! The terminal, which belongs to one process group at a time: lent to the command, given back at the end.

use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::process::{Pid, getpgrp, test_kill_process_group};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// This process's group, if it is the one that the terminal on its standard input belongs to.
pub(super) fn foreground() -> Option<Pid> {
    let owner = tcgetpgrp(stdin()).ok()?;
    (owner == getpgrp()).then_some(owner)
}

/// Give the terminal to the group `to`, if it still belongs to `from`.
pub(super) fn lend(from: Pid, to: Pid) {
    pass(to, |owner| owner == from);
}

/// Give the terminal back to the group `to`, if it belongs to `from` or to a dead group, such as that of a
/// job of a killed shell. Otherwise whoever started `run` has taken it already.
pub(super) fn give_back(from: Pid, to: Pid) {
    pass(to, |owner| owner == from || test_kill_process_group(owner) == Err(Errno::SRCH));
}

fn pass(to: Pid, may: impl FnOnce(Pid) -> bool) {
    // To do this from the background stops the caller, unless it does not hear of it. Failures leave the
    // command in the background, which is no reason not to run it.
    let stop = SigSet::from_iter([Signal::SIGTTOU]);
    if stop.thread_block().is_ok() && tcgetpgrp(stdin()).is_ok_and(may) {
        let _ = tcsetpgrp(stdin(), to);
    }
}
