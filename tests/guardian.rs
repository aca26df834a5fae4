//! Is the command dead before another could take the lease, whatever is killed or stopped, and does it
//! otherwise run as if nobody stood before it?

mod stage;

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use incumbent::clock::Clock;
use incumbent::guard::{Ended, GuardError, GuardOptions, Guarded, Status};
use rustix::process::{Pid, Signal, kill_process};

use stage::{Bare, FAMILY, GRACE, LIMIT, RUNAWAY, SHORT, Stage, end_of, ends, eventually, lives, parent};

#[tokio::test]
async fn exit_code_and_signal_are_passed_on() {
    let alice = Stage::new();
    let ended = end_of(&mut alice.run("exit 7").await).await;
    assert_eq!(ended, Ended { status: Status::Exit(7), overdue: false, all_gone: true });

    let mut guarded = alice.run("kill -KILL $$").await;
    let ended = Ended { status: Status::Signal(9), overdue: false, all_gone: true };
    assert_eq!(end_of(&mut guarded).await, ended);
    assert_eq!(end_of(&mut guarded).await, ended, "asked again, it says the same");
}

#[tokio::test]
async fn a_command_starts_with_no_signal_blocked() {
    let alice = Stage::new();
    let mut options = alice.options("");
    // Without a shell, which has ways of its own with the mask.
    options.command = ["grep", "-q", "SigBlk:.0*$", "/proc/self/status"].map(OsString::from).into();
    let mut guarded = Guarded::spawn(options).await.expect("the command starts");
    assert_eq!(end_of(&mut guarded).await.status, Status::Exit(0));
}

#[tokio::test]
async fn a_command_that_cannot_run_is_told_apart_from_one_that_is_not_there() {
    let alice = Stage::new();
    let spawn = async |program: &Path| {
        let mut options = alice.options("");
        options.command = vec![program.into()];
        Guarded::spawn(options).await.expect_err("it is no program")
    };
    let missing = spawn(Path::new("incumbent-no-such-program")).await;
    assert!(matches!(missing, GuardError::NotFound { .. }), "{missing:?}");
    let file = alice.path("file");
    fs::write(&file, "").expect("the folder is ours");
    for program in [&file, alice.folder.path()] {
        let refused = spawn(program).await;
        assert!(matches!(refused, GuardError::NotExecutable { .. }), "{refused:?}");
    }
    let mut options = alice.options("");
    options.command = vec!["sh".into(), OsString::from("a\0b")];
    assert!(Guarded::spawn(options).await.is_err());
    let mut options = alice.options("");
    options.command.clear();
    assert!(matches!(Guarded::spawn(options).await, Err(GuardError::NoCommand)));
}

#[tokio::test]
async fn a_deadline_that_has_passed_starts_nothing() {
    let alice = Stage::new();
    let mut options = alice.options("touch $D/ran");
    options.until = Clock::machine().now();
    let late = Guarded::spawn(options).await.expect_err("its time is over");
    assert!(matches!(late, GuardError::Late { .. }), "{late:?}");
    assert!(!alice.path("ran").exists());
}

#[tokio::test]
async fn signals_reach_the_command() {
    let alice = Stage::new();
    let mut guarded =
        alice.run("exec 2>/dev/null; trap 'exit 42' USR1; echo $$ >$D/child.new; mv $D/child.new $D/child; while :; do sleep 0.05; done").await;
    assert_eq!(alice.child(), guarded.pid());
    assert!(matches!(guarded.signal(0), Err(GuardError::NoSignal { .. })));
    guarded.signal(Signal::USR1.as_raw()).expect("the guardian listens");
    assert_eq!(end_of(&mut guarded).await.status, Status::Exit(42));
}

#[tokio::test]
async fn without_a_renewal_all_is_dead_before_the_deadline() {
    let alice = Stage::new();
    let until = alice.soon();
    let mut guarded = alice.run_until(FAMILY, until).await;
    let child = alice.child();
    let ended = end_of(&mut guarded).await;
    let now = Clock::machine().now();
    assert_eq!(ended, Ended { status: Status::Signal(15), overdue: true, all_gone: true });
    assert!(now < until, "{:?} too late", now.since(until));
    assert!(!lives(guarded.pid()) && !lives(child));
}

