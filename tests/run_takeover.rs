//! Does exactly one command run, and does the next one take over in time? Two `incumbent run` processes on
//! one store, killed, stopped and ended; on SQLite and on a real nats-server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, lives, until};
use rustix::process::Signal;

const TTL: Duration = Duration::from_secs(3);
const TIMES: [&str; 4] = ["--ttl", "3s", "--margin", "1s"];

/// A store, and what must live as long as it is used.
fn sqlite() -> Result<(Arena, Option<NatsServer>)> {
    Ok((Arena::sqlite(&TIMES)?, None))
}

fn nats() -> Result<(Arena, Option<NatsServer>)> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &TIMES)?;
    let made = arena.command(&["bucket", "create", "leases", "--ttl", "3s"]).status()?;
    ensure!(made.success(), "the bucket cannot be made");
    Ok((arena, Some(server)))
}

fn killed_holder_is_succeeded(arena: &Arena) -> Result<()> {
    let alice = arena.stand("alice")?;
    let first = arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    let killed = Instant::now();
    alice.signal(Signal::KILL)?;
    let second = arena.started(2)?;
    let took = killed.elapsed();

    ensure!(second.epoch > first.epoch, "{second:?} is not above {first:?}");
    ensure!(!lives(first.pid), "the killed holder's command lives");
    ensure!(took < TTL + Duration::from_secs(1), "it took {took:?}");
    eprintln!("after kill -9 of the holder, ttl {TTL:?}: the next one runs after {took:?}");
    arena.check()
}

fn ended_holder_is_succeeded_at_once(arena: &Arena) -> Result<()> {
    let mut alice = arena.stand("alice")?;
    arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    let ended = Instant::now();
    alice.signal(Signal::TERM)?;
    arena.started(2)?;
    let took = ended.elapsed();

    ensure!(alice.ended()? == 128 + 15, "the command's end is passed on");
    ensure!(alice.all_said().iter().any(|line| line.contains("given back")), "it says so");
    // Far below the ttl: given back, not expired. The figure itself is for people.
    ensure!(took < TTL / 2, "it took {took:?}");
    eprintln!("after SIGTERM to the holder: the next one runs after {took:?}");
    arena.check()
}

fn stopped_holder_is_dead_before_the_next_and_never_writes_again(arena: &Arena) -> Result<()> {
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    alice.signal(Signal::STOP)?;
    let second = arena.started(2)?;
    ensure!(!lives(first.pid), "the stopped holder's command lives");
    alice.signal(Signal::CONT)?;

    ensure!(alice.ended()? == 75, "it says that the lease was lost");
    ensure!(alice.all_said().iter().any(|line| line.contains("lost (epoch")), "in words too");
    // Bob's record was neither written nor deleted: he holds on, at his epoch.
    let status = arena.command(&["status", "--lease", "office", "--json"]).output()?;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
    ensure!(status["holder"]["instance"] == "bob", "{status}");
    ensure!(status["holder"]["epoch"] == second.epoch, "{status}");
    arena.check()
}

/// Each question on each store, as a test of its own.
macro_rules! on_each_store {
    ($($question:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $question() -> anyhow::Result<()> {
                let (arena, _server) = super::sqlite()?;
                super::$question(&arena)
            })+
        }
        mod on_nats {
            $(#[test] fn $question() -> anyhow::Result<()> {
                let (arena, _server) = super::nats()?;
                super::$question(&arena)
            })+
        }
    };
}

on_each_store!(
    killed_holder_is_succeeded,
    ended_holder_is_succeeded_at_once,
    stopped_holder_is_dead_before_the_next_and_never_writes_again,
);

#[test]
fn server_restarted_within_the_ttl_loses_nothing() -> Result<()> {
    let (arena, server) = nats()?;
    let mut server = server.expect("a server of its own");
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;

    server.kill()?;
    server.restart()?;
    // Held for longer than the last renewal before the restart was good for.
    let renewed = renewals(&arena)?;
    until("it was renewed twice more", || Ok((renewals(&arena)? >= renewed + 2).then_some(())))?;

    ensure!(lives(first.pid), "the command was ended");
    alice.signal(Signal::TERM)?;
    alice.ended()?;
    let said = alice.all_said();
    ensure!(!said.iter().any(|line| line.contains("lost")), "{said:?}");
    ensure!(arena.starts()?.len() == 1, "it was started once");
    arena.check()
}

/// The revision of the holder's record.
fn renewals(arena: &Arena) -> Result<u64> {
    let status = arena.command(&["status", "--lease", "office", "--json"]).output()?;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
    Ok(status["holder"]["revision"].as_u64().unwrap_or(0))
}

#[test]
fn server_away_for_longer_than_the_ttl_ends_the_command_and_a_later_candidate_takes_over() -> Result<()> {
    let (arena, server) = nats()?;
    let mut server = server.expect("a server of its own");
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;

    server.kill()?;
    let code = alice.ended()?;
    ensure!(code == 75, "{code} is not 75, lost: {:#?}", alice.all_said());
    ensure!(!lives(first.pid), "the command lives");
    server.restart()?;

    let _bob = arena.stand("bob")?;
    let second = arena.started(2)?;
    ensure!(second.epoch > first.epoch, "{second:?} is not above {first:?}");
    arena.check()
}

#[test]
fn one_that_lost_its_lease_with_the_server_stands_again_when_it_is_back() -> Result<()> {
    let mut server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &[&TIMES[..], &["--again"]].concat())?;
    let made = arena.command(&["bucket", "create", "leases", "--ttl", "3s"]).status()?;
    ensure!(made.success(), "the bucket cannot be made");
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;

    server.kill()?;
    alice.hears("cannot open the bucket")?;
    server.restart()?;
    let second = arena.started(2)?;
    ensure!(second.epoch > first.epoch, "{second:?} is not above {first:?}");
    arena.check()
}

#[test]
fn wiped_server_ends_the_command_and_the_next_epoch_is_above_every_earlier_one() -> Result<()> {
    let (arena, server) = nats()?;
    let mut server = server.expect("a server of its own");
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;
    until("a few revisions were given", || Ok((renewals(&arena)? > first.epoch + 1).then_some(())))?;

    server.wipe()?;
    let made = arena.command(&["bucket", "create", "leases", "--ttl", "3s"]).status()?;
    ensure!(made.success(), "the bucket cannot be made again");
    let mut bob = arena.stand("bob")?;
    ensure!(alice.ended()? == 75, "it says that the lease was lost");

    let second = arena.started(2)?;
    ensure!(second.epoch > first.epoch + (1 << 31), "{second:?} does not keep its distance from {first:?}");
    bob.hears("moved past it")?;
    arena.check()
}
