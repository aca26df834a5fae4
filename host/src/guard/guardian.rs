//! The guardian: one thread, one loop, no allocation to speak of and nothing to wait for but events. It
//! trusts neither `run` to be alive nor the command to be willing.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as Blocked};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitIdStatus, getpid, set_child_subreaper};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::arguments;
use super::cgroup::Cgroup;
use super::command::GO;
use super::link::{Link, Received};
use super::plan::{Plan, Step};
use super::protocol::{MESSAGE_BYTES, Order, Report};
use super::terminal;
use super::tree::Tree;
use crate::clock::{Clock, Steady};

/// What to guard.
pub(super) struct Guarding {
    /// From asking to killing, at most.
    pub(super) grace: Duration,
    /// The group that the terminal belongs to, when the command is to have it.
    pub(super) terminal: Option<Pid>,
    /// The control group made for the command.
    pub(super) cgroup: Option<Cgroup>,
    /// The command.
    pub(super) command: Vec<OsString>,
}

/// Run the command and return when it and all that came of it is dead.
pub(super) fn run(guarding: Guarding) -> io::Result<()> {
    let link = Link::take_over()?;
    // Nothing that can be blocked disturbs this process; what becomes the command lifts that again.
    SigSet::all().thread_block()?;
    // Where SIGCHLD is ignored, which is inherited, the kernel reaps children by itself and tells nobody how
    // they ended. Any handler undoes that; this one never runs.
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default())?;
    let children = SignalFd::with_flags(
        &SigSet::from_iter([Blocked::SIGCHLD]),
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?;
    set_child_subreaper(Some(getpid()))?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;

    let clock = Clock::machine();
    let mut buffer = [0; MESSAGE_BYTES];
    let Some(Order::Until(until)) = hear(&link, &mut buffer)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the first word was not a deadline"));
    };
    if until <= clock.now() {
        // Nothing was started, so nothing is left.
        let _ = link.send(&Report::Gone.to_string());
        return Ok(());
    }
    let plan = Plan::new(until, guarding.grace, clock.now());
    let (command, birth) = spawn(&guarding)?;
    // Before anything of it runs: should this process be killed, `run` has to find what it left.
    link.send(&Report::Born(command.as_raw_pid()).to_string())?;
    birth.send(GO)?;
    Guardian {
        clock,
        link,
        listening: true,
        timer,
        children,
        plan,
        tree: Tree::new(command, guarding.cgroup),
        command,
        birth: Some(birth),
        told: false,
        terminal: guarding.terminal,
    }
    .watch()
}

fn spawn(guarding: &Guarding) -> io::Result<(Pid, Link)> {
    let (ours, theirs) = Link::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("incumbent").args(arguments::becoming(guarding, getpid()));
    // A group from birth, so that nothing of it is ever in ours.
    let child = command.process_group(0).stdin(theirs).spawn()?;
    Ok((Pid::from_child(&child), ours))
}

/// The next order. None when it is malformed or the other side is gone.
fn hear(link: &Link, buffer: &mut [u8; MESSAGE_BYTES]) -> io::Result<Option<Order>> {
    Ok(match link.receive(buffer)? {
        Received::Message(length) => buffer.get(..length).and_then(Order::parse),
        Received::Malformed | Received::Closed => None,
    })
}

struct Guardian {
    clock: Clock,
    link: Link,
    /// Until the link closes or talks nonsense.
    listening: bool,
    timer: OwnedFd,
    children: SignalFd,
    plan: Plan,
    tree: Tree,
    command: Pid,
    /// To the process that becomes the command, until it has.
    birth: Option<Link>,
    /// Whether the command's end was reported.
    told: bool,
    terminal: Option<Pid>,
}

impl Guardian {
    fn watch(mut self) -> io::Result<()> {
        loop {
            let status = self.tree.ended();
            // After that look: a command that has ended was born.
            self.see_birth();
            if let Some(status) = status {
                self.see_end(status);
            }
            // Told first: the command may end between these two looks.
            if self.told && self.tree.is_gone() {
                break;
            }
            self.see_stop();
            let due = self.act()?;
            self.sleep(due)?;
            while let Ok(Some(_)) = self.children.read_signal() {}
            self.obey();
        }
        if let Some(owner) = self.terminal {
            terminal::give_back(self.command, owner);
        }
        self.report(Report::Gone);
        Ok(())
    }

