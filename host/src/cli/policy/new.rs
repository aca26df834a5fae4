//! Making a policy of one's own: a workspace that builds by itself, with the contract and the built-in decisions in it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use crate::cli::args::PolicyNew;
use crate::cli::exit::{Exit, wrong};
use crate::cli::say;

/// Every file of a new policy and its text. In those that are not Rust, `{name}` stands for its name.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/scaffold.rs"));

/// A package's name, bytes: what the registries of packages take.
const NAME_BYTES: usize = 64;

/// The other packages of the workspace.
const TAKEN: [&str; 2] = ["incumbent-policy", "make"];

/// `incumbent policy new`.
pub(crate) fn new(args: &PolicyNew) -> anyhow::Result<ExitCode> {
    let folder = args.folder.as_path();
    let name = name(args).map_err(refused)?;
    let shown = folder.display();
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let why =
                    format!("{shown} is not empty: name a folder that is, or one that is not there yet");
                return Err(refused(why));
            }
        }
        Err(why) if why.kind() == ErrorKind::NotFound => {}
        Err(why) if why.kind() == ErrorKind::NotADirectory => {
            return Err(refused(format!("{shown} is a file: name a folder that is not there yet")));
        }
        Err(why) => return Err(why).with_context(|| format!("the folder {shown}")),
    }
    for (path, text) in FILES {
        let text = if path.ends_with(".rs") { (*text).to_owned() } else { text.replace("{name}", &name) };
        write(&folder.join(path), &text)?;
    }
    let text = format!(
        "{shown} has the policy {name}. What it decides is in src/lib.rs; in that folder:\n
    cargo test                          # try its decisions
    cargo run -p make                   # build policy.wasm
    incumbent policy check policy.wasm  # every step that it takes before it serves"
    );
    say::answer(&text, &json!({ "name": name, "folder": folder }))?;
    Ok(Exit::Done.into())
}

/// Writes a file that is not there yet.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let named = || format!("{} cannot be written", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(named)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(file).with_context(named)?;
    file.write_all(text.as_bytes()).with_context(named)
}

/// The name that was given, or the folder's.
fn name(args: &PolicyNew) -> Result<String, String> {
    if let Some(name) = &args.name {
        return fits(name).map(|()| name.clone());
    }
    // `.` and `..` have a name too.
    let whole = args.folder.canonicalize().unwrap_or_else(|_| args.folder.clone());
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fits(&name)
        .map(|()| name)
        .map_err(|why| format!("the folder's name does not do, give one with --name: {why}"))
}

/// Whether a package may have this name.
fn fits(name: &str) -> Result<(), String> {
    let named = name.escape_debug();
    if TAKEN.contains(&name) {
        return Err(format!("a policy cannot be named {named}: it has a package of that name in it"));
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.len() > NAME_BYTES
        || !name.starts_with(|first: char| first.is_ascii_alphabetic())
        || !name.chars().all(allowed)
    {
        return Err(format!(
            "a policy cannot be named \"{named}\": a name begins with a letter and has 1 to {NAME_BYTES} letters, \
             digits, - and _, as packages have"
        ));
    }
    Ok(())
}

fn refused(why: String) -> anyhow::Error {
    wrong(Exit::Usage, why)
}
