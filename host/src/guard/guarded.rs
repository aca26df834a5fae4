//! The side of `run`: starts the guardian, tells it of each renewal, hears from it how the command fares.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::UnixDatagram;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use super::arguments;
use super::cgroup::Cgroup;
use super::guardian::Guarding;
use super::link::{Link, Received};
use super::plan::SLACK;
use super::protocol::{MESSAGE_BYTES, Order, Report};
use super::{Ended, GuardError, Status, group, terminal};
use crate::clock::{Clock, Steady};

/// What to run, and until when.
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// The program, looked for in PATH, and its arguments.
    pub command: Vec<OsString>,
    /// What its environment has besides this process's own.
    pub env: Vec<(String, String)>,
    /// It must be dead before this instant, unless [`Guarded::extend`]ed.
    pub until: Steady,
    /// How long it has to end by itself after SIGTERM; at most a quarter of what remains until `until`.
    pub grace: Duration,
    /// What its standard input is; this process's own when none is given.
    pub stdin: Option<Arc<OwnedFd>>,
    /// The executable that is the guardian when started with [`WORD`](super::WORD): this process's own
    /// when none is given.
    pub executable: Option<PathBuf>,
}

/// A command that runs under a guardian. Dropping this ends the command.
#[derive(Debug)]
pub struct Guarded {
    link: Link<UnixDatagram>,
    guardian: Child,
    pid: Pid,
    cgroup: Option<Cgroup>,
    until: AtomicU64,
    status: Option<Status>,
    ended: Option<Ended>,
    forced: bool,
    overdue: bool,
}

impl Guarded {
    /// Start the command under a guardian of its own; returns once it executes.
    ///
    /// Standard output and error are this process's, and so is standard input unless another is given. When this process is its terminal's foreground,
    /// the command is until it ends.
    ///
    /// # Errors
    ///
    /// The command is not there or not executable, no guardian could be had, or `until` passed meanwhile.
    /// Nothing runs then, or the guardian is ending it; but for [`GuardError::Left`].
    pub async fn spawn(options: GuardOptions) -> Result<Self, GuardError> {
        let program = options.command.first().cloned().ok_or(GuardError::NoCommand)?;
        let guarding = Guarding {
            grace: options.grace,
            terminal: terminal::foreground(),
            cgroup: Cgroup::make(),
            command: options.command,
        };
        let cgroup = guarding.cgroup.clone();
        let (env, stdin) = (options.env, options.stdin.as_deref());
        let spawned = Self::start(guarding, env, stdin, options.until, options.executable).await;
        let failed = match spawned {
            Ok(guarded) => return Ok(guarded),
            Err(failed) => failed,
        };
        if let Some(cgroup) = cgroup {
            // The guardian did, unless it never got there.
            cgroup.remove();
        }
        Err(match failed {
            Failed::Guardian(source) => GuardError::Guardian { source },
            Failed::Late => GuardError::Late { command: program },
            Failed::Left => GuardError::Left,
            Failed::Command(source) if source.kind() == io::ErrorKind::NotFound => {
                GuardError::NotFound { command: program }
            }
            Failed::Command(source) => GuardError::NotExecutable { command: program, source },
        })
    }

    async fn start(
        guarding: Guarding,
        env: Vec<(String, String)>,
        stdin: Option<&OwnedFd>,
        until: Steady,
        executable: Option<PathBuf>,
    ) -> Result<Self, Failed> {
        let (ours, theirs) = match stdin {
            Some(stdin) => Link::pair_with(stdin.as_fd())?,
            None => Link::pair()?,
        };
        ours.send(&Order::Until(until).to_string())?;
        let mut command = std::process::Command::new(executable.unwrap_or("/proc/self/exe".into()));
        // A group of its own: what ends this process's whole group must not end its guardian.
        command
            .arg0("incumbent")
            .args(arguments::guarding(&guarding))
            .envs(env)
            .process_group(0)
            .stdin(theirs);
        let mut command = tokio::process::Command::from(command);
        let guardian = command.spawn()?;
        // It holds the guardian's end of the link; while that is open here, the guardian seems alive.
        drop(command);
        let link = ours.into_async()?;
        let remaining = until.since(Clock::machine().now());
        let pid = match timeout(remaining, hear(&link)).await {
            // A signal to the group of 1 would be one to every process there is.
            Ok(Some(Report::Born(pid))) if pid > 1 => Pid::from_raw(pid).ok_or_else(died)?,
            Ok(Some(Report::Gone)) | Err(_) => return Err(Failed::Late),
            Ok(_) => return Err(Failed::Guardian(died())),
        };
        let guarded = Self {
            link,
            guardian,
            pid,
            cgroup: guarding.cgroup,
            until: AtomicU64::new(until.0),
            status: None,
            ended: None,
            forced: false,
            overdue: false,
        };
        guarded.started(until).await
    }

