//! Gathers what `incumbent policy new` writes: the templates in `scaffold/`, and copies of the contract, of the built-in
//! decisions and of what builds them. Versions and profiles are this workspace's, so they are written down once.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What is copied as it is: from the workspace, to the new policy. A folder is copied whole.
const COPIED: [(&str, &str); 9] = [
    ("guest/src", "incumbent-policy/src"),
    ("guest/Cargo.toml", "incumbent-policy/Cargo.toml"),
    ("LICENSE-APACHE", "incumbent-policy/LICENSE-APACHE"),
    ("LICENSE-MIT", "incumbent-policy/LICENSE-MIT"),
    ("wit", "wit"),
    ("host/build/wasm.rs", "make/src/wasm.rs"),
    // With this project's own dependencies in it, which cargo drops from it, it says which versions were tried.
    ("Cargo.lock", "Cargo.lock"),
    ("rustfmt.toml", "rustfmt.toml"),
    ("host/scaffold/gitignore", ".gitignore"),
];

/// The files as Rust: a list of paths and texts.
pub(super) fn gather(workspace: &Path, out: &Path, words: &[(&str, &str)]) -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    for (from, to) in COPIED {
        println!("cargo::rerun-if-changed={}", workspace.join(from).display());
        walk(&workspace.join(from), Path::new(to), &mut files)?;
    }
    let manifest = fs::read_to_string(workspace.join("Cargo.toml"))?;
    let toolchain = fs::read_to_string(workspace.join("rust-toolchain.toml"))?;
    let mut templates = Vec::new();
    walk(&workspace.join("host/scaffold"), Path::new(""), &mut templates)?;
    templates.retain(|(_, to)| to != Path::new("gitignore"));
    for (from, to) in templates {
        println!("cargo::rerun-if-changed={}", from.display());
        let mut text = fs::read_to_string(&from)?;
        if to.extension().is_none_or(|extension| extension != "rs") {
            text = filled(&text, &[&manifest, &toolchain])?;
            for (word, meaning) in words {
                text = text.replace(&format!("{{{word}}}"), meaning);
            }
        }
        let made = out.join("scaffold").join(&to);
        fs::create_dir_all(made.parent().unwrap_or(out))?;
        fs::write(&made, text)?;
        files.push((made, to));
    }
    files.sort_by(|(_, one), (_, other)| one.cmp(other));
    let mut list = String::from("[\n");
    for (from, to) in files {
        writeln!(list, "    ({to:?}, include_str!({from:?})),")?;
    }
    Ok(list + "]\n")
}

/// Every file at or below `from`, and where it goes.
fn walk(from: &Path, to: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<(), Box<dyn Error>> {
    if from.is_file() {
        files.push((from.canonicalize()?, to.to_owned()));
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(|why| format!("{}: {why}", from.display()))? {
        let entry = entry?;
        walk(&entry.path(), &to.join(entry.file_name()), files)?;
    }
    Ok(())
}

/// A template with its lines `{[section]}` and `{dependency}` replaced by what these manifests say.
fn filled(template: &str, manifests: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for line in template.lines() {
        let wanted = line.strip_prefix('{').and_then(|line| line.strip_suffix('}'));
        let found = match wanted {
            Some(wanted) => manifests
                .iter()
                .find_map(|manifest| section_or_entry(manifest, wanted))
                .ok_or_else(|| format!("no manifest says {wanted}"))?,
            None => line.to_owned(),
        };
        writeln!(text, "{found}")?;
    }
    Ok(text)
}

/// A section with its heading, or the one line of a dependency.
fn section_or_entry(manifest: &str, wanted: &str) -> Option<String> {
    let entry = format!("{wanted} = ");
    let mut lines = manifest.lines().skip_while(|line| *line != wanted && !line.starts_with(&entry));
    let first = lines.next()?;
    let mut found = vec![first];
    if first == wanted {
        found.extend(lines.take_while(|line| !line.starts_with('[')));
        // What stands before the next heading belongs to that.
        while found.last().is_some_and(|line| line.is_empty() || line.starts_with('#')) {
            found.pop();
        }
    }
    Some(found.join("\n"))
}
