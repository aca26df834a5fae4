//! `incumbent policy …`, and `incumbent run` under a policy that changes while it runs. Real processes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use incumbent::policies::state::{Quarantined, StateDir, now};
use incumbent::policy::BUILT_IN;
use incumbent_tests::guests::{STRICT, faulty};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, Running, output};
use incumbent_tests::signer::Signer;
use rustix::process::Signal;
use serde_json::Value;

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A holder under the policy in this file, or of this name.
fn stand(arena: &Arena, policy: &str, more: &[&str]) -> Result<Running> {
    let mut command = arena.command(&["run", "--lease", "office", "--ttl", "3s", "--policy", policy]);
    command
        .args(more)
        .args(["--", "sh", "-c", "trap : HUP; while :; do sleep 1; done"])
        .stdout(Stdio::null());
    Running::start(command)
}

fn json(arena: &Arena, arguments: &[&str]) -> Result<(i32, Value)> {
    let (code, out, err) = output(arena.command(arguments).arg("--json").stderr(Stdio::piped()))?;
    Ok((code, serde_json::from_str(&out).with_context(|| format!("{arguments:?}: {out}{err}"))?))
}

#[test]
fn a_policy_is_checked_step_by_step_and_dry() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let signer = Signer::new()?;
    let file = arena.folder().join("policy.wasm");
    std::fs::write(&file, STRICT)?;
    let (code, told) = json(&arena, &["policy", "check", &text(&file)])?;
    ensure!(code == 0 && told["passes"] == true && told["name"] == "strict", "{told}");
    ensure!(told["scenes"].as_u64() > Some(300), "{told}");

    let key = signer.public_key();
    let (code, told) = json(&arena, &["policy", "check", &text(&file), "--policy-key", key])?;
    ensure!(code == 65 && told["step"] == "signature", "{told}");
    std::fs::write(arena.folder().join("policy.wasm.minisig"), signer.sign(STRICT)?)?;
    let (code, told) = json(&arena, &["policy", "check", &text(&file), "--policy-key", key])?;
    ensure!(code == 0 && told["passes"] == true, "{told}");

    std::fs::write(&file, faulty(13)?)?;
    let (code, _, err) = output(&mut arena.command(&["policy", "check", &text(&file)]))?;
    ensure!(code == 65 && err.contains("rehearse") && err.contains("expected"), "{code} {err}");
    for (arguments, code) in [
        (&["policy", "check", "/nowhere"][..], 78),
        (&["policy", "check", &text(&file), "--policy-key", "nonsense"], 65),
        (&["policy", "publish", &text(&file), "nats:policies/lease"], 65),
        (&["policy", "clear-quarantine", "sha256:00"], 1),
        (&["policy", "rollback"], 1),
        (&["run", "--lease", "a", "--policy", "nats:policies", "--", "true"], 2),
        (&["run", "--lease", "a", "--policy", "nats:policies/lease", "--", "true"], 2),
    ] {
        let (is, out, err) = output(&mut arena.command(arguments))?;
        ensure!(is == code && !err.contains("panicked"), "{arguments:?} ended with {is}: {out}{err}");
    }
    Ok(())
}

