//! `incumbent run` as a process of its own, whose lines are heard and whose command leaves a mark.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::command::incumbent;

/// How long an event may take on a busy machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Holds a lock for as long as it or anything it started lives, and writes down what it sees: a second one
/// beside it is an overlap.
const SCRIPT: &str = r#"
exec 9>>"$ARENA/lock"
flock -n 9 || echo "overlap $INCUMBENT_EPOCH" >> "$ARENA/log"
echo "start $INCUMBENT_EPOCH $$" >> "$ARENA/log"
sleep 999 & wait
"#;

/// Where several instances stand for one lease, and what their commands wrote down.
#[derive(Debug)]
pub struct Arena {
    folder: TempDir,
    store: String,
    options: Vec<String>,
}

/// One start of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The epoch it was told.
    pub epoch: u64,
    /// Its process.
    pub pid: i32,
}

impl Arena {
    /// On this store, with these options of `incumbent run`.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn new(store: impl Into<String>, options: &[&str]) -> Result<Self> {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Ok(Self { folder: TempDir::with_prefix("arena-")?, store: store.into(), options })
    }

    /// On a SQLite file of its own.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn sqlite(options: &[&str]) -> Result<Self> {
        let mut arena = Self::new("", options)?;
        arena.store = format!("sqlite:{}", arena.folder().join("leases.db").display());
        Ok(arena)
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command with this arena's store and state folder, for any subcommand.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(incumbent());
        command
            .args(arguments)
            .env("INCUMBENT_STORE", &self.store)
            .env("XDG_STATE_HOME", self.folder().join("state"))
            .env("ARENA", self.folder())
            .stdin(Stdio::null());
        command
    }

    /// Another instance that stands for the lease `office`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn stand(&self, instance: &str) -> Result<Running> {
        self.stand_with(instance, &["sh", "-c", SCRIPT])
    }

    /// Another instance that stands for the lease `office`, with a command of its own.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn stand_with(&self, instance: &str, run: &[&str]) -> Result<Running> {
        let mut command = self.command(&["run", "--lease", "office", "--instance", instance]);
        command.args(&self.options).arg("--").args(run).stdout(Stdio::null());
        Running::start(command)
    }

    /// The starts so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn starts(&self) -> Result<Vec<Start>> {
        let log = match fs::read_to_string(self.log()) {
            Ok(log) => log,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why.into()),
        };
        let start = |line: &str| {
            let mut words = line.strip_prefix("start ")?.split(' ');
            Some(Start { epoch: words.next()?.parse().ok()?, pid: words.next()?.parse().ok()? })
        };
        Ok(log.lines().filter_map(start).collect())
    }

    /// Waits until this many commands have started, and answers the last one.
    ///
    /// # Errors
    /// It took too long.
    pub fn started(&self, count: usize) -> Result<Start> {
        let starts = until("a command has started", || {
            let starts = self.starts()?;
            Ok((starts.len() >= count).then_some(starts))
        })?;
        starts.get(count - 1).copied().context("counted above")
    }

    /// Fails when two commands ran at one time, or an epoch did not rise.
    ///
    /// # Errors
    /// What was seen.
    pub fn check(&self) -> Result<()> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        if log.contains("overlap") {
            bail!("two commands ran at one time:\n{log}");
        }
        if !self.starts()?.is_sorted_by(|one, next| one.epoch < next.epoch) {
            bail!("an epoch did not rise:\n{log}");
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.folder().join("log")
    }
}

/// A running `incumbent run`; killed when dropped, and its guardian ends the command then.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Running {
    /// Starts it and listens to its standard error.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn().context("incumbent cannot be started")?;
        let said = BufReader::new(child.stderr.take().context("its standard error is piped")?);
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, heard: Vec::new() })
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Send it a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for a line that contains this, and answers it.
    ///
    /// # Errors
    /// It did not come; what did is in the error.
    pub fn hears(&mut self, words: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(words) {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    bail!("no line with {words:?} came, but: {:#?}", self.heard)
                }
            }
        }
    }

    /// All that it said, once it has ended.
    pub fn all_said(&mut self) -> Vec<String> {
        self.heard.extend(self.lines.iter());
        self.heard.clone()
    }

    /// Waits for its end: the exit code, or 128 and the signal.
    ///
    /// # Errors
    /// It took too long.
    pub fn ended(&mut self) -> Result<i32> {
        let status: ExitStatus = until("it has ended", || Ok(self.child.try_wait()?))?;
        status.code().or(status.signal().map(|signal| 128 + signal)).context("a code or a signal")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already, or a stopped one: SIGKILL reaches both.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end: the exit code, what it wrote and what it said.
///
/// # Errors
/// It cannot be started.
pub fn output(command: &mut Command) -> Result<(i32, String, String)> {
    let Output { status, stdout, stderr } = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((status.code().unwrap_or(-1), text(&stdout), text(&stderr)))
}

/// Whether a process lives (a zombie does not).
#[must_use]
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Asks again until there is an answer.
///
/// # Errors
/// What asking said, or that it took too long.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("gave up waiting until {what}")
}
