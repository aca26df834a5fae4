//! Is nobody else's gate open, no epoch issued twice and no stale act admitted, on real stores, with real processes
//! and real faults? And would it be found if it were otherwise?

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use incumbent_tests::command::example;
use incumbent_tests::rounds::fault::{Fault, Kind, all, deck};
use incumbent_tests::rounds::log::{Act, Line, Log, Pass, stale, sweep};
use incumbent_tests::rounds::round::{Broken, Order, Report, run};
use incumbent_tests::rounds::site::Program;
use incumbent_tests::running::output;

fn program() -> Result<Program> {
    Program::new(example("scoreboard"))
}

fn holds(seed: u64, kind: Kind, fault: Fault) -> Result<()> {
    let report = run(&program()?, Order { seed, kind, fault }, Broken::default())?;
    ensure!(report.is_clean(), "{:?} {:?}{}", report.sweep.overlaps, report.sweep.epochs, report.tails);
    report.evidence.with_context(|| format!("the fault did not hit{}", report.tails))?;
    Ok(())
}

#[test]
fn killed_holder_on_nats_is_succeeded_without_overlap() -> Result<()> {
    holds(1, Kind::Nats, Fault::KillHolder)
}

#[test]
fn stopped_holder_on_sqlite_is_succeeded_without_overlap() -> Result<()> {
    holds(1, Kind::Sqlite, Fault::StopHolder)
}

#[test]
fn cluster_whose_leader_steps_down_has_no_overlap() -> Result<()> {
    holds(1, Kind::Cluster, Fault::StepDown)
}

#[test]
fn data_rolled_back_to_before_the_take_frees_nothing_under_the_delayed_rule() -> Result<()> {
    // Of this seed the copy is from before the first take.
    holds(10, Kind::Nats, Fault::RollBack)
}

#[test]
fn file_that_is_removed_frees_nothing_under_the_watched_rule() -> Result<()> {
    holds(1, Kind::Sqlite, Fault::Wipe)
}

#[test]
fn file_rolled_back_frees_nothing_under_the_delayed_rule() -> Result<()> {
    holds(1, Kind::Sqlite, Fault::RollBack)
}

#[test]
fn file_whose_disk_is_full_has_no_overlap() -> Result<()> {
    // As a process of its own, which may mount a disk that nobody else sees.
    let (code, out, told) =
        output(Command::new(example("scoreboard")).args(["round", "1", "SQLite, disk full"]))?;
    if told.contains("no disk of its own can be mounted here") {
        eprintln!("not tried: {told}");
        return Ok(());
    }
    ensure!(code == 0 && told.contains("is full"), "{code}\n{out}{told}");
    Ok(())
}

fn played_broken(broken: Broken) -> Result<Report> {
    run(&program()?, Order { seed: 1, kind: Kind::Sqlite, fault: Fault::StopHolder }, broken)
}

#[test]
fn gate_that_is_ignored_is_found_and_the_fence_refuses_its_acts() -> Result<()> {
    let report = played_broken(Broken { gate: true, fence: false })?;
    ensure!(!report.sweep.overlaps.is_empty(), "no overlap was found{}", report.tails);
    ensure!(report.refused > 0, "no stale act was refused{}", report.tails);
    ensure!(report.admitted == 0, "{} stale acts were admitted{}", report.admitted, report.tails);
    Ok(())
}

#[test]
fn stale_act_is_found_when_the_fence_is_left_open() -> Result<()> {
    let report = played_broken(Broken { gate: true, fence: true })?;
    ensure!(report.admitted > 0, "no stale act was found{}", report.tails);
    Ok(())
}

/// What a holder wrote down, in milliseconds: `(epoch, passes)` each time it took.
fn log(holder: &str, tenures: &[(u64, &[(u64, u64)])]) -> Log {
    let mut lines = Vec::new();
    for (epoch, passes) in tenures {
        lines.push(Line::Taken { at: passes.first().map_or(0, |pass| pass.0), epoch: *epoch });
        let pass = |(before, after): &(u64, u64)| {
            Line::Pass(Pass { epoch: *epoch, before: before * 1_000_000, after: after * 1_000_000 })
        };
        lines.extend(passes.iter().map(pass));
    }
    Log { holder: holder.into(), lines }
}

#[test]
fn holders_one_after_the_other_are_no_overlap() {
    let alice = log("alice", &[(1, &[(10, 11), (20, 21)]), (9, &[(70, 71)])]);
    let bob = log("bob", &[(5, &[(30, 31), (60, 61)])]);
    let found = sweep(&[bob, alice]);
    assert_eq!((found.overlaps.len(), found.epochs.len(), found.under_way), (0, 0, 0), "{found:?}");
    assert_eq!((found.tenures.len(), found.passes), (3, 5));
}