#[test]
fn a_file_that_is_replaced_serves_and_the_holder_goes_on() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (file, next) = (arena.folder().join("policy.wasm"), arena.folder().join("next.wasm"));
    std::fs::write(&file, BUILT_IN)?;
    let mut alice = stand(&arena, &text(&file), &[])?;
    alice.hears("taken at epoch 1")?;
    std::fs::write(&next, STRICT)?;
    std::fs::rename(&next, &file)?;
    alice.hears("policy strict 0.1.0 serves, on probation")?;
    let (code, out, _) = output(&mut arena.command(&["policy", "status"]))?;
    ensure!(code == 0 && out.contains("strict") && out.contains("on probation"), "{out}");
    let (_, out, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
    ensure!(out.contains("policy strict"), "{out}");

    // What cannot serve is refused in words, and what serves goes on; also what is read again for a signal.
    std::fs::write(&file, b"nonsense")?;
    alice.hears("is refused: compile")?;
    alice.signal(Signal::HUP)?;
    let (code, told) = json(&arena, &["policy", "history"])?;
    let what: Vec<&str> =
        told.as_array().context("a list")?.iter().filter_map(|one| one["what"].as_str()).collect();
    ensure!(code == 0 && what == ["published", "refused"], "{what:?}");

    // An operator goes back.
    let (code, out, err) = output(&mut arena.command(&["policy", "rollback"]))?;
    ensure!(code == 0 && out.contains("strict"), "{code} {out} {err}");
    alice.hears("rolled back and in quarantine")?;
    let (_, told) = json(&arena, &["policy", "status"])?;
    ensure!(told["serving"]["name"] == "incumbent", "{told}");
    let digest = told["quarantined"][0]["digest"].as_str().context("a digest")?.to_owned();
    let (code, out, _) = output(&mut arena.command(&["policy", "clear-quarantine", &digest]))?;
    ensure!(code == 0 && out.contains("strict"), "{out}");

    let (_, out, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
    ensure!(out.contains("epoch 1 "), "held all the time: {out}");
    alice.signal(Signal::TERM)?;
    alice.ended()?;
    let lost = |line: &String| {
        line.contains("lost (epoch") || line.contains("gate shut") || line.contains("renewal failed")
    };
    ensure!(!alice.all_said().iter().any(lost), "{:?}", alice.all_said());
    Ok(())
}

#[test]
fn a_fleet_changes_when_a_policy_is_published_and_goes_back_when_it_is_rolled_back() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    let (code, _, err) = output(&mut arena.command(&["bucket", "create", "leases", "--ttl", "3s"]))?;
    ensure!(code == 0, "{err}");
    let signer = Signer::new()?;
    let published = |bytes: &[u8]| -> Result<(i32, String, String)> {
        let file = arena.folder().join("policy.wasm");
        std::fs::write(&file, bytes)?;
        std::fs::write(arena.folder().join("policy.wasm.minisig"), signer.sign(bytes)?)?;
        output(&mut arena.command(&["policy", "publish", &text(&file), "nats:policies/lease", "--create"]))
    };
    let (code, _, err) = output(&mut arena.command(&["policy", "history", "nats:policies/lease"]))?;
    ensure!(code == 78 && err.contains("--create"), "{code} {err}");
    let (code, out, err) = published(BUILT_IN)?;
    ensure!(code == 0 && out.contains("is published"), "{code} {out} {err}");

    let more = ["--policy-key", signer.public_key(), "--instance"];
    let states: Vec<String> = (0..3).map(|n| text(&arena.folder().join(format!("state-{n}")))).collect();
    let mut fleet = Vec::new();
    for (n, state) in states.iter().enumerate() {
        let name = format!("instance-{n}");
        let all = [&more[..], &[&name, "--policy-state", state]].concat();
        let mut one = stand(&arena, "nats:policies/lease", &all)?;
        one.hears(if n == 0 { "taken at epoch" } else { "waiting for instance-0" })?;
        fleet.push(one);
    }
    let (code, out, _) = published(STRICT)?;
    ensure!(code == 0 && out.contains("strict"), "{out}");
    for one in &mut fleet {
        one.hears("policy strict 0.1.0 serves, on probation")?;
    }
    let (_, told) = json(&arena, &["policy", "history", "nats:policies/lease"])?;
    ensure!(told.as_array().map(Vec::len) == Some(2), "{told}");
    ensure!(told[0]["current"] == true && told[0]["signed"] == true, "{told}");
    let (code, out, err) = output(&mut arena.command(&["policy", "rollback", "nats:policies/lease"]))?;
    ensure!(code == 0, "{code} {out} {err}");
    for one in &mut fleet {
        one.hears("policy incumbent 0.1.0 serves (")?;
    }
    let (_, out, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
    ensure!(out.starts_with("instance-0"), "it held on: {out}");
    Ok(())
}

#[test]
fn rollbacks_go_back_one_version_each_and_never_to_a_newer_one() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    let file = arena.folder().join("policy.wasm");
    let mut digests = Vec::new();
    for bytes in [BUILT_IN.to_vec(), STRICT.to_vec(), [BUILT_IN, &[0, 2, 1, 7]].concat()] {
        std::fs::write(&file, bytes)?;
        let (code, told) =
            json(&arena, &["policy", "publish", &text(&file), "nats:policies/lease", "--create"])?;
        ensure!(code == 0, "{told}");
        digests.push(told["digest"].clone());
    }
    for before in [&digests[1], &digests[0]] {
        let (code, told) = json(&arena, &["policy", "rollback", "nats:policies/lease"])?;
        ensure!(
            code == 0 && told["digest"] == *before && told["unchanged"] == false,
            "{told} of {digests:?}"
        );
    }
    let (code, _, err) = output(&mut arena.command(&["policy", "rollback", "nats:policies/lease"]))?;
    ensure!(code == 1 && err.contains("no version"), "{code} {err}");
    Ok(())
}

