//! What does the command do at its edges: output that nobody reads, signals while it waits, looks at what is not there?

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, Running, lives, output, until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn an_answer_that_nobody_reads_or_that_does_not_fit_is_no_panic() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    for arguments in
        [&["list"][..], &["status", "--lease", "a"], &["policy", "inspect"], &["policy", "history"]]
    {
        let (reads, writes) = std::io::pipe()?;
        drop(reads);
        let (code, _, err) = output(arena.command(arguments).arg("--json").stdout(writes))?;
        ensure!(
            code == 141 && !err.contains("panicked") && !err.contains("Broken"),
            "{arguments:?}: {code} {err}"
        );
        let full = fs::OpenOptions::new().write(true).open("/dev/full")?;
        let (code, _, err) = output(arena.command(arguments).arg("--json").stdout(full))?;
        ensure!(code == 74 && err.contains("cannot be written"), "{arguments:?}: {code} {err}");
    }
    Ok(())
}

#[test]
fn looks_make_nothing() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    for (arguments, code, answer) in [
        (&["status", "--lease", "a"][..], 1, "nobody holds a\n"),
        (&["list"], 0, ""),
        (&["step-down", "a"], 1, "nobody holds a\n"),
        (&["clear", "a", "--yes"], 1, "a: nothing stands there\n"),
        (&["holds", "status"], 78, ""),
        (&["queue", "status", "c"], 78, ""),
        (&["holds", "next", "--builder", "b", "--checks", "c", "--", "true"], 78, ""),
    ] {
        let (is, out, err) = output(&mut arena.command(arguments))?;
        ensure!((is, out.as_str()) == (code, answer), "{arguments:?}: {is} {out} {err}");
        ensure!(err.contains("there is no file") && err.contains("leases.db"), "{arguments:?}: {err}");
        ensure!(!arena.folder().join("leases.db").exists(), "{arguments:?} made the file");
    }
    let (code, _, err) = output(&mut arena.command(&["bucket", "create", "others"]))?;
    ensure!(code == 0, "{err}");
    for _ in 0..2 {
        let (code, out, err) = output(&mut arena.command(&["status", "--lease", "a"]))?;
        ensure!(
            code == 1 && out == "nobody holds a\n" && err.contains("no bucket leases"),
            "{code} {out} {err}"
        );
    }
    let nowhere = arena.folder().join("nowhere").to_string_lossy().into_owned();
    let (code, out, err) = output(&mut arena.command(&["policy", "status", "--policy-state", &nowhere]))?;
    ensure!(
        code == 0 && out.contains("built in") && err.contains("there is no folder"),
        "{code} {out} {err}"
    );
    ensure!(!arena.folder().join("nowhere").exists());
    Ok(())
}

#[test]
fn what_it_says_with_json_is_json_to_the_last_line() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let run = ["run", "--lease", "a", "--json", "-vv", "--", "sh", "-c", "exit 3"];
    let (code, _, err) = output(&mut arena.command(&run))?;
    ensure!(code == 3, "{err}");
    let lines: Vec<Value> = err.lines().map(serde_json::from_str).collect::<Result<_, _>>().context(err)?;
    ensure!(lines.iter().any(|line| line["event"] == "taken" && line["epoch"] == 1), "{lines:?}");
    ensure!(lines.iter().any(|line| line["level"] == "DEBUG" || line["level"] == "INFO"), "{lines:?}");

    let (code, _, err) = output(&mut arena.command(&["run", "--lease", "", "--json", "--", "true"]))?;
    let line: Value = serde_json::from_str(&err)?;
    ensure!(code == 2 && line["code"] == 2 && line["error"].is_string(), "{line}");

    let file = rusqlite::Connection::open(arena.folder().join("leases.db"))?;
    file.execute("UPDATE entries SET value = ?1, deleted = 0 WHERE key = 'a'", [b"garbage"])?;
    for arguments in
        [&["status", "--lease", "a"][..], &["run", "--lease", "a", "--", "true"], &["clear", "a"]]
    {
        let (code, out, err) = output(arena.command(&["--json"]).args(arguments))?;
        let last: Value = serde_json::from_str(err.lines().last().context("it says nothing")?)?;
        ensure!(last["error"].as_str().is_some_and(|why| why.contains("no holder")), "{arguments:?}: {err}");
        ensure!(last["code"] == code && code != 0 && out.is_empty(), "{arguments:?}: {code} {out} {err}");
    }
    Ok(())
}