#[test]
fn earlier_holder_that_passes_after_the_next_ones_first_pass_is_an_overlap() {
    let alice = log("alice", &[(1, &[(10, 11), (32, 33)])]);
    let bob = log("bob", &[(5, &[(30, 31), (60, 61)])]);
    let found = sweep(&[alice, bob]);
    assert_eq!(found.overlaps.len(), 1, "{found:?}");
    assert!(found.overlaps[0].contains("alice") && found.overlaps[0].contains("passed 1 ms after bob"));
    assert!(found.epochs.is_empty());
}

#[test]
fn overlap_with_a_holder_of_long_ago_is_found_behind_others() {
    let alice = log("alice", &[(1, &[(10, 11), (90, 91)])]);
    let bob = log("bob", &[(5, &[(30, 31)])]);
    let carol = log("carol", &[(7, &[(50, 51)])]);
    assert_eq!(sweep(&[alice, bob, carol]).overlaps.len(), 2);
}

#[test]
fn act_that_began_in_time_and_ended_late_is_the_fences_matter() {
    let alice = log("alice", &[(1, &[(10, 40)])]);
    let bob = log("bob", &[(5, &[(30, 31)])]);
    let found = sweep(&[alice, bob]);
    assert_eq!((found.overlaps.len(), found.under_way), (0, 1), "{found:?}");
}

#[test]
fn epoch_that_is_issued_twice_is_found() {
    let alice = log("alice", &[(5, &[(10, 11)])]);
    let bob = log("bob", &[(5, &[(30, 31)])]);
    let found = sweep(&[alice, bob]);
    assert!(
        found.epochs.iter().any(|what| what.contains("epoch 5 was issued to alice and to bob")),
        "{found:?}"
    );
    // Also to one and the same holder, and when nobody acted at it.
    assert!(!sweep(&[log("alice", &[(5, &[]), (5, &[])])]).epochs.is_empty());
}

#[test]
fn epoch_that_does_not_rise_is_found() {
    let found = sweep(&[log("alice", &[(5, &[(10, 11)])]), log("bob", &[(4, &[(30, 31)])])]);
    assert_eq!(found.epochs.len(), 1, "{found:?}");
}

#[test]
fn pass_at_an_epoch_that_was_not_taken_is_found() {
    let mut alice = log("alice", &[(5, &[(10, 11)])]);
    alice.lines.push(Line::Pass(Pass { epoch: 6, before: 12, after: 13 }));
    assert!(!sweep(&[alice]).epochs.is_empty());
}

#[test]
fn stale_act_that_is_admitted_is_found_and_one_that_is_refused_is_counted() {
    let act = |epoch, admitted| Act { epoch, admitted };
    assert_eq!(stale(&[act(1, true), act(1, true), act(5, true), act(5, true)]), (0, 0));
    assert_eq!(stale(&[act(1, true), act(5, true), act(1, false), act(1, true)]), (1, 1));
}

#[test]
fn line_reads_as_it_was_written() -> Result<()> {
    let lines = [
        Line::Taken { at: 7, epoch: 9 },
        Line::Pass(Pass { epoch: 9, before: 8, after: 10 }),
        Line::Said { at: 11, what: "renewal failed, trying again: no answer".into() },
    ];
    for line in lines {
        ensure!(Line::parse(line.text().trim_end())? == line);
    }
    for text in ["", "pass 1 2", "pass 1 2 x", "taken 1", "held 1 2"] {
        ensure!(Line::parse(text).is_err(), "{text:?} is taken for a line");
    }
    Ok(())
}

#[test]
fn round_is_found_again_by_what_was_shown_of_it() -> Result<()> {
    let order = Order { seed: 31, kind: Kind::Cluster, fault: Fault::StepDown };
    ensure!(order.to_string() == "31 'NATS cluster, step down'");
    ensure!(Order::parse("31", "NATS cluster, step down")? == order);
    ensure!(Order::parse("31", "SQLite, cut").is_err() && Order::parse("x", "SQLite, lock").is_err());
    Ok(())
}

#[test]
fn deck_has_every_fault_once_before_any_twice_and_is_the_same_for_a_seed() {
    let possible: Vec<_> = all().collect();
    let all = possible.len();
    let drawn = deck(7, &possible, all + 3);
    for kind in Kind::ALL {
        for fault in kind.faults() {
            let count = drawn[..all].iter().filter(|drawn| **drawn == (kind, *fault)).count();
            assert_eq!(count, 1, "{kind}, {fault}");
        }
    }
    assert_eq!(drawn, deck(7, &possible, all + 3));
    assert_ne!(drawn, deck(8, &possible, all + 3));
}
