//! Does the right of way hold with real builders on a real nats-server, whoever is killed or stopped?

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{self, kv};
use futures_util::StreamExt as _;
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, PATIENCE, Running, lives, until};
use incumbent_tests::seat::{Began, Seat, began, check, put};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const QUEUES: [&str; 3] = ["deliveries", "lint", "build"];

/// How long the key of a builder that is gone stays.
const KEY_TTL: Duration = Duration::from_secs(3);

/// Longer than the lease, so that a plan whose controller lost it is over before its key is.
const PLANS_TTL: &str = "20s";

fn seat() -> Result<(Seat, NatsServer)> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &["--ttl", "3s", "--margin", "1s"])?;
    let mut options = vec!["--after", "1s", "--poll", "100ms", "--retry-after", "50ms"];
    options.extend(["--deliveries", "deliveries", "--checks", "lint", "--checks", "build"]);
    let seat = Seat { arena, options };
    for (bucket, ttl) in [
        ("leases", "3s"),
        ("mesh-controller_plans-building", PLANS_TTL),
        ("mesh-controller_checks-running", "3s"),
    ] {
        seat.run(&["bucket", "create", bucket, "--ttl", ttl])?;
    }
    for queue in QUEUES {
        seat.run(&["queue", "create", queue, "--ack-wait", "3s"])?;
    }
    Ok((seat, server))
}