#[test]
fn what_is_in_quarantine_is_not_published() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    let (file, state) = (arena.folder().join("policy.wasm"), text(&arena.folder().join("policies")));
    std::fs::write(&file, STRICT)?;
    let (_, told) = json(&arena, &["policy", "inspect", &text(&file)])?;
    let digest = told["digest"].as_str().context("a digest")?.trim_start_matches("sha256:").to_owned();
    StateDir::open(&state)?.update(|state| {
        let (name, version) = ("strict".into(), "0.1.0".into());
        state.quarantined.push(Quarantined { digest, name, version, why: "it fell".into(), when: now() });
    })?;
    let publish = ["policy", "publish", &text(&file), "nats:policies/lease", "--create"];
    let (code, _, err) = output(arena.command(&publish).args(["--policy-state", &state]))?;
    ensure!(code == 65 && err.contains("in quarantine") && err.contains("it fell"), "{code} {err}");
    let (code, _, err) = output(&mut arena.command(&publish))?;
    ensure!(code == 0, "by another machine, which knows nothing of it: {err}");
    Ok(())
}

#[test]
fn the_policy_built_in_is_not_rolled_back() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let file = arena.folder().join("policy.wasm");
    std::fs::write(&file, STRICT)?;
    let mut alice = stand(&arena, &text(&file), &[])?;
    alice.hears("taken at epoch 1")?;
    let (code, _, err) = output(&mut arena.command(&["policy", "rollback"]))?;
    ensure!(code == 0, "{err}");
    alice.hears("rolled back and in quarantine")?;
    let (code, _, err) = output(&mut arena.command(&["policy", "rollback"]))?;
    ensure!(code == 1 && err.contains("no policy but the built-in one"), "{code} {err}");
    let (_, told) = json(&arena, &["policy", "status"])?;
    ensure!(told["quarantined"].as_array().map(Vec::len) == Some(1), "{told}");
    Ok(())
}

#[test]
fn killed_in_the_middle_of_a_swap_it_starts_again_with_the_last_proven_policy() -> Result<()> {
    let arena = Arena::sqlite(&[])?;
    let (file, next) = (arena.folder().join("policy.wasm"), arena.folder().join("next.wasm"));
    let state = text(&arena.folder().join("state-of-policies"));
    let soon = ["--policy-state", &state, "--probation", "1s", "--probation-calls", "3"];
    std::fs::write(&file, STRICT)?;
    let mut alice = stand(&arena, &text(&file), &soon)?;
    alice.hears("policy strict 0.1.0 is proven")?;
    drop(alice);

    for round in 0..10_u8 {
        // Never proven in this test.
        let never = ["--policy-state", &state];
        std::fs::write(&file, STRICT)?;
        let mut alice = stand(&arena, &text(&file), &never)?;
        alice.hears("taken at epoch")?;
        std::fs::write(&next, [BUILT_IN, &[0, 2, 1, round]].concat())?;
        std::fs::rename(&next, &file)?;
        // From the first look at the file to after the last write of the state.
        std::thread::sleep(Duration::from_millis(150 + 75 * u64::from(round)));
        alice.signal(Signal::KILL)?;
        alice.ended()?;

        // Its source is gone, and what was proven last serves.
        std::fs::remove_file(&file)?;
        let mut again = stand(&arena, &text(&file), &never)?;
        again.hears("the last proven policy serves")?;
        again.hears("taken at epoch")?;
        again.signal(Signal::TERM)?;
        again.ended()?;
        let (code, told) = json(&arena, &["policy", "status", "--policy-state", &state])?;
        ensure!(code == 0 && told["proven"]["name"] == "strict", "round {round}: {told}");
        ensure!(told["quarantined"].as_array().is_some_and(Vec::is_empty), "round {round}: {told}");
    }
    Ok(())
}
