//! The `incumbent` executable itself and the example programs, never stale ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the executable is: beside the running test, built in the same profile, once a test run.
///
/// # Panics
///
/// It does not compile, or the test runs from where cargo did not put it.
#[must_use]
pub fn incumbent() -> PathBuf {
    built().join("incumbent")
}

/// Where this example program is, likewise.
///
/// # Panics
///
/// As [`incumbent()`].
#[must_use]
pub fn example(name: &str) -> PathBuf {
    built().join("examples").join(name)
}

/// The folder of what was built.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    // <target>/<profile>/deps/<test>: cargo sets no CARGO_BIN_EXE for another package's executable.
    let test = std::env::current_exe().expect("a test has an executable");
    let folder = test.ancestors().nth(2).expect("it is in target/<profile>/deps");
    let target = folder.parent().expect("the profile's folder is in the target folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()).expect("cargo names it") {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        // What cargo tells a test about its own package makes build scripts run again, and all after them.
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    let built = cargo
        // With the test selected too, dependencies have the features that they were just built with.
        .args(["build", "--quiet", "--package", "incumbent", "--package", "incumbent-tests"])
        .args(["--bin", "incumbent", "--examples", "--test", "all", "--profile", profile])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the incumbent executable does not compile");
    folder.to_owned()
}

const OWN: [&str; 6] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
