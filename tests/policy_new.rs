//! Is what `incumbent policy new` makes a policy: does it test, build and pass the rehearsal, with no network and nothing
//! of this repository?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use incumbent::limits::REHEARSAL;
use incumbent::policy::rehearsal::rehearse;
use incumbent::{Policy, Runtime};
use incumbent_tests::command::incumbent;
use incumbent_tests::running::output;
use tempfile::TempDir;

fn policy(arguments: &[&str], folder: &Path) -> Result<(i32, String, String)> {
    output(Command::new(incumbent()).arg("policy").args(arguments).current_dir(folder).stdin(Stdio::null()))
}

/// Where dependencies are built for the machine, from run to run; what is made beside them is made anew.
fn built() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy-new")
}

/// Where the policies of this repository are built: the same dependencies, for WebAssembly.
const POLICIES: &str = env!("INCUMBENT_POLICIES");

fn cargo(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(arguments)
        .current_dir(folder)
        // Two folders, to find in each what was built before: the option is this cargo's, the variable that of `make`.
        .env("CARGO_TARGET_DIR", POLICIES)
        // All that it needs was fetched when this project was built.
        .env("CARGO_NET_OFFLINE", "true");
    let (code, out, err) = output(&mut cargo)?;
    ensure!(code == 0, "cargo {arguments:?} ended with {code}:\n{out}{err}");
    Ok(out)
}

#[tokio::test]
async fn a_new_policy_tests_builds_and_passes_the_rehearsal() -> Result<()> {
    let folder = built().join("own");
    fs::create_dir_all(built())?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (code, out, err) = policy(&["new", "own", "--name", "own-policy"], &built())?;
    ensure!(code == 0 && out.contains("cargo run -p make"), "{code} {out} {err}");

    // Not every toolchain has the formatter.
    if cargo(&folder, &["fmt", "--version"]).is_ok() {
        cargo(&folder, &["fmt", "--all", "--check"])?;
    }
    let target = built().join("target").display().to_string();
    let tested = cargo(&folder, &["test", "--target-dir", &target])?;
    ensure!(tested.contains("2 passed"), "{tested}");
    cargo(&folder, &["run", "--target-dir", &target, "-p", "make"])?;

    let (code, out, err) = policy(&["inspect", "policy.wasm"], &folder)?;
    ensure!(code == 0 && out.starts_with("own-policy 0.1.0\n"), "{code} {out} {err}");
    let state = TempDir::with_prefix("policy-new-")?;
    let checked = ["check", "policy.wasm", "--policy-state", &state.path().display().to_string()];
    let (code, out, err) = policy(&checked, &folder)?;
    ensure!(code == 0, "{code} {out} {err}");
    let component = fs::read(folder.join("policy.wasm"))?;
    let policy = Policy::load(&Runtime::new()?, &component).await?;
    rehearse(&policy, REHEARSAL).await?;
    Ok(())
}

#[test]
fn a_new_policy_is_named_after_its_folder_and_needs_nothing_beside_it() -> Result<()> {
    let folder = TempDir::with_prefix("policy-new-")?;
    fs::create_dir(folder.path().join("frugal"))?;
    let (code, out, err) = policy(&["new", ".", "--json"], &folder.path().join("frugal"))?;
    ensure!(code == 0, "{code} {err}");
    let told: serde_json::Value = serde_json::from_str(&out)?;
    assert_eq!(told["name"], "frugal");

    let read =
        |file: &str| fs::read_to_string(folder.path().join("frugal").join(file)).context(file.to_owned());
    let manifest = read("Cargo.toml")?;
    ensure!(manifest.contains("name = \"frugal\""), "{manifest}");
    let placeholder =
        |text: &str| text.contains("{name}") || text.contains("{version}") || text.contains("{[");
    for file in ["Cargo.toml", "README.md", "rust-toolchain.toml", "incumbent-policy/COPIED.md"] {
        let text = read(file)?;
        ensure!(!placeholder(&text) && !text.contains("\"../"), "{file}: {text}");
    }
    ensure!(read("incumbent-policy/COPIED.md")?.contains("incumbent:policy@0.1.0"));
    assert_eq!(
        read("wit/kv.wit")?,
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/kv.wit"))?
    );
    Ok(())
}

#[test]
fn folders_and_names_that_do_not_do_are_refused_and_nothing_is_made() -> Result<()> {
    let folder = TempDir::with_prefix("policy-new-")?;
    fs::create_dir(folder.path().join("full"))?;
    fs::write(folder.path().join("full/thesis.txt"), "mine")?;
    fs::write(folder.path().join("file"), "mine")?;
    let cases: [(&[&str], &str); 8] = [
        (&["new", "full"], "full is not empty"),
        (&["new", "file"], "file is a file"),
        (&["new", "a b"], "give one with --name"),
        (&["new", "new", "--name", ""], "cannot be named \"\""),
        (&["new", "new", "--name", "../up"], "cannot be named \"../up\""),
        (&["new", "new", "--name", "a\"\nb"], r#"cannot be named "a\"\nb""#),
        (&["new", "new", "--name", "make"], "has a package of that name in it"),
        (&["new"], "DIR"),
    ];
    for (arguments, words) in cases {
        let (code, out, err) = policy(arguments, folder.path())?;
        ensure!(code == 2 && err.contains(words), "{arguments:?} ended with {code}: {out}{err}");
    }
    let long = "n".repeat(65);
    ensure!(policy(&["new", "new", "--name", &long], folder.path())?.0 == 2);
    let mut left: Vec<_> =
        fs::read_dir(folder.path())?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    left.sort();
    assert_eq!(left, ["file", "full"]);
    assert_eq!(fs::read_dir(folder.path().join("full"))?.count(), 1);
    Ok(())
}