#[tokio::test]
async fn a_renewal_keeps_it_alive_and_the_end_is_prompt() {
    let alice = Stage::new();
    let first = alice.soon();
    let mut guarded = alice.run_until(FAMILY, first).await;
    let child = alice.child();
    guarded.extend(first.plus(LIMIT)).expect("the guardian listens");
    eventually("the first deadline has passed", || Clock::machine().now() > first);
    assert!(lives(guarded.pid()) && lives(child));

    let asked = Instant::now();
    guarded.end();
    assert_eq!(
        end_of(&mut guarded).await,
        Ended { status: Status::Signal(15), overdue: false, all_gone: true }
    );
    assert!(asked.elapsed() < GRACE, "it did not need the grace");
    assert!(!lives(child));
}

#[tokio::test]
async fn a_command_that_ignores_the_asking_is_killed_before_the_deadline() {
    let alice = Stage::new();
    let until = alice.soon();
    let script = format!("trap '' TERM; {FAMILY}");
    let mut guarded = alice.run_until(&script, until).await;
    let child = alice.child();
    assert_eq!(
        end_of(&mut guarded).await,
        Ended { status: Status::Signal(9), overdue: true, all_gone: true }
    );
    assert!(Clock::machine().now() < until);
    assert!(!lives(child));
}

#[tokio::test]
async fn a_runaway_grandchild_dies_with_the_command() {
    let alice = Stage::new();
    let mut guarded = alice.run(&format!("{RUNAWAY} exit 3")).await;
    assert_eq!(end_of(&mut guarded).await, Ended { status: Status::Exit(3), overdue: false, all_gone: true });
    assert!(!lives(alice.child()));
}

#[test]
fn a_closed_link_ends_all_without_a_control_group_too() {
    let alice = Stage::new();
    let script = format!("{RUNAWAY} trap '' TERM; sleep 999 & wait; wait");
    let mut bare = Bare::start(&alice, &script);
    let pid = bare.started();
    let child = alice.child();
    drop(bare.link);
    ends(&mut bare.guardian);
    assert!(!lives(pid) && !lives(child));
}

#[test]
fn a_malformed_message_ends_all() {
    for message in ["until 1x".to_owned(), "until ".to_owned(), "x".repeat(65)] {
        let alice = Stage::new();
        let mut bare = Bare::start(&alice, FAMILY);
        let pid = bare.started();
        let child = alice.child();
        bare.say(&message);
        assert_eq!(bare.hear(), "signaled 15");
        assert_eq!(bare.hear(), "gone");
        assert!(!lives(pid) && !lives(child));
        ends(&mut bare.guardian);
    }
}

#[test]
fn a_killed_holder_takes_all_with_it() {
    let alice = Stage::new();
    let mut holder = alice.holder(&format!("{RUNAWAY} {FAMILY}")).spawn().expect("a holder starts");
    let pid = alice.command();
    let child = alice.child();
    holder.kill().expect("it runs");
    ends(&mut holder);
    eventually("all is dead", || !lives(pid) && !lives(child));
}

#[test]
fn a_stopped_holder_cannot_keep_it_alive() {
    let alice = Stage::new();
    let mut holder = alice.holder(FAMILY).spawn().expect("a holder starts");
    let (pid, child) = (alice.command(), alice.child());
    let stopped = Pid::from_child(&holder);
    kill_process(stopped, Signal::STOP).expect("it runs");
    let last = Clock::machine().now().plus(SHORT);
    eventually("all is dead", || !lives(pid) && !lives(child));
    assert!(Clock::machine().now() < last, "it was dead only after the last deadline");
    kill_process(stopped, Signal::CONT).expect("it is stopped");
    assert_eq!(ends(&mut holder).code(), Some(128 + 15), "it reads afterwards what happened");
}

