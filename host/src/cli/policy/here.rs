//! Policies on this machine, as its processes wrote them down.

use std::process::ExitCode;

use anyhow::Context;
use incumbent::policies::state::{self, Entry, Event, Quarantined, StateDir};
use serde_json::json;

use super::super::args::{PolicyClear, PolicyState};
use super::super::exit::Exit;
use super::super::{say, state as folders};

/// What an operator's rollback is for, in the books.
const BY_AN_OPERATOR: &str = "rolled back by an operator";

/// The state folder, made where there is none.
pub(super) fn folder(args: &PolicyState) -> anyhow::Result<StateDir> {
    Ok(StateDir::open(place(args)?)?)
}

/// The state folder, when there is one.
pub(super) fn existing(args: &PolicyState) -> anyhow::Result<Option<StateDir>> {
    if place(args)?.is_dir() { folder(args).map(Some) } else { Ok(None) }
}

fn place(args: &PolicyState) -> anyhow::Result<std::path::PathBuf> {
    match &args.policy_state {
        Some(folder) => Ok(folder.clone()),
        None => Ok(folders::folder()?.join("policies")),
    }
}

/// `incumbent policy status`.
pub(super) fn status(args: &PolicyState, as_json: bool) -> anyhow::Result<ExitCode> {
    let state = existing(args)?.map(|folder| folder.read()).transpose()?.unwrap_or_default();
    // What was offered last and does not serve.
    let refused = state.history.last().filter(|entry| entry.what == Event::Refused);
    if as_json {
        println!(
            "{}",
            json!({
                "serving": state.serving, "proven": state.proven, "quarantined": state.quarantined,
                "refused": refused,
            })
        );
    } else {
        match &state.serving {
            Some(serving) => println!("{}", serving_line(serving)),
            None => println!("the policy built in: no other one served on this machine"),
        }
        if let Some(proven) = &state.proven {
            println!("proven: {} {}  sha256:{}", proven.name, proven.version, proven.digest);
        }
        if let Some(Entry { when, digest, why, .. }) = refused {
            println!("refused at {when}: sha256:{digest}  {}", why.lines().next().unwrap_or_default());
        }
        for Quarantined { digest, name, version, why, when } in &state.quarantined {
            println!("in quarantine since {when}: {name} {version}  sha256:{digest}  {why}");
        }
    }
    Ok(Exit::Done.into())
}

/// The policy that serves on this machine, where another than the built-in one ever did.
pub(crate) fn serving(args: &PolicyState) -> anyhow::Result<Option<state::Serving>> {
    Ok(existing(args)?.map(|folder| folder.read()).transpose()?.and_then(|state| state.serving))
}

/// The policy that serves, in one line.
pub(crate) fn serving_line(serving: &state::Serving) -> String {
    let state::Serving { digest, name, version, since, on_probation } = serving;
    let probation = if *on_probation { ", on probation" } else { "" };
    format!("policy {name} {version}  sha256:{digest}  since {since}{probation}")
}

/// `incumbent policy history`.
pub(super) fn history(args: &PolicyState, as_json: bool) -> anyhow::Result<ExitCode> {
    let state = existing(args)?.map(|folder| folder.read()).transpose()?.unwrap_or_default();
    if as_json {
        println!(
            "{}",
            serde_json::to_string(&state.history).context("the history cannot be written as JSON")?
        );
        return Ok(Exit::Done.into());
    }
    for Entry { when, what, digest, name, version, why } in &state.history {
        let what = match what {
            Event::Published => "published",
            Event::Proven => "proven",
            Event::RolledBack => "rolled back",
            Event::Refused => "refused",
            Event::QuarantineCleared => "quarantine cleared",
        };
        let who = [name.as_str(), version.as_str()].join(" ");
        println!("{}", format!("{when}  {what}  {who}  sha256:{digest}  {why}").trim_end());
    }
    Ok(Exit::Done.into())
}

/// `incumbent policy rollback`: what serves goes into quarantine, and its processes leave it.
pub(super) fn rollback(args: &PolicyState, as_json: bool) -> anyhow::Result<ExitCode> {
    let Some(folder) = existing(args)? else { return nothing("no policy but the built-in one served here") };
    let gone = folder.update(|state| {
        let serving = state.serving.clone()?;
        if state.quarantine_of(&serving.digest).is_some() {
            return None;
        }
        state.quarantined.push(Quarantined {
            digest: serving.digest.clone(),
            name: serving.name.clone(),
            version: serving.version.clone(),
            why: BY_AN_OPERATOR.into(),
            when: state::now(),
        });
        Some(serving)
    })?;
    let Some(gone) = gone else { return nothing("no policy but the built-in one serves here") };
    let text =
        format!("{} {} is in quarantine; its processes go back to the one before", gone.name, gone.version);
    if as_json {
        println!("{}", json!({ "rolled-back": gone }));
    } else {
        println!("{text}");
    }
    Ok(Exit::Done.into())
}

fn nothing(why: &str) -> anyhow::Result<ExitCode> {
    say::error(why);
    Ok(Exit::Nobody.into())
}

/// `incumbent policy clear-quarantine`.
pub(super) fn clear(args: &PolicyClear, as_json: bool) -> anyhow::Result<ExitCode> {
    let digest = args.digest.trim_start_matches("sha256:");
    let Some(folder) = existing(&args.state)? else { return nothing("nothing is in quarantine") };
    let cleared = folder.update(|state| {
        let one = state.quarantine_of(digest).cloned()?;
        state.quarantined.retain(|other| other.digest != digest);
        state.history.push(Entry {
            when: state::now(),
            what: Event::QuarantineCleared,
            digest: one.digest.clone(),
            name: one.name.clone(),
            version: one.version.clone(),
            why: String::new(),
        });
        Some(one)
    })?;
    let Some(one) = cleared else { return nothing(&format!("sha256:{digest} is not in quarantine")) };
    if as_json {
        println!("{}", json!({ "cleared": one }));
    } else {
        println!("{} {} may be offered again", one.name, one.version);
    }
    Ok(Exit::Done.into())
}
