//! What it takes to run commands under a guardian and to see who lives.

use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use incumbent::clock::{Clock, Steady};
use incumbent::guard::{Ended, GuardOptions, Guarded};
use incumbent_tests::command::incumbent;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, send, sendmsg, socketpair,
};
use rustix::process::Pid;
use tempfile::TempDir;

/// A child and a grandchild, both without a wish to end.
pub(super) const FAMILY: &str = "sleep 999 & echo $! >$D/child.new; mv $D/child.new $D/child; wait";

/// A grandchild in a session of its own, whose parent has gone.
pub(super) const RUNAWAY: &str =
    "setsid sh -c 'sleep 999 & echo $! >$D/child.new; mv $D/child.new $D/child' & wait;";

/// A folder for what the scripts say, and what it takes to run them.
pub(super) struct Stage {
    pub(super) folder: TempDir,
    executable: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self { folder: TempDir::new().expect("a temporary folder"), executable: incumbent() }
    }

    pub(super) fn soon(&self) -> Steady {
        Clock::machine().now().plus(SHORT)
    }

    pub(super) fn options(&self, script: &str) -> GuardOptions {
        let folder = self.folder.path().to_str().expect("temporary folders have plain names");
        GuardOptions {
            command: vec!["sh".into(), "-c".into(), script.into()],
            env: vec![("D".into(), folder.into())],
            until: Clock::machine().now().plus(LIMIT),
            grace: GRACE,
            stdin: None,
            executable: Some(self.executable.clone()),
        }
    }

    pub(super) async fn run(&self, script: &str) -> Guarded {
        Guarded::spawn(self.options(script)).await.expect("the command starts")
    }

    pub(super) async fn run_until(&self, script: &str, until: Steady) -> Guarded {
        let options = GuardOptions { until, ..self.options(script) };
        Guarded::spawn(options).await.expect("the command starts")
    }

    pub(super) fn holder(&self, script: &str) -> Command {
        let mut holder = Command::new(std::env::current_exe().expect("a test has an executable"));
        holder
            .args(["--exact", "guardian::holder", "--ignored", "--nocapture"])
            .env("SCRIPT", script)
            .env("INCUMBENT", &self.executable)
            .env("D", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        holder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The process that the script said, once it has.
    pub(super) fn child(&self) -> u32 {
        self.said("child")
    }

    /// The command of a holder.
    pub(super) fn command(&self) -> u32 {
        self.said("command")
    }

    pub(super) fn said(&self, name: &str) -> u32 {
        eventually("the process number is there", || self.path(name).exists());
        fs::read_to_string(self.path(name)).expect("it is there").trim().parse().expect("a number")
    }
}

/// A guardian spoken to without the library: what it says and hears on the wire, and no control group.
pub(super) struct Bare {
    pub(super) guardian: Child,
    pub(super) link: OwnedFd,
}

impl Bare {
    pub(super) fn start(stage: &Stage, script: &str) -> Self {
        let (link, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        set_socket_timeout(&link, Timeout::Recv, Some(LIMIT)).expect("a limit");
        let input = fs::File::open("/dev/null").expect("it is there");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let passed = [input.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
        sendmsg(&link, &[IoSlice::new(b"stdin")], &mut ancillary, SendFlags::NOSIGNAL).expect("it fits");
        let until = Clock::machine().now().plus(LIMIT).0;
        send(&link, format!("until {until}").as_bytes(), SendFlags::NOSIGNAL).expect("it fits");
        let grace = GRACE.as_nanos().to_string();
        let guardian = Command::new(&stage.executable)
            .args(["__guard", "guardian", &grace, "0", "", "sh", "-c", script])
            .env("D", stage.folder.path())
            .stdin(theirs)
            .process_group(0)
            .spawn()
            .expect("a guardian starts");
        Self { guardian, link }
    }

    pub(super) fn say(&self, message: &str) {
        send(&self.link, message.as_bytes(), SendFlags::NOSIGNAL).expect("it listens");
    }

    pub(super) fn hear(&self) -> String {
        let mut buffer = [0; 64];
        let (_, length) = recv(&self.link, &mut buffer[..], RecvFlags::empty()).expect("it speaks");
        String::from_utf8(buffer[..length].to_vec()).expect("it speaks plainly")
    }

    pub(super) fn started(&mut self) -> u32 {
        assert!(self.hear().starts_with("born "), "known before it runs");
        self.hear().strip_prefix("started ").expect("it has started").parse().expect("a number")
    }
}

/// Whether a process is there and not merely waiting to be reaped.
pub(super) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

pub(super) fn parent(pid: u32) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).expect("the second field");
    Pid::from_raw(parent.parse().expect("a number")).expect("it has a parent")
}

/// How the command ended.
pub(super) async fn end_of(guarded: &mut Guarded) -> Ended {
    // Twice: what nobody ends is ended at its deadline, and then the message is about how.
    tokio::time::timeout(LIMIT * 2, guarded.wait()).await.expect("it ends")
}

/// How the process ended, which it does without being made to.
pub(super) fn ends(process: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("it is ours") {
            return status;
        }
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {process:?} ends");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// From asking to killing.
pub(super) const GRACE: Duration = Duration::from_millis(400);

/// A deadline that a test waits for.
pub(super) const SHORT: Duration = Duration::from_millis(1500);

/// Longer than anything here takes.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