#[test]
fn names_of_others_do_nothing_to_a_terminal() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let mut alice = arena.stand("\u{1b}[2Jalice\nbob holds it")?;
    arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    let waiting = bob.hears("waiting for")?;
    ensure!(waiting.contains("\\u{1b}[2Jalice"), "{waiting:?}");
    for arguments in [&["status", "--lease", "office"][..], &["list"]] {
        let (code, out, _) = output(&mut arena.command(arguments))?;
        ensure!(code == 0 && out.contains("\\u{1b}[2Jalice\\nbob holds it  epoch 1"), "{out:?}");
        ensure!(out.lines().count() == 1 && !out.contains('\u{1b}'), "{out:?}");
    }
    alice.signal(Signal::TERM)?;
    alice.ended()?;
    let (_, _, err) = output(&mut arena.command(&["run", "--lease", "b", "-vv", "--", "true"]))?;
    ensure!(err.contains("DEBUG") && !err.contains('\u{1b}'), "no colours for a pipe: {err:?}");
    Ok(())
}

#[test]
fn without_a_home_it_says_what_to_give() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let homeless = |arguments: &[&str]| {
        let mut command = arena.command(arguments);
        output(command.env_remove("HOME").env_remove("XDG_STATE_HOME").env_remove("INCUMBENT_STORE"))
    };
    let file = arena.folder().join("leases.db");
    let store = format!("sqlite:{}", file.display());
    for (arguments, instead) in [
        (&["status", "--lease", "a"][..], "give --store"),
        (&["run", "--lease", "a", "--store", &store, "--", "true"], "give --floor"),
        (&["policy", "status"], "give --policy-state"),
    ] {
        let (code, _, err) = homeless(arguments)?;
        ensure!(code == 78 && err.contains("HOME") && err.contains(instead), "{arguments:?}: {code} {err}");
    }
    let (code, _, err) =
        homeless(&["run", "--lease", "a", "--store", &store, "--floor", "none", "--", "true"])?;
    ensure!(code == 0, "{err}");
    Ok(())
}

#[test]
fn who_is_not_in_office_is_told_where_that_was_looked_up() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let mut command =
        arena.command(&["run", "--store", "sqlite:here.db", "--bucket", "mine", "--lease", "a"]);
    let script = r#""$0" bucket create leases; "$0" holds begin plan-1; echo $?"#;
    command.args(["--", "sh", "-c", script]).arg(arena.command(&[]).get_program());
    let (_, out, err) = output(command.current_dir(arena.folder()))?;
    ensure!(out.ends_with("75\n") && err.contains("nobody holds a"), "{out} {err}");
    ensure!(err.contains("the bucket leases of sqlite:") && err.contains("--store"), "{err}");
    Ok(())
}

#[test]
fn one_that_was_told_to_end_stands_no_more() -> Result<()> {
    let arena = Arena::sqlite(&["--ttl", "3s", "--again", "--grace", "100ms"])?;
    let mut alice = arena.stand_with(
        "alice",
        &["sh", "-c", "trap : TERM; touch \"$ARENA/runs\"; while :; do sleep 1; done"],
    )?;
    let runs = arena.folder().join("runs");
    until("it runs", || Ok(runs.exists().then_some(())))?;
    alice.signal(Signal::TERM)?;
    // The command does not end of it, but of giving way.
    let (code, _, err) = output(&mut arena.command(&["step-down", "office"]))?;
    ensure!(code == 0, "{err}");
    ensure!(alice.ended()? == 128 + 15, "{:?}", alice.all_said());
    Ok(())
}

#[test]
fn what_is_there_with_other_settings_is_told_apart_and_said_once() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    for (ttl, code, words) in [("20s", 0, ""), ("20s", 0, ""), ("30s", 78, "20s")] {
        let (is, _, err) = output(&mut arena.command(&["bucket", "create", "leases", "--ttl", ttl]))?;
        ensure!(is == code && err.contains(words), "{ttl}: {is} {err}");
    }
    let state = arena.folder().join("policies");
    fs::create_dir(&state)?;
    fs::write(state.join("state.json"), "garbage")?;
    let mut run = arena.command(&["run", "--lease", "a", "--policy", "p.wasm", "--policy-state"]);
    let (code, _, err) = output(run.arg(&state).args(["--", "true"]))?;
    ensure!(code == 78 && err.matches("is damaged").count() == 1, "{code} {err}");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777))?;
    let (code, _, err) = output(arena.command(&["policy", "status", "--policy-state"]).arg(&state))?;
    ensure!(code == 78 && err.matches("others may write").count() == 1, "{code} {err}");
    Ok(())
}

#[test]
fn a_pipe_is_no_policy_and_no_key() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let pipe = arena.folder().join("pipe");
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success(), "mkfifo");
    let pipe = pipe.to_string_lossy().into_owned();
    for arguments in [
        &["policy", "check", &pipe][..],
        &["policy", "inspect", &pipe],
        &["policy", "check", "/etc/hostname", "--policy-key", &pipe],
        &["policy", "check", "/etc/hostname", "--policy-key", "/dev/zero"],
    ] {
        let (code, _, err) = output(&mut arena.command(arguments))?;
        ensure!(code == 65 && err.contains("no regular file"), "{arguments:?}: {code} {err}");
    }
    let (code, _, err) =
        output(&mut arena.command(&["policy", "check", "/nowhere", "--policy-key", "/no/key"]))?;
    ensure!(code == 65 && err.contains("/no/key") && err.contains("No such file"), "{code} {err}");
    Ok(())
}