/// Asks what was asked long ago, so that a check with it may be let through.
fn ask(seat: &Seat, queue: &str, id: &str) -> Result<String> {
    let id = format!("build-1790000000000-{id}");
    let (code, out, err) = put(&seat.arena, queue, format!(r#"{{"id":"{id}"}}"#).as_bytes())?;
    ensure!(code == 0, "{code} {out} {err}");
    Ok(id)
}

fn kill(pid: i32, signal: Signal) -> Result<()> {
    Ok(kill_process(Pid::from_raw(pid).context("a process id")?, signal)?)
}

/// Waits for a start that this is true of.
fn started(seat: &Seat, what: &str, is: impl Fn(&Began) -> bool) -> Result<Began> {
    let found = until(what, || Ok(began(&seat.log()).into_iter().find(|start| is(start))));
    found.with_context(|| seat.log().join("\n"))
}

/// Waits until every builder has begun to look this often since that line of the log.
fn looked(seat: &Seat, since: usize, times: usize) -> Result<()> {
    until("all have looked", || {
        let log = seat.log();
        let looks = |builder| {
            let look = format!("look {builder}.");
            log.iter().skip(since).filter(|line| line.starts_with(&look)).count()
        };
        Ok(BUILDERS.iter().all(|builder| looks(builder) >= times).then_some(()))
    })
}

const BUILDERS: [&str; 3] = ["alice", "bob", "carol"];

/// Waits until this plan builds: the line of the log.
fn begun(seat: &Seat, plan: &str) -> Result<usize> {
    let line = format!("begin {plan}");
    until("it builds", || Ok(seat.log().iter().position(|other| *other == line)))
}

/// Waits until nothing waits or runs.
fn drained(seat: &Seat) -> Result<()> {
    let drained = until("the queues are empty", || {
        for queue in QUEUES {
            let status: Value = serde_json::from_str(&seat.run(&["queue", "status", queue, "--json"])?)?;
            if status["waiting"] != 0 || status["taken"] != 0 {
                return Ok(None);
            }
        }
        Ok(Some(()))
    });
    drained.with_context(|| seat.log().join("\n"))
}

#[test]
fn the_right_of_way_holds_whoever_is_killed() -> Result<()> {
    let (seat, mut server) = seat()?;
    let mut asked = BTreeSet::new();
    let mut ask = |queue: &str, id: &str| anyhow::Ok(asked.insert(ask(&seat, queue, id)?));
    let mut builders: Vec<Running> = Vec::new();
    for builder in BUILDERS {
        builders.push(seat.builder(builder)?);
    }

    // Checks are held but for one at a time, deliveries are not; the builder of the one is killed.
    let mut first = seat.plan("plan-1")?;
    let since = begun(&seat, "plan-1")?;
    looked(&seat, since, 1)?;
    for id in ["1", "2", "3-poor"] {
        ask("lint", id)?;
        ask("build", &format!("b{id}"))?;
        ask("deliveries", &format!("d{id}"))?;
    }
    let one = started(&seat, "a check is let through", |start| start.kind == "let-through")?;
    kill(seat.pid(one.builder())?, Signal::KILL)?;
    started(&seat, "the next one is", |start| start.kind == "let-through" && start.line > one.line)?;
    seat.mark("built")?;
    ensure!(first.ended()? == 0, "{:?}", first.all_said());

    // As usual; a builder is killed with whatever it does.
    for id in ["4", "5"] {
        ask("lint", id)?;
        ask("build", &format!("b{id}"))?;
    }
    let usual = started(&seat, "checks run as usual", |start| start.kind == "check")?;
    kill(seat.pid(usual.builder())?, Signal::KILL)?;
    drained(&seat)?;
    seat.unmark("built")?;

    // The server is away for a moment, and for longer than the key lives, while each builder has a job.
    for (round, away) in [Duration::ZERO, KEY_TTL + Duration::from_secs(1)].into_iter().enumerate() {
        let plan = format!("plan-{}", round + 2);
        let mut controller = seat.plan(&plan)?;
        let since = begun(&seat, &plan)?;
        // Whoever looked before has looked.
        looked(&seat, since, 2)?;
        ask("deliveries", &format!("{round}-d1-long"))?;
        ask("deliveries", &format!("{round}-d2-long"))?;
        ask("lint", &format!("{round}-long"))?;
        let jobs = until("each builder has a job", || {
            let long = |start: &Began| start.line > since && start.id.ends_with("long");
            let jobs: Vec<Began> = began(&seat.log()).into_iter().filter(long).collect();
            Ok((jobs.len() == BUILDERS.len()).then_some(jobs))
        })
        .with_context(|| seat.log().join("\n"))?;
        // A server writes down a little later whom it gave an ask.
        std::thread::sleep(Duration::from_secs(1));
        server.kill()?;
        let killed = Instant::now();
        if !away.is_zero() {
            until("the jobs are ended", || Ok((!jobs.iter().any(|job| lives(job.pid))).then_some(())))?;
            ensure!(controller.ended()? == 75, "{:?}", controller.all_said());
            std::thread::sleep(away.saturating_sub(killed.elapsed()));
        }
        server.restart()?;
        ask("build", &format!("{round}-b"))?;
        seat.mark("go")?;
        seat.mark("built")?;
        // Where the lease was lost, for a moment or for long, the plan is over too.
        let code = controller.ended()?;
        ensure!(code == 0 || code == 75, "{code}: {:?}", controller.all_said());
        drained(&seat)?;
        seat.unmark("go")?;
        seat.unmark("built")?;
    }

    seat.mark("stop")?;
    for builder in &mut builders {
        builder.ended()?;
    }
    let log = seat.log();
    check(&log)?;
    for id in asked {
        let end = format!("end {id} ");
        ensure!(log.iter().any(|line| line.starts_with(&end)), "{id} was lost:\n{}", log.join("\n"));
    }
    Ok(())
}

/// Two checks that may be let through, one of them on alice, with a plan of another program.
async fn let_through() -> Result<(Seat, NatsServer, Running, Began, kv::Store)> {
    let (seat, server) = seat()?;
    let js = jetstream::new(async_nats::connect(server.url()).await?);
    let plans = js.get_key_value("mesh-controller_plans-building").await?;
    let running = js.get_key_value("mesh-controller_checks-running").await?;
    plans.put("plan-1", "{}".into()).await?;
    ask(&seat, "lint", "1-long")?;
    ask(&seat, "build", "2-long")?;
    tokio::spawn(async move {
        while plans.put("plan-1", "{}".into()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let alice = seat.next("alice")?;
    let job = started(&seat, "a check is let through", |start| start.kind == "let-through")?;
    Ok((seat, server, alice, job, running))
}

/// All processes of a session's or a builder's command that live: those that hold its locks.
fn holders(seat: &Seat) -> Vec<i32> {
    let folder = seat.arena.folder().join("lock-let-through");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == folder)
    };
    pids.filter(holds).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_killed_builder_ages_out_and_the_next_check_goes_through() -> Result<()> {
    let (seat, _server, alice, first, running) = let_through().await?;
    let before = until("it has a grandchild", || {
        let held = holders(&seat);
        Ok((held.len() >= 3).then_some(held))
    })?;
    let _bob = seat.next("bob")?;
    alice.signal(Signal::KILL)?;
    let second = started(&seat, "the next goes through", |start| start.look == "bob.0")?;

    ensure!(second.kind == "let-through", "{second:?}");
    ensure!(!lives(first.pid), "its command lives");
    let left: Vec<_> = before.into_iter().filter(|pid| lives(*pid)).collect();
    ensure!(left.is_empty(), "{left:?} live");
    let key = running.entry("let-through").await?.context("bob's key")?;
    ensure!(key.value.starts_with(br#"{"builder":"bob""#), "{key:?}");
    check(&seat.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_builder_that_wakes_too_late_touches_nothing() -> Result<()> {
    let (seat, _server, mut alice, first, running) = let_through().await?;
    let mut bob = seat.next("bob")?;
    alice.signal(Signal::STOP)?;
    let second = started(&seat, "the next goes through", |start| start.look == "bob.0")?;
    ensure!(second.kind == "let-through" && !lives(first.pid), "{second:?} beside {first:?}");

    let mut writes = running.watch_with_history("let-through").await?;
    alice.signal(Signal::CONT)?;
    ensure!(alice.ended()? == 75, "{:?}", alice.all_said());
    let said = alice.all_said();
    ensure!(said.iter().any(|line| line.contains("the job was lost")), "{said:?}");
    // Bob keeps it undisturbed a few times more: every revision is his, none is missing.
    let mut last: Option<kv::Entry> = None;
    for _ in 0..6 {
        let write = tokio::time::timeout(PATIENCE, writes.next()).await?;
        let write = write.context("the watch ended")??;
        ensure!(write.operation == kv::Operation::Put, "{write:?}");
        ensure!(write.value.starts_with(br#"{"builder":"bob""#), "{write:?}");
        if let Some(last) = last {
            ensure!(last.revision + 1 == write.revision && last.value == write.value, "{last:?} {write:?}");
        }
        last = Some(write);
    }
    seat.mark("go")?;
    ensure!(bob.ended()? == 0, "{:?}", bob.all_said());
    check(&seat.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_taken_by_another_program_while_its_builder_slept_is_left_alone() -> Result<()> {
    let (_seat, _server, mut alice, first, running) = let_through().await?;
    alice.signal(Signal::STOP)?;
    let create = async {
        let value = r#"{"builder":"go","since":"2026-01-02T03:04:05Z"}"#;
        loop {
            if let Ok(revision) = running.create("let-through", value.into()).await {
                return revision;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let theirs = tokio::time::timeout(PATIENCE, create).await.context("the key does not age out")?;
    ensure!(!lives(first.pid), "the command lives, its key aged out");
    let before = running.entry("let-through").await?.context("it was just made")?;
    alice.signal(Signal::CONT)?;
    ensure!(alice.ended()? == 75, "{:?}", alice.all_said());
    let after = running.entry("let-through").await?.context("it is there")?;
    ensure!(after.revision == theirs && after.value == before.value, "{before:?} became {after:?}");
    Ok(())
}

#[test]
fn a_job_that_went_to_the_next_builder_is_not_taken_from_it_by_the_first() -> Result<()> {
    let (seat, _server) = seat()?;
    let id = ask(&seat, "lint", "1-long")?;
    let mut alice = seat.next("alice")?;
    started(&seat, "alice has it", |start| start.look == "alice.0")?;
    let _others = (seat.next("bob")?, seat.next("carol")?);
    alice.signal(Signal::STOP)?;
    let second = started(&seat, "another has it", |start| start.look != "alice.0")?;
    ensure!(second.id == id && second.deliveries == 2, "{second:?}");
    alice.signal(Signal::CONT)?;
    ensure!(alice.ended()? == 75, "{:?}", alice.all_said());

    // Had it come back, the third builder would have it by now.
    std::thread::sleep(Duration::from_secs(1));
    let next = ask(&seat, "build", "2-long")?;
    let third = started(&seat, "the third has one", |start| start.line > second.line)?;
    ensure!(third.id == next && third.deliveries == 1, "{third:?}");
    check(&seat.log())
}

#[test]
fn a_broken_rule_is_noticed() -> Result<()> {
    let log = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let start = |kind: &str, deliveries: u64| format!("start {kind} id {deliveries} a.1 1 1\n");
    let plan = "begin plan-1\nlook a.1\n";
    let builds = "builds plan-1\n";
    for (text, fine) in [
        (format!("{plan}{builds}{}{builds}", start("check", 1)), false),
        (format!("{plan}{builds}{}{builds}", start("let-through", 1)), true),
        (format!("{plan}{builds}{}", start("check", 1)), true),
        (format!("look a.1\nbegin plan-1\n{}{builds}", start("check", 1)), true),
        (format!("look a.1\n{}{}", start("check", 1), start("check", 1)), false),
        (format!("look a.1\n{}{}", start("check", 1), start("check", 2)), true),
        ("overlap id\n".into(), false),
    ] {
        ensure!(check(&log(&text)).is_ok() == fine, "{text}");
    }
    Ok(())
}
