//! Policies on this machine, as its processes wrote them down.

use std::process::ExitCode;

use incumbent::digest;
use incumbent::policies::state::{self, Entry, Event, Quarantined, State, StateDir};
use incumbent::policy::BUILT_IN;
use serde_json::json;

use super::super::args::{PolicyClear, PolicyState};
use super::super::exit::{Exit, wrong};
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
        None => Ok(folders::folder("--policy-state")?.join("policies")),
    }
}

/// What is written down; nothing where there is no folder, which is said where one was named.
fn read(args: &PolicyState) -> anyhow::Result<State> {
    let folder = existing(args)?;
    if let (None, Some(named)) = (&folder, &args.policy_state) {
        say::note(&format!("there is no folder {}", named.display()));
    }
    Ok(folder.map(|folder| folder.read()).transpose()?.unwrap_or_default())
}

/// `incumbent policy status`.
pub(super) fn status(args: &PolicyState) -> anyhow::Result<ExitCode> {
    let state = read(args)?;
    // What was offered last and does not serve.
    let refused = state.history.last().filter(|entry| entry.what == Event::Refused);
    let mut lines = vec![match &state.serving {
        Some(serving) => serving_line(serving),
        None => "the policy built in: no other one served on this machine".into(),
    }];
    if let Some(proven) = &state.proven {
        lines.push(format!("proven: {} {}  sha256:{}", proven.name, proven.version, proven.digest));
    }
    if let Some(Entry { when, digest, why, .. }) = refused {
        let why = why.lines().next().unwrap_or_default();
        lines.push(format!("refused at {when}: sha256:{digest}  {why}"));
    }
    for Quarantined { digest, name, version, why, when } in &state.quarantined {
        lines.push(format!("in quarantine since {when}: {name} {version}  sha256:{digest}  {why}"));
    }
    say::answer(
        &lines.join("\n"),
        &json!({
            "serving": state.serving, "proven": state.proven, "quarantined": state.quarantined,
            "refused": refused,
        }),
    )?;
    Ok(Exit::Done.into())
}

/// The policy that serves on this machine, where another than the built-in one ever did.
pub(crate) fn serving(args: &PolicyState) -> anyhow::Result<Option<state::Serving>> {
    Ok(read(args)?.serving)
}

/// The policy that serves, in one line.
pub(crate) fn serving_line(serving: &state::Serving) -> String {
    let state::Serving { digest, name, version, since, on_probation } = serving;
    let probation = if *on_probation { ", on probation" } else { "" };
    format!("policy {name} {version}  sha256:{digest}  since {since}{probation}")
}

/// `incumbent policy history`.
pub(super) fn history(args: &PolicyState) -> anyhow::Result<ExitCode> {
    let state = read(args)?;
    let line = |Entry { when, what, digest, name, version, why }: &Entry| {
        let what = match what {
            Event::Published => "published",
            Event::Proven => "proven",
            Event::RolledBack => "rolled back",
            Event::Refused => "refused",
            Event::QuarantineCleared => "quarantine cleared",
        };
        let who = [name.as_str(), version.as_str()].join(" ");
        format!("{when}  {what}  {who}  sha256:{digest}  {why}").trim_end().to_owned()
    };
    let lines: Vec<String> = state.history.iter().map(line).collect();
    say::answer(&lines.join("\n"), &json!(state.history))?;
    Ok(Exit::Done.into())
}

/// `incumbent policy rollback`: what serves goes into quarantine, and its processes leave it.
pub(super) fn rollback(args: &PolicyState) -> anyhow::Result<ExitCode> {
    let Some(folder) = existing(args)? else {
        return Err(nothing("no policy but the built-in one served here"));
    };
    let built_in = digest::of(BUILT_IN);
    let gone = folder.update(|state| {
        let serving = state.serving.clone()?;
        // There is none before the built-in one.
        if serving.digest == built_in || state.quarantine_of(&serving.digest).is_some() {
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
    let Some(gone) = gone else { return Err(nothing("no policy but the built-in one serves here")) };
    let text =
        format!("{} {} is in quarantine; its processes go back to the one before", gone.name, gone.version);
    say::answer(&text, &json!({ "rolled-back": gone }))?;
    Ok(Exit::Done.into())
}

fn nothing(why: &str) -> anyhow::Error {
    wrong(Exit::Nobody, why)
}

/// `incumbent policy clear-quarantine`.
pub(super) fn clear(args: &PolicyClear) -> anyhow::Result<ExitCode> {
    let digest = args.digest.trim_start_matches("sha256:");
    let Some(folder) = existing(&args.state)? else { return Err(nothing("nothing is in quarantine")) };
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
    let one = cleared.ok_or_else(|| nothing(&format!("sha256:{digest} is not in quarantine")))?;
    say::answer(&format!("{} {} may be offered again", one.name, one.version), &json!({ "cleared": one }))?;
    Ok(Exit::Done.into())
}
