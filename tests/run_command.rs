//! What does `incumbent run` do around a command, and with bad input?

use std::process::Stdio;

use anyhow::{Result, ensure};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, output};

fn run(arena: &Arena, options: &[&str], command: &[&str]) -> Result<(i32, String, String)> {
    let all = [&["run"], options, &["--"], command].concat();
    output(&mut arena.command(&all))
}

#[test]
fn command_gets_its_lease_and_epoch_and_its_end_is_passed_on() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let script = r#"echo "$INCUMBENT_LEASE $INCUMBENT_EPOCH $INCUMBENT_INSTANCE"; exit 41"#;
    let options = ["--lease", "labeler:did:plc:abc", "--instance", "alice"];
    let (code, out, err) = run(&arena, &options, &["sh", "-c", script])?;
    ensure!((code, out.as_str()) == (41, "labeler:did:plc:abc 1 alice\n"), "{code} {out} {err}");
    ensure!(err.contains("taken at epoch 1") && err.contains("given back (epoch 1)"), "{err}");

    let (code, _, _) = run(&arena, &options, &["sh", "-c", "kill -9 $$"])?;
    ensure!(code == 128 + 9, "{code}");
    Ok(())
}

#[test]
fn epoch_rises_with_every_run() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let mut last = 0;
    for _ in 0..3 {
        let (_, out, _) = run(&arena, &["--lease", "office"], &["sh", "-c", "echo $INCUMBENT_EPOCH"])?;
        let epoch: u64 = out.trim().parse()?;
        ensure!(epoch > last, "{epoch} is not above {last}");
        last = epoch;
    }
    Ok(())
}

#[test]
fn status_and_list_tell_who_holds() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (code, out, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
    ensure!((code, out.as_str()) == (1, "nobody holds office\n"), "{code} {out}");

    let mut alice = arena.stand("alice")?;
    let start = arena.started(1)?;
    let (code, out, _) = output(&mut arena.command(&["status", "--lease", "office", "--json"]))?;
    let status: serde_json::Value = serde_json::from_str(&out)?;
    ensure!(code == 0 && status["holder"]["instance"] == "alice", "{code} {out}");
    ensure!(status["holder"]["epoch"] == start.epoch, "{out}");
    let time = |name: &str| status["holder"][name].as_str().unwrap_or_default().to_owned();
    ensure!(time("expires") > time("renewed"), "{out}");
    let (code, out, _) = output(&mut arena.command(&["list", "--json"]))?;
    let list: serde_json::Value = serde_json::from_str(&out)?;
    ensure!(code == 0 && list[0]["lease"] == "office", "{code} {out}");

    alice.signal(rustix::process::Signal::INT)?;
    ensure!(alice.ended()? == 128 + 2, "the command's end is passed on");
    let (code, _, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
    ensure!(code == 1, "given back after SIGINT too");
    Ok(())
}

/// A command line that must be refused: its exit code and words that must be in what it says.
fn refused(arena: &Arena, arguments: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let (is, out, err) = output(arena.command(arguments).stderr(Stdio::piped()))?;
    ensure!(is == code, "{arguments:?} ended with {is}, not {code}: {out}{err}");
    ensure!(words.iter().all(|word| err.contains(word)), "{arguments:?} does not say {words:?}: {err}");
    ensure!(!err.contains("panicked"), "{err}");
    Ok(())
}

#[test]
fn names_and_durations_that_do_not_fit_are_refused() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let long = "n".repeat(300);
    for bad in ["-5s", "0s", "18446744073709551616s", "25h", "soon"] {
        refused(&arena, &["run", "--lease", "a", "--ttl", bad, "--", "true"], 2, &["--ttl", bad])?;
    }
    let timing =
        ["run", "--lease", "a", "--ttl", "3s", "--renew-every", "2s", "--margin", "1s", "--", "true"];
    refused(&arena, &timing, 78, &["2 s", "1 s", "3 s"])?;
    refused(&arena, &["run", "--lease", "", "--", "true"], 2, &["name is empty"])?;
    refused(&arena, &["run", "--lease", &long, "--", "true"], 2, &["300 bytes", "limit is 200"])?;
    refused(&arena, &["bucket", "create", "a", "--ttl", "99ms"], 2, &["at least 100ms"])?;
    for none in ["0", "6", "99999"] {
        refused(&arena, &["bucket", "create", "a", "--replicas", none], 2, &["--replicas", none])?;
    }
    // No bucket was made with what was refused.
    let (code, _, err) = run(&arena, &["--lease", "a", "--ttl", "5s"], &["true"])?;
    ensure!(code == 0, "{err}");
    refused(&arena, &["run", "--lease", "a", "--ttl", "4s", "--", "true"], 78, &["5s", "4s"])?;
    for odd in ["labeler:did:plc:abc", "..", "*", "héron", "a b", ">"] {
        let (code, _, err) = run(&arena, &["--lease", odd], &["true"])?;
        ensure!(code == 0, "{odd}: {err}");
    }
    Ok(())
}