#[tokio::test]
async fn a_killed_guardian_takes_all_with_it() {
    let alice = Stage::new();
    let mut guarded = alice.run(FAMILY).await;
    let child = alice.child();
    kill_process(parent(guarded.pid()), Signal::KILL).expect("it runs");
    assert_eq!(
        end_of(&mut guarded).await,
        Ended { status: Status::GuardianDied, overdue: false, all_gone: true }
    );
    eventually("all is dead", || !lives(guarded.pid()) && !lives(child));
    assert!(guarded.extend(alice.soon()).is_err());
}

/// Whether or not it came to say that the command runs.
#[tokio::test]
async fn a_guardian_killed_as_the_command_starts_takes_all_with_it() {
    let script = "sleep 999 & echo $! >$D/child.new; mv $D/child.new $D/child; kill -KILL $PPID; wait";
    for round in 0..20 {
        let alice = Stage::new();
        match Guarded::spawn(alice.options(script)).await {
            Ok(mut guarded) => {
                let ended = end_of(&mut guarded).await;
                assert_eq!((ended.status, ended.all_gone), (Status::GuardianDied, true), "{round}");
            }
            Err(why) => assert!(matches!(why, GuardError::Guardian { .. }), "{round}: {why:?}"),
        }
        // At once: the lease is given back from here on.
        assert!(!lives(alice.child()), "round {round}");
    }
}

/// The guardian said which process it is, and no more.
#[tokio::test]
async fn what_a_guardian_that_died_had_started_is_ended_though_it_was_not_said_to_run() {
    let alice = Stage::new();
    let guardian = alice.path("guardian");
    let this = std::env::current_exe().expect("a test has an executable");
    let script = format!(
        "#!/bin/sh\nexec {} --exact guardian::false_guardian --ignored --nocapture >&2\n",
        this.display()
    );
    fs::write(&guardian, script).expect("the folder is ours");
    fs::set_permissions(&guardian, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let options = GuardOptions { executable: Some(guardian), ..alice.options("") };

    let refused = Guarded::spawn(options).await.expect_err("nobody guards it");

    assert!(matches!(refused, GuardError::Guardian { .. }), "{refused:?}");
    assert!(!lives(alice.child()));
}

#[test]
#[ignore = "not a test by itself: the one above starts it as a guardian that dies"]
fn false_guardian() {
    let mut command = Command::new("sleep");
    let child = command.arg("999").process_group(0).stdin(Stdio::null()).spawn().expect("sleep is installed");
    let folder = PathBuf::from(std::env::var_os("D").expect("it is told"));
    fs::write(folder.join("child"), child.id().to_string()).expect("the folder is the test's");
    let born = format!("born {}", child.id());
    rustix::net::send(rustix::stdio::stdin(), born.as_bytes(), rustix::net::SendFlags::NOSIGNAL)
        .expect("the holder listens");
    std::process::exit(0);
}

#[tokio::test]
async fn a_stopped_guardian_is_woken_in_time() {
    let alice = Stage::new();
    let until = alice.soon();
    let mut guarded = alice.run_until(FAMILY, until).await;
    let child = alice.child();
    kill_process(parent(guarded.pid()), Signal::STOP).expect("it runs");
    let ended = end_of(&mut guarded).await;
    assert!(Clock::machine().now() < until);
    assert!(ended.all_gone, "{ended:?}");
    assert!(!lives(guarded.pid()) && !lives(child));
}

#[tokio::test]
async fn dropping_it_ends_the_command() {
    let alice = Stage::new();
    let guarded = alice.run(FAMILY).await;
    let (pid, child) = (guarded.pid(), alice.child());
    drop(guarded);
    eventually("all is dead", || !lives(pid) && !lives(child));
}

#[tokio::test]
async fn a_control_group_is_removed_after_use() {
    let alice = Stage::new();
    let mut guarded = alice
        .run("cat /proc/self/cgroup /proc/self/mountinfo >$D/child.new; mv $D/child.new $D/child; sleep 999")
        .await;
    eventually("it has started", || alice.path("child").exists());
    let seen = fs::read_to_string(alice.path("child")).expect("it is there");
    let group =
        seen.lines().find_map(|line| line.strip_prefix("0::")).expect("this kernel has control groups");
    let name = group.rsplit('/').next().filter(|name| name.starts_with("incumbent-"));
    guarded.end();
    assert!(end_of(&mut guarded).await.all_gone);
    // Where none may be made there is nothing to remove.
    if let Some(name) = name {
        let mount = seen.lines().find(|line| line.contains(" - cgroup2 ")).expect("it is mounted");
        let mount = mount.split(' ').nth(4).expect("the field after the root");
        let left = Command::new("find").args([mount, "-name", name]).output().expect("find is installed");
        assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
    }
}

#[test]
fn standard_streams_and_environment_pass_through() {
    let alice = Stage::new();
    let mut holder = alice
        .holder("cat; echo from $WHO >&2; exit 5")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a holder starts");
    holder.stdin.take().expect("piped").write_all(b"through and through\n").expect("it reads");
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stdout).contains("through and through\n"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "from alice\n");
}