    /// ^Z on a terminal that was lent: nobody is there to wake the command up again, and a lease is not kept
    /// for what sleeps. A stop from elsewhere is left alone.
    fn see_stop(&self) {
        if self.terminal.is_some() && self.tree.stopped() == Some(Signal::TSTP.as_raw()) {
            self.tree.signal(Signal::CONT);
        }
    }

    /// Do what is due; when to do so again, if not at an event.
    fn act(&mut self) -> io::Result<Option<Steady>> {
        let now = self.clock.now();
        if !self.plan.ending() && !matches!(self.plan.step(now), Step::Wait(_)) {
            self.report(Report::Overdue);
            self.begin_end();
        }
        match self.plan.step(now) {
            Step::Wait(at) => {
                if self.plan.ending() {
                    self.tree.terminate_strays();
                } else {
                    self.tree.reap_strays();
                }
                Ok(Some(at))
            }
            Step::Terminate | Step::Kill => {
                self.tree.kill();
                Ok(None)
            }
        }
    }

    /// Wait for an event, until the instant `due`.
    fn sleep(&self, due: Option<Steady>) -> io::Result<()> {
        if let Some(Steady(at)) = due {
            // poll's own time-out stands still while the machine sleeps; this clock does not.
            let at = Duration::from_nanos(at.max(1));
            let at = Timespec::try_from(at).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        }
        let again = self.plan.ending().then_some(LOOK_AGAIN);
        let mut events = Vec::with_capacity(4);
        events.push(PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN));
        if due.is_some() {
            events.push(PollFd::new(&self.timer, PollFlags::IN));
        }
        if self.listening {
            events.push(PollFd::new(&self.link, PollFlags::IN));
        }
        if let Some(birth) = &self.birth {
            events.push(PollFd::new(birth, PollFlags::IN));
        }
        match poll(&mut events, again.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Follow all orders that have come.
    fn obey(&mut self) {
        let mut buffer = [0; MESSAGE_BYTES];
        while self.listening {
            match hear(&self.link, &mut buffer) {
                Ok(Some(Order::Until(until))) => self.plan.extend(until, self.clock.now()),
                Ok(Some(Order::Signal(signal))) => self.tree.signal(signal),
                Ok(Some(Order::End)) => self.begin_end(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // `run` was killed, or is not to be trusted any more.
                Ok(None) | Err(_) => {
                    self.listening = false;
                    self.begin_end();
                }
            }
        }
    }

    fn begin_end(&mut self) {
        if !self.plan.ending() {
            self.plan.end(self.clock.now());
            self.tree.terminate();
        }
    }

    /// Has the process become the command, or failed to?
    fn see_birth(&mut self) {
        let Some(birth) = &self.birth else { return };
        let mut buffer = [0; MESSAGE_BYTES];
        let report = match birth.receive(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(Received::Message(length)) => buffer.get(..length).and_then(Report::parse),
            Ok(_) | Err(_) => None,
        };
        self.birth = None;
        if let Some(failed @ Report::Failed(_)) = report {
            self.told = true;
            self.report(failed);
        } else {
            self.report(Report::Started(self.command.as_raw_pid()));
        }
    }

    /// The command has ended; what it left behind is ended too.
    fn see_end(&mut self, status: WaitIdStatus) {
        self.begin_end();
        if !std::mem::replace(&mut self.told, true) {
            self.report(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Report::Exited(code),
                (None, signal) => Report::Signaled(signal.unwrap_or(0)),
            });
        }
    }

    /// Tell `run`, if it is there to hear.
    fn report(&self, report: Report) {
        let _ = self.link.send(&report.to_string());
    }
}

/// How often to look for strays while ending: one that is orphaned alive gives no event.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