#[test]
fn ttl_of_999_ms_is_999_ms() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (code, out, err) =
        output(&mut arena.command(&["bucket", "create", "odd", "--ttl", "999ms", "--json"]))?;
    ensure!(code == 0 && out.contains("\"ttl_ms\":999"), "{code} {out} {err}");
    Ok(())
}

#[test]
fn stores_that_cannot_be_used_are_named() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let with = |store: &'static str| ["status", "--lease", "a", "--store", store];
    refused(&arena, &with("ftp://x"), 2, &["ftp://x", "sqlite:PATH"])?;
    for mistyped in ["nats:/alice:secret@x:4222", "nast://alice:secret@x:4222", "alice:secret@x:4222"] {
        let (code, _, err) = output(&mut arena.command(&with(mistyped)))?;
        ensure!(code == 2 && !err.contains("secret") && err.contains("x:4222"), "{mistyped}: {code} {err}");
    }
    refused(&arena, &with("sqlite:/"), 77, &["/"])?;
    refused(&arena, &with("sqlite:/proc/version"), 69, &["/proc/version"])?;
    // Nobody listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("NATS://alice:secret@{free}");
    let (code, _, err) = output(&mut arena.command(&["status", "--lease", "a", "--store", &url]))?;
    ensure!(code == 69 && err.contains(&free.to_string()) && !err.contains("secret"), "{code} {err}");
    Ok(())
}

#[test]
fn missing_bucket_names_the_command_that_makes_it() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    refused(&arena, &["run", "--lease", "a", "--", "true"], 78, &["incumbent bucket create leases"])
}

#[test]
fn commands_that_cannot_run_are_told_apart_and_give_the_lease_back() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    refused(
        &arena,
        &["run", "--lease", "a", "--", "no-such-command"],
        127,
        &["no-such-command", "given back"],
    )?;
    refused(&arena, &["run", "--lease", "a", "--", "/etc/passwd"], 126, &["/etc/passwd"])?;
    refused(&arena, &["run", "--lease", "a"], 2, &["COMMAND"])
}

#[test]
fn files_that_are_no_policy_are_refused_by_kind() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let kinds: [(&str, &[u8], &str); 4] = [
        ("core.wasm", b"\0asm\x01\0\0\0", "core module"),
        ("native.cwasm", b"\x7fELF\x02\x01\x01\0", "precompiled"),
        ("text.wat", b"(component)", "something else"),
        ("cut.wasm", b"\0asm\x0d\0\x01\0\x07", "does not compile"),
    ];
    for (name, bytes, words) in kinds {
        let file = arena.folder().join(name);
        std::fs::write(&file, bytes)?;
        let file = file.to_string_lossy().into_owned();
        refused(&arena, &["policy", "inspect", &file], 65, &[name, words])?;
        refused(&arena, &["run", "--lease", "a", "--policy", &file, "--", "true"], 65, &[name, words])?;
    }
    refused(&arena, &["policy", "inspect", "/nowhere"], 78, &["/nowhere"])
}

#[test]
fn record_that_is_no_holder_is_an_error_and_never_nobody() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (code, _, err) = run(&arena, &["--lease", "a"], &["true"])?;
    ensure!(code == 0, "{err}");
    let file = rusqlite::Connection::open(arena.folder().join("leases.db"))?;
    for (value, words) in [(b"garbage".to_vec(), "no holder"), (vec![b'x'; 2 << 20], "2097152 bytes")] {
        file.execute("UPDATE entries SET value = ?1, deleted = 0 WHERE key = 'a'", [value])?;
        refused(&arena, &["status", "--lease", "a"], 65, &[words])?;
        refused(&arena, &["run", "--lease", "a", "--", "true"], 65, &[words])?;
    }
    Ok(())
}