#[test]
fn a_child_that_holds_the_output_open_delays_nothing() {
    let alice = Stage::new();
    let mut holder =
        alice.holder("setsid sleep 999 & exit 0").stdout(Stdio::piped()).spawn().expect("a holder starts");
    let mut all = String::new();
    holder.stdout.take().expect("piped").read_to_string(&mut all).expect("it closes");
    assert!(ends(&mut holder).success());
}

#[test]
fn a_holder_whose_children_are_reaped_by_the_kernel_still_learns_the_code() {
    let alice = Stage::new();
    let holder = alice.holder("exit 6");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]).arg(holder.get_program()).args(holder.get_args());
    shell.envs(holder.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdout(Stdio::null());
    assert_eq!(shell.status().expect("a shell starts").code(), Some(6));
}

#[test]
fn a_command_may_read_from_the_terminal_which_is_given_back() {
    let alice = Stage::new();
    let holder = alice.holder("read line; echo command read $line >$D/child; exit 4");
    let inner = "\"$HOLDER\" --exact guardian::holder --ignored --nocapture; code=$?; \
                 read line; echo shell read $line >>$D/child; exit $code";
    // A terminal of its own: `script` makes one and gives it to the shell.
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", inner, "/dev/null"]).env("HOLDER", holder.get_program());
    script.envs(holder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("script is installed");
    let mut terminal = script.stdin.take().expect("piped");
    terminal.write_all(b"one\n").expect("it reads");
    eventually("the command has read", || alice.path("child").exists());
    terminal.write_all(b"two\n").expect("it reads");
    let status = ends(&mut script);
    let read = fs::read_to_string(alice.path("child")).expect("both wrote");
    assert_eq!(read, "command read one\nshell read two\n");
    assert_eq!(status.code(), Some(4));
}

/// The other half of the tests above: a process that may be killed. It renews until its command ends, and
/// exits as that did.
#[test]
#[ignore = "not a test by itself: others start it as the process that holds a guardian"]
fn holder() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let code = runtime.block_on(async {
        let clock = Clock::machine();
        let variable = |name| std::env::var(name).expect("the other half sets it");
        let mut guarded = Guarded::spawn(GuardOptions {
            command: vec!["sh".into(), "-c".into(), variable("SCRIPT").into()],
            env: vec![("WHO".into(), "alice".into())],
            until: clock.now().plus(SHORT),
            grace: GRACE,
            stdin: None,
            executable: Some(variable("INCUMBENT").into()),
        })
        .await
        .expect("the command starts");
        let folder = PathBuf::from(variable("D"));
        fs::write(folder.join("command.new"), format!("{}\n", guarded.pid())).expect("it is writable");
        fs::rename(folder.join("command.new"), folder.join("command")).expect("it is writable");
        loop {
            tokio::select! {
                ended = guarded.wait() => break match ended.status {
                    Status::Exit(code) => code,
                    Status::Signal(signal) => 128 + signal,
                    Status::GuardianDied => 255,
                },
                () = tokio::time::sleep(SHORT / 20) => {
                    // After having been stopped it may be too late to tell.
                    let _ = guarded.extend(clock.now().plus(SHORT));
                }
            }
        }
    });
    std::process::exit(code);
}
