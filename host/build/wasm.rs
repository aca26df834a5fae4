//! Builds a policy for wasm32-unknown-unknown, in a folder and an environment of its own, and makes it a component.
//! Shared by this project's build scripts and by the `make` of a policy that `incumbent policy new` made.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// What a nested cargo may inherit. Everything else (flags, wrappers, the outer build's `CARGO_…`) would
/// change how the policy is built, or have it built for the host.
const INHERITED: [&str; 10] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
];
const INHERITED_GROUPS: [&str; 4] = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTRIES_", "CARGO_SOURCE_"];

/// The component of a policy crate: the one that these arguments choose in the workspace at `folder`, whose library
/// has this name. Built below `target`.
pub(super) fn component(
    folder: &Path,
    target: &Path,
    library: &str,
    choice: &[&str],
) -> Result<Vec<u8>, Box<dyn Error>> {
    let module = build(folder, target, library, choice)?;
    let component = wit_component::ComponentEncoder::default()
        .module(&fs::read(&module)?)?
        .validate(true)
        .encode()
        .map_err(|why| format!("{} cannot be made a component: {why:#}", module.display()))?;
    Ok(component)
}

/// Builds the core module and answers where it is.
fn build(folder: &Path, target: &Path, library: &str, choice: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = toolchain()?;
    cargo
        .current_dir(folder)
        .args(["rustc", "--lib", "--crate-type", "cdylib"])
        .args(choice)
        .args(["--profile", "policy", "--target", TARGET, "--target-dir"])
        .arg(target)
        // All the memory that a call needs, from the start: growing it, and taking that back after each call,
        // would interrupt every core. The stack's default alone is 1 MiB.
        .args(["--", "-Clink-arg=-zstack-size=262144", "-Clink-arg=--initial-memory=524288"]);
    let built = cargo.status().map_err(|why| format!("{cargo:?} cannot be run: {why}"))?;
    if !built.success() {
        return Err(format!("the policy {library} does not build; cargo's words are above").into());
    }
    Ok(target.join(TARGET).join("policy").join(library).with_extension("wasm"))
}

/// A cargo that can build for the target: the one that runs this build, else the distribution's with its
/// standard library's source.
fn toolchain() -> Result<Command, Box<dyn Error>> {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let ask = |what: &[&str]| -> Option<String> {
        let answer = Command::new(&rustc).args(what).output().ok()?;
        answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    };
    let installed =
        ask(&["--print", "target-libdir", "--target", TARGET]).is_some_and(|dir| Path::new(&dir).is_dir());
    if installed && env::var_os("INCUMBENT_DISTRIBUTION_RUSTC").is_none() {
        let mut cargo = clean(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        cargo.env("RUSTC", &rustc);
        return Ok(cargo);
    }

    let sysroot = ask(&["--print", "sysroot"]).unwrap_or_default();
    let about = ask(&["-vV"]).unwrap_or_default();
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let linker = Path::new(&sysroot).join("lib/rustlib").join(host).join("bin/rust-lld");
    let usable = ["/usr/bin/cargo", "/usr/bin/rustc"].iter().all(|tool| Path::new(tool).is_file());
    if !usable || !linker.is_file() {
        return Err(format!(
            "the policy needs the target {TARGET}, which {rustc} does not have. Install it:\n\
             \n    rustup target add {TARGET}\n\
             \nor, on Debian where rustup cannot reach it, as root:\n\
             \n    apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-src\n"
        )
        .into());
    }
    let mut cargo = clean("/usr/bin/cargo".into());
    cargo
        .env("RUSTC", "/usr/bin/rustc")
        // The distribution's toolchain has no built library for the target, and its own cargo is stable.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
        .env("CARGO_UNSTABLE_BUILD_STD", "core,alloc");
    Ok(cargo)
}

fn clean(program: String) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| {
            INHERITED.contains(&name) || INHERITED_GROUPS.iter().any(|group| name.starts_with(group))
        })
    }));
    command
}
