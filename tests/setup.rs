//! Does `tests/setup.sh` bring what a machine lacks whose rustup reaches nothing?

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use incumbent_tests::running::output;
use tempfile::TempDir;

fn program(folder: &Path, name: &str, script: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Root, with a package manager that writes down what it is told, a rustup that reaches nothing and a compiler
/// without the target. Answers how the script ended, what it said, and what was installed.
fn set_up() -> Result<(i32, String, String)> {
    let folder = TempDir::with_prefix("setup-")?;
    let installed = folder.path().join("installed");
    fs::write(&installed, "")?;
    program(folder.path(), "id", "echo 0")?;
    program(folder.path(), "rustup", "exit 1")?;
    program(folder.path(), "rustc", &format!("echo {}", folder.path().join("nothing").display()))?;
    program(folder.path(), "apt-get", &format!("echo \"$@\" >> {}", installed.display()))?;
    let path = std::env::var("PATH").context("there is a PATH")?;
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("setup.sh"));
    script.arg("build").env("LC_ALL", "C").env("PATH", format!("{}:{path}", folder.path().display()));
    let (code, out, err) = output(&mut script)?;
    Ok((code, out + &err, fs::read_to_string(installed)?))
}

#[test]
fn where_rustup_reaches_nothing_the_distributions_compiler_is_taken_or_installed() -> Result<()> {
    let (code, said, installed) = set_up()?;
    ensure!(!said.contains("not found"), "{said}");
    if installed.is_empty() {
        // The machine has it.
        ensure!(code == 0 && said.ends_with("setup: ready\n"), "{code} {said}");
    } else {
        // Told to install it; it is not there all the same, which must not be taken for done.
        ensure!(installed.contains("rustc-web cargo-web rust-web-src"), "{said}{installed}");
        ensure!(code == 1 && said.contains("dpkg -L rust-web-src"), "{code} {said}");
    }
    Ok(())
}