    /// Until what was born has become the command.
    async fn started(mut self, until: Steady) -> Result<Self, Failed> {
        loop {
            let remaining = until.since(Clock::machine().now());
            match timeout(remaining, hear(&self.link)).await {
                Ok(Some(Report::Started(_))) => return Ok(self),
                Ok(Some(Report::Failed(error))) => {
                    return Err(Failed::Command(io::Error::from_raw_os_error(error)));
                }
                // What becomes of it is said yet.
                Ok(Some(Report::Overdue)) => self.overdue = true,
                Ok(Some(Report::Gone)) | Err(_) => return Err(Failed::Late),
                // It may have become the command, and started others, before its guardian was killed.
                Ok(_) if self.kill_group().await => return Err(Failed::Guardian(died())),
                Ok(_) => return Err(Failed::Left),
            }
        }
    }

    /// The process number of the command, which is also that of its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// The command may run until `until`, which was promised by a renewal; the last one said counts.
    ///
    /// # Errors
    ///
    /// The guardian cannot be told: it is dead or does not listen. It then ends the command at the last
    /// `until` it heard, and [`wait`](Self::wait) says so.
    pub fn extend(&self, until: Steady) -> Result<(), GuardError> {
        self.order(Order::Until(until))?;
        self.until.store(until.0, Ordering::Relaxed);
        Ok(())
    }

    /// Pass a signal on to the command's process group.
    ///
    /// # Errors
    ///
    /// There is no such signal, or it is a real-time one; or the guardian cannot be told.
    pub fn signal(&self, signal: i32) -> Result<(), GuardError> {
        let signal = Signal::from_named_raw(signal).ok_or(GuardError::NoSignal { signal })?;
        self.order(Order::Signal(signal))
    }

    /// End the command: SIGTERM now, SIGKILL after the grace, and never later than `until`.
    pub fn end(&self) {
        // A guardian that cannot be told ends it without being told.
        let _ = self.order(Order::End);
    }

    /// Wait until the command and all that came of it is dead, by itself or not.
    ///
    /// Cancel-safe: dropped and called again, it goes on where it was; after the end it gives the same.
    pub async fn wait(&mut self) -> Ended {
        loop {
            if let Some(ended) = self.ended {
                return ended;
            }
            let until = Steady(self.until.load(Ordering::Relaxed));
            let late = until.since(Clock::machine().now()).saturating_sub(SLACK / 2);
            let forced = self.forced;
            let report = tokio::select! {
                biased;
                report = hear(&self.link) => report,
                () = sleep(late), if !forced => {
                    self.force();
                    continue;
                }
            };
            match report {
                Some(Report::Exited(code)) => self.status = Some(Status::Exit(code)),
                Some(Report::Signaled(signal)) => self.status = Some(Status::Signal(signal)),
                Some(Report::Gone) => {
                    let status = self.status.unwrap_or(Status::GuardianDied);
                    self.ended = Some(Ended { status, overdue: self.overdue, all_gone: true });
                }
                Some(Report::Overdue) => self.overdue = true,
                // Said before, and twice is as good as once.
                Some(Report::Born(_) | Report::Started(_) | Report::Failed(_)) => {}
                None => {
                    let all_gone = self.kill_group().await;
                    let status = self.status.unwrap_or(Status::GuardianDied);
                    self.ended = Some(Ended { status, overdue: self.overdue, all_gone });
                }
            }
        }
    }

    fn order(&self, order: Order) -> Result<(), GuardError> {
        self.link.send(&order.to_string()).map_err(|source| GuardError::Guardian { source })
    }

    /// The guardian should have killed all by now and has not: it may be stopped. Wake it, and do what can
    /// be done from here.
    fn force(&mut self) {
        self.forced = true;
        self.overdue = true;
        if let Some(guardian) = self.guardian.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            let _ = kill_process(guardian, Signal::CONT);
        }
        self.kill();
    }

    fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            let _ = cgroup.kill();
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// The guardian is dead, and with it the command itself, by the kernel's hand. Kill its group, at once,
    /// before its number could be another's. Whether all is gone, as far as can be told from here: what had
    /// left the group lives on where no control group could be made.
    async fn kill_group(&mut self) -> bool {
        for _ in 0..LOOKS {
            self.kill();
            let empty = self.cgroup.as_ref().is_none_or(Cgroup::is_empty);
            if empty && group::is_gone(self.pid) {
                if let Some(cgroup) = self.cgroup.take() {
                    cgroup.remove();
                }
                return true;
            }
            sleep(LOOK_AGAIN).await;
        }
        false
    }
}

/// The next report, none when the guardian is dead or talks nonsense. Cancel-safe.
async fn hear(link: &Link<UnixDatagram>) -> Option<Report> {
    let mut buffer = [0; MESSAGE_BYTES];
    let received = link.next(&mut buffer).await.ok()?;
    match received {
        Received::Message(length) => Report::parse(buffer.get(..length)?),
        Received::Malformed | Received::Closed => None,
    }
}

/// Why the command could not be started.
enum Failed {
    Guardian(io::Error),
    Command(io::Error),
    Late,
    Left,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Guardian(error)
    }
}

fn died() -> io::Error {
    io::Error::other("it ended, or was killed, before it said that the command runs")
}

/// How often to look whether a killed group is gone, and for how long: 2 s. What takes longer hangs in the
/// kernel.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOKS: u32 = 400;
