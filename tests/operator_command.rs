//! `incumbent step-down` and `incumbent clear` on real processes: on SQLite and on a real nats-server.

use std::process::Stdio;

use anyhow::{Result, ensure};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::running::{Arena, lives, output};
use serde_json::Value;

const TIMES: [&str; 2] = ["--ttl", "3s"];

fn sqlite() -> Result<(Arena, Option<NatsServer>)> {
    Ok((Arena::sqlite(&TIMES)?, None))
}

fn nats() -> Result<(Arena, Option<NatsServer>)> {
    let server = NatsServer::start()?;
    let arena = Arena::new(server.url(), &TIMES)?;
    let made =
        arena.command(&["bucket", "create", "leases", "--ttl", "3s"]).stdout(Stdio::null()).status()?;
    ensure!(made.success(), "the bucket cannot be made");
    Ok((arena, Some(server)))
}

fn the_holder_ends_its_command_and_the_next_one_runs(arena: &Arena) -> Result<()> {
    let mut alice = arena.stand("alice")?;
    let first = arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    bob.hears("waiting for alice")?;

    let (code, out, err) = output(&mut arena.command(&["step-down", "office", "--by", "ops", "--json"]))?;
    ensure!(code == 0, "{code} {out} {err}");
    let told: Value = serde_json::from_str(&out)?;
    ensure!(told["outcome"] == "given-way" && told["asked"]["instance"] == "alice", "{out}");
    ensure!(told["asked"]["epoch"] == first.epoch, "{out}");

    let second = arena.started(2)?;
    ensure!(second.epoch > first.epoch && !lives(first.pid), "{second:?} after {first:?}");
    ensure!(alice.ended()? == 75, "as when it is lost: a service manager starts it again");
    let said = alice.all_said();
    ensure!(said.iter().any(|line| line.contains("asked to give way by ops")), "{said:?}");
    ensure!(said.iter().any(|line| line.contains("given back")), "{said:?}");
    arena.check()
}

fn what_is_no_holder_blocks_until_it_is_cleared(arena: &Arena) -> Result<()> {
    let alice = arena.stand("alice")?;
    arena.started(1)?;
    let (code, _, err) = output(&mut arena.command(&["clear", "office", "--yes"]))?;
    ensure!(code == 75 && err.contains("alice holds"), "a holder is never cleared: {code} {err}");
    let (code, _, err) = output(&mut arena.command(&["clear", "office"]))?;
    ensure!(code == 2 && err.contains("alice holds"), "{code} {err}");
    drop(alice);
    let (code, out, _) = output(&mut arena.command(&["clear", "nowhere", "--yes"]))?;
    ensure!(code == 1 && out.contains("nothing stands there"), "{code} {out}");
    let (code, out, _) = output(&mut arena.command(&["step-down", "nowhere"]))?;
    ensure!(code == 1 && out.contains("nobody holds nowhere"), "{code} {out}");
    arena.check()
}

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
    the_holder_ends_its_command_and_the_next_one_runs,
    what_is_no_holder_blocks_until_it_is_cleared
);

#[test]
fn garbage_is_told_without_yes_and_gone_with_it() -> Result<()> {
    let arena = Arena::sqlite(&TIMES)?;
    let made = output(
        arena.command(&["run", "--lease", "office", "--ttl", "3s", "--", "true"]).stderr(Stdio::piped()),
    )?;
    ensure!(made.0 == 0, "{made:?}");
    let file = rusqlite::Connection::open(arena.folder().join("leases.db"))?;
    ensure!(file.execute("UPDATE entries SET value = ?1, deleted = 0", [b"garbage"])? == 1, "one record");
    let (code, _, err) = output(&mut arena.command(&["clear", "office"]))?;
    ensure!(code == 2 && err.contains("no holder") && err.contains("--yes"), "{code} {err}");
    let (code, out, err) = output(&mut arena.command(&["clear", "office", "--yes", "--json"]))?;
    let told: Value = serde_json::from_str(&out)?;
    ensure!(code == 0 && (told["outcome"] == "deleted" || told["outcome"] == "aged-out"), "{out} {err}");
    let (code, _, err) = output(&mut arena.command(&["run", "--lease", "office", "--", "true"]))?;
    ensure!(code == 0, "{err}");
    Ok(())
}

#[test]
fn one_that_stands_again_lets_others_go_first() -> Result<()> {
    let arena = Arena::sqlite(&["--ttl", "3s", "--again"])?;
    let mut alice = arena.stand("alice")?;
    arena.started(1)?;
    let mut bob = arena.stand("bob")?;
    for (count, holder) in [(2, "bob"), (3, "alice"), (4, "bob")] {
        match holder {
            "bob" => bob.hears("waiting for alice")?,
            _ => alice.hears("waiting for bob")?,
        };
        let (code, out, err) = output(&mut arena.command(&["step-down", "office"]))?;
        ensure!(code == 0 && out.contains("gave way"), "{code} {out} {err}");
        arena.started(count)?;
        let (_, out, _) = output(&mut arena.command(&["status", "--lease", "office"]))?;
        ensure!(out.starts_with(holder), "{count}: {out}");
    }
    arena.check()
}