/// What asks a command for something, and not to end.
const ASKING: [Signal; 2] = [Signal::USR1, Signal::USR2];

#[test]
fn one_that_waits_goes_on_waiting_when_it_is_asked_for_something_else() -> Result<()> {
    let arena = Arena::sqlite(&["--ttl", "3s"])?;
    let alice = arena.stand("alice")?;
    arena.started(1)?;
    let policy = arena.folder().join("policy.wasm");
    fs::write(&policy, incumbent::policy::BUILT_IN)?;
    let mut follows = arena.command(&["run", "--lease", "office", "--instance", "bob", "--policy"]);
    follows.arg(&policy).args(["--", "sh", "-c", "echo start $INCUMBENT_EPOCH $$ >> $ARENA/log; sleep 999"]);
    let (mut bob, mut carol) = (Running::start(follows)?, arena.stand("carol")?);
    for one in [&mut bob, &mut carol] {
        one.hears("waiting for alice")?;
        for signal in ASKING {
            one.signal(signal)?;
        }
    }
    // To be read again there is something for bob only: carol's terminal is gone.
    bob.signal(Signal::HUP)?;
    carol.signal(Signal::HUP)?;
    ensure!(carol.ended()? == 128 + 1, "{:?}", carol.all_said());
    alice.signal(Signal::TERM)?;
    arena.started(2)?;
    bob.signal(Signal::TERM)?;
    bob.ended()?;
    arena.check()
}

#[test]
fn a_builder_that_waits_goes_on_waiting_when_it_is_asked_for_something_else() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (code, _, err) = output(&mut arena.command(&["queue", "create", "checks", "--ack-wait", "10s"]))?;
    ensure!(code == 0, "{err}");
    let mut held =
        arena.command(&["holds", "next", "--builder", "alice", "--checks", "checks", "--poll", "50ms"]);
    held.args(["-vv", "--", "true"]).stdout(Stdio::null());
    let mut builder = Running::start(held)?;
    builder.hears("")?;
    for signal in ASKING {
        builder.signal(signal)?;
    }
    let put = incumbent_tests::seat::put(&arena, "checks", b"{}")?;
    ensure!(put.0 == 0, "{put:?}");
    ensure!(builder.ended()? == 0, "{:?}", builder.all_said());
    Ok(())
}

#[test]
fn one_that_waits_when_the_bucket_is_taken_away_takes_the_lease_once_there_is_one_again() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    let create = ["bucket", "create", "leases", "--ttl", "3s"];
    ensure!(output(&mut arena.command(&create))?.0 == 0, "the bucket cannot be made");
    let mut alice = arena.stand("alice")?;
    arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    tokio::runtime::Runtime::new()?.block_on(async {
        let client = async_nats::connect(server.url()).await?;
        anyhow::Ok(async_nats::jetstream::new(client).delete_key_value("leases").await?)
    })?;

    ensure!(alice.ended()? == 75, "{:?}", alice.all_said());
    let told = bob.hears("incumbent bucket create leases")?;
    ensure!(told.contains("trying again") || told.contains("retrying"), "{told}");
    ensure!(output(&mut arena.command(&create))?.0 == 0, "the bucket cannot be made");
    arena.started(2)?;
    arena.check()
}

/// A store that somebody removes while it is in use withstands less than its rule says; who stands again waits for a ttl
/// before the file is made anew, in which whoever acts by the old one ends.
#[test]
fn a_file_that_is_removed_is_made_again_when_nobody_acts_by_it_any_more() -> Result<()> {
    let arena = Arena::sqlite(&["--ttl", "3s", "--again"])?;
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    for file in ["leases.db", "leases.db-wal", "leases.db-shm"] {
        // Not all of them need be there.
        let _ = fs::remove_file(arena.folder().join(file));
    }

    let second = arena.started(2)?;
    ensure!(second.epoch > first.epoch && !lives(first.pid), "{second:?} after {first:?}");
    for one in [&mut alice, &mut bob] {
        one.signal(Signal::TERM)?;
        ensure!(one.ended()? == 128 + 15, "{:?}", one.all_said());
    }
    arena.check()
}

#[test]
fn the_guardian_of_a_closed_standard_error_is_no_panic() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (reads, writes) = std::io::pipe()?;
    drop(reads);
    let mut out = String::new();
    let mut child = arena
        .command(&["run", "--lease", "a", "-vv", "--", "sh", "-c", "echo ran"])
        .stdout(Stdio::piped())
        .stderr(writes)
        .spawn()?;
    child.stdout.take().context("piped")?.read_to_string(&mut out)?;
    ensure!(child.wait()?.code() == Some(0) && out == "ran\n", "{out}");
    Ok(())
}
