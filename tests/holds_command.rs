//! What does `incumbent holds` do for its user, without any server?

use std::fs;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, Running, output, until};
use incumbent_tests::seat::put;
use rustix::process::Signal;
use serde_json::{Value, json};

/// An arena with the queue `checks`.
fn seat() -> Result<Arena> {
    let arena = Arena::sqlite(&[])?;
    let (code, out, err) = told(&arena, &["queue", "create", "checks", "--ack-wait", "10s"])?;
    ensure!(code == 0 && out.contains("ack wait 10s"), "{code} {out} {err}");
    Ok(arena)
}

fn told(arena: &Arena, arguments: &[&str]) -> Result<(i32, String, String)> {
    output(&mut arena.command(arguments))
}

/// A builder of checks with further options and this script as its command.
fn next(arena: &Arena, options: &[&str], script: &str) -> Result<(i32, String, String)> {
    told(arena, &[&NEXT, options, &["--", "sh", "-c", script]].concat())
}

const NEXT: [&str; 6] = ["holds", "next", "--builder", "alice", "--checks", "checks"];

/// A command under the lease `office`.
fn in_office(arena: &Arena, script: &str) -> Result<(i32, String, String)> {
    let incumbent = arena.command(&[]).get_program().to_owned();
    output(arena.command(&["run", "--lease", "office", "--", "sh", "-c", script]).env("INCUMBENT", incumbent))
}

fn waiting(arena: &Arena) -> Result<(u64, u64)> {
    let (_, out, _) = told(arena, &["queue", "status", "checks", "--json"])?;
    let status: Value = serde_json::from_str(&out)?;
    let count = |name: &str| status[name].as_u64().context("a number");
    Ok((count("waiting")?, count("taken")?))
}

fn refused(arena: &Arena, arguments: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let (is, out, err) = told(arena, arguments)?;
    ensure!(is == code, "{arguments:?} ended with {is}, not {code}: {out}{err}");
    for word in words {
        // Once: what is said twice is read twice.
        ensure!(err.matches(word).count() == 1, "{arguments:?} does not say {word:?} once: {err}");
    }
    Ok(())
}

#[test]
fn a_job_comes_on_standard_input_and_in_the_environment_and_is_done() -> Result<()> {
    let arena = seat()?;
    for body in [br#"{"id":"build-1790000000000-a"}"#.to_vec(), vec![b'x'; 900 << 10], Vec::new()] {
        let (code, out, err) = put(&arena, "checks", &body)?;
        ensure!(code == 0, "{code} {out} {err}");
        ensure!(waiting(&arena)? == (1, 0), "{:?}", waiting(&arena)?);
        let script = r#"cat > "$ARENA/body"; env | grep ^INCUMBENT_JOB | sort"#;
        let (code, env, err) = next(&arena, &[], script)?;
        ensure!(code == 0 && err.contains("done: check"), "{code} {err}");
        ensure!(fs::read(arena.folder().join("body"))? == body, "another body came");
        let id = if body.starts_with(b"{") { "build-1790000000000-a" } else { "" };
        let wanted = format!(
            "INCUMBENT_JOB_DELIVERIES=1\nINCUMBENT_JOB_ID={id}\nINCUMBENT_JOB_KIND=check\n\
             INCUMBENT_JOB_QUEUE=checks\nINCUMBENT_JOB_SEQUENCE={}\n",
            out.trim()
        );
        ensure!(env == wanted, "{env}");
        ensure!(waiting(&arena)? == (0, 0), "{:?}", waiting(&arena)?);
    }
    Ok(())
}

#[test]
fn a_failure_is_passed_on_and_the_job_is_given_again_after_a_while() -> Result<()> {
    let arena = seat()?;
    put(&arena, "checks", b"{}")?;
    let (code, _, err) = next(&arena, &["--retry-after", "2s"], "exit 41")?;
    ensure!(code == 41 && err.contains("handed back: check 1"), "{code} {err}");
    ensure!(waiting(&arena)? == (0, 1), "{:?}", waiting(&arena)?);
    let (code, out, err) = next(&arena, &["--poll", "100ms"], "echo $INCUMBENT_JOB_DELIVERIES; kill -9 $$")?;
    ensure!(code == 128 + 9 && out == "2\n" && err.contains("given 2 times"), "{code} {out} {err}");
    Ok(())
}

#[test]
fn no_job_within_the_wait_is_told() -> Result<()> {
    let arena = seat()?;
    let (code, _, err) = next(&arena, &["--wait", "100ms"], "true")?;
    ensure!(code == 1 && err.contains("no job came"), "{code} {err}");
    Ok(())
}

#[test]
fn a_builder_that_is_ended_hands_its_job_back() -> Result<()> {
    let arena = seat()?;
    let start = |script: &str| {
        let mut command = arena.command(&NEXT);
        command.args(["--verbose", "--retry-after", "100ms", "--poll", "100ms", "--", "sh", "-c", script]);
        Running::start(command)
    };
    let mut waits = start("true")?;
    // Its signals are listened to before it opens the store, which makes the buckets.
    until("it waits", || Ok(told(&arena, &["holds", "status"])?.1.contains("as usual").then_some(())))?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    waits.signal(Signal::TERM)?;
    ensure!(waits.ended()? == 128 + 15);

    put(&arena, "checks", b"{}")?;
    let mut runs = start(r#"touch "$ARENA/runs"; sleep 999 & wait"#)?;
    let file = arena.folder().join("runs");
    until("it runs", || Ok(file.exists().then_some(())))?;
    runs.signal(Signal::TERM)?;
    ensure!(runs.ended()? == 128 + 15, "{:?}", runs.all_said());
    let (code, out, err) = next(&arena, &[], "echo $INCUMBENT_JOB_DELIVERIES")?;
    ensure!(code == 0 && out == "2\n", "{code} {out} {err}");
    Ok(())
}

#[test]
fn a_command_that_cannot_run_hands_the_job_back() -> Result<()> {
    let arena = seat()?;
    put(&arena, "checks", b"{}")?;
    let no_such = [&NEXT[..], &["--retry-after", "100ms", "--", "no-such-command"]].concat();
    refused(&arena, &no_such, 127, &["no-such-command"])?;
    refused(&arena, &[&NEXT[..], &["--", "/etc/passwd"]].concat(), 126, &["/etc/passwd"])?;
    ensure!(waiting(&arena)? == (0, 1), "{:?}", waiting(&arena)?);
    refused(&arena, &NEXT, 2, &["required arguments"])
}

#[test]
fn the_holder_says_what_builds_and_a_reader_sees_it() -> Result<()> {
    let arena = seat()?;
    put(&arena, "checks", br#"{"id":"build-1790000000000-a"}"#)?;
    let script = r#"
        $INCUMBENT holds begin plan-1652 --json
        $INCUMBENT holds begin plan-1653 -- $INCUMBENT holds status --json
        $INCUMBENT holds status
        $INCUMBENT holds next --builder alice --checks checks --after 24h --wait 2s -- true
        $INCUMBENT holds begin plan-1654 -- sh -c 'exit 41'; echo $?
        $INCUMBENT holds end plan-1652
        $INCUMBENT holds status"#;
    let (code, out, err) = in_office(&arena, script)?;
    let lines: Vec<&str> = out.lines().collect();
    let [begun, both, one, passed_on, ended, none] = lines[..] else { panic!("{out} {err}") };
    let begun: Value = serde_json::from_str(begun)?;
    ensure!(begun["plan"] == "plan-1652" && begun["builds"] == true && begun["since"].is_string(), "{begun}");
    let both: Value = serde_json::from_str(both)?;
    let wanted = json!({ "held": true, "plans": ["plan-1652", "plan-1653"], "let_through": null });
    ensure!(both == wanted, "{both}");
    ensure!(one == "checks wait: plan-1652 builds" && passed_on == "41", "{out}");
    ensure!(ended == "plan-1652 does not build", "{out}");
    ensure!(none == "no delivery builds, checks are taken as usual", "{out}");
    ensure!(code == 0 && err.contains("checks wait: plan-1652 builds"), "{code} {err}");
    Ok(())
}

#[test]
fn the_check_let_through_is_shown() -> Result<()> {
    let arena = seat()?;
    put(&arena, "checks", br#"{"id":"build-1790000000000-a"}"#)?;
    let script = r#"
        $INCUMBENT holds begin plan-1
        $INCUMBENT holds next --builder alice --checks checks -- sh -c \
            'echo $INCUMBENT_JOB_KIND; $INCUMBENT holds status; $INCUMBENT holds status --json'
        $INCUMBENT holds status --json"#;
    let (_, out, err) = in_office(&arena, script)?;
    let lines: Vec<&str> = out.lines().skip(1).collect();
    let [kind, text, during, after] = lines[..] else { panic!("{out} {err}") };
    ensure!(kind == "let-through", "{out}");
    ensure!(text.starts_with("checks wait: plan-1 builds; let through on alice since 20"), "{text}");
    let during: Value = serde_json::from_str(during)?;
    ensure!(during["let_through"]["builder"] == "alice", "{during}");
    let after: Value = serde_json::from_str(after)?;
    ensure!(after["let_through"].is_null() && after["held"] == true, "{after}");
    Ok(())
}

#[test]
fn watch_says_each_change_once() -> Result<()> {
    let arena = seat()?;
    let file = arena.folder().join("watched");
    let mut watch = arena.command(&["holds", "watch", "--every", "50ms"]);
    let _watch = Running::start({
        watch.stdout(fs::File::create(&file)?);
        watch
    })?;
    let saw = |lines: &[&str]| {
        until("it was seen", || {
            let text = fs::read_to_string(&file)?;
            Ok((text.lines().collect::<Vec<_>>() == lines).then_some(()))
        })
    };
    let free = "no delivery builds, checks are taken as usual";
    saw(&[free])?;
    in_office(&arena, "$INCUMBENT holds begin plan-1")?;
    saw(&[free, "checks wait: plan-1 builds"])?;
    in_office(&arena, "$INCUMBENT holds end plan-1")?;
    saw(&[free, "checks wait: plan-1 builds", free])
}

#[test]
fn nobody_else_says_what_builds() -> Result<()> {
    let arena = seat()?;
    let begin = |epoch| ["holds", "begin", "plan-1", "--lease", "office", "--epoch", epoch];
    // The bucket of the leases is made by the first who stands.
    refused(&arena, &begin("1"), 78, &["\"leases\"", "incumbent bucket create"])?;
    let (_, epoch, _) = in_office(&arena, "echo $INCUMBENT_EPOCH")?;
    refused(&arena, &begin(epoch.trim()), 75, &["nobody holds office"])?;
    let script = r#"$INCUMBENT holds begin plan-1 --epoch 999; echo $?
        $INCUMBENT holds end plan-1 --epoch 999; echo $?
        $INCUMBENT holds begin plan-1 --epoch 999 -- touch "$ARENA/ran"; echo $?"#;
    let (_, out, err) = in_office(&arena, script)?;
    ensure!(out == "75\n75\n75\n" && err.contains("not at epoch 999"), "{out} {err}");
    ensure!(!arena.folder().join("ran").exists(), "its command ran");
    let (_, out, err) = in_office(&arena, "$INCUMBENT holds begin plan-; $INCUMBENT holds begin 'the plan'")?;
    ensure!(out.is_empty() && err.contains("\"plan-\" is no plan id"), "{out} {err}");
    ensure!(err.contains("\"the plan\" is no plan id; one looks like plan-1652\n"), "{err}");
    let (_, status, _) = told(&arena, &["holds", "status", "--json"])?;
    ensure!(status.contains(r#""plans":[]"#), "{status}");
    refused(&arena, &["holds", "begin", "plan-1"], 2, &["--lease <NAME>\n", "--epoch <NUMBER>\n"])
}

#[test]
fn queues_that_do_not_fit_are_refused() -> Result<()> {
    let arena = seat()?;
    let (code, _, err) = put(&arena, "checks", &vec![b'x'; 1 << 20])?;
    ensure!(code == 65 && err.contains("the limit is 1044480"), "{code} {err}");
    let (code, _, err) = put(&arena, "nowhere", b"{}")?;
    ensure!(code == 78 && err.contains("incumbent queue create nowhere"), "{code} {err}");
    refused(&arena, &["queue", "status", "nowhere"], 78, &["incumbent queue create nowhere"])?;
    let nowhere = ["holds", "next", "--builder", "a", "--checks", "nowhere", "--", "true"];
    refused(&arena, &nowhere, 78, &["incumbent queue create nowhere"])?;
    refused(&arena, &["queue", "create", "checks", "--ack-wait", "9s"], 78, &["10s"])?;
    refused(&arena, &["queue", "create", "others", "--replicas", "3"], 2, &["--replicas 3"])?;
    let none = ["holds", "next", "--builder", "a", "--", "true"];
    refused(&arena, &none, 78, &["a builder without queues"])?;
    let long = "b".repeat(10 << 10);
    let long = ["holds", "next", "--builder", &long, "--checks", "checks", "--", "true"];
    refused(&arena, &long, 78, &["1 to 200 printable"])?;
    let twice = [&NEXT[..], &["--checks", "checks", "--", "true"]].concat();
    refused(&arena, &twice, 78, &["named twice"])?;
    told(&arena, &["queue", "create", "hasty", "--ack-wait", "500ms"])?;
    let hasty = ["holds", "next", "--builder", "a", "--checks", "hasty", "--", "true"];
    refused(&arena, &hasty, 78, &["at least 1s"])
}

#[test]
fn missing_bucket_on_a_server_holds_no_check_and_is_said_once() -> Result<()> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[])?;
    let remedy = "incumbent bucket create mesh-controller_plans-building";
    // With the ttl that its other writers need, who say every 30 s what builds.
    let whole = format!("{remedy} --store {} --ttl 120s\n", server.url());
    refused(&arena, &["holds", "status"], 78, &[&whole])?;
    ensure!(told(&arena, &["queue", "create", "checks", "--ack-wait", "10s"])?.0 == 0);
    let mut command = arena.command(&NEXT);
    command.args(["--poll", "50ms", "--", "true"]).stdout(Stdio::null());
    let mut builder = Running::start(command)?;
    builder.hears(remedy)?;
    // It looks many times while nothing is there.
    std::thread::sleep(std::time::Duration::from_millis(500));
    put(&arena, "checks", b"{}")?;
    ensure!(builder.ended()? == 0, "{:?}", builder.all_said());
    let said = builder.all_said();
    ensure!(said.iter().filter(|line| line.contains("plans that build")).count() == 1, "{said:#?}");
    Ok(())
}
