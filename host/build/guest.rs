//! Builds the policies of this workspace. Shared by the build scripts of the host and of the tests.

use std::error::Error;
use std::path::Path;

#[path = "wasm.rs"]
mod wasm;

/// The component of a policy crate of the workspace, built below `target`.
pub(super) fn component(
    workspace: &Path,
    target: &Path,
    package: &str,
    features: &str,
) -> Result<Vec<u8>, Box<dyn Error>> {
    for input in ["guest/src", "guest/Cargo.toml", "wit", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
    println!("cargo::rerun-if-env-changed=INCUMBENT_DISTRIBUTION_RUSTC");
    let choice = ["--package", package, "--features", features];
    wasm::component(workspace, target, &package.replace('-', "_"), &choice)
        .map_err(|why| format!("{why}\n(on a new machine, tests/setup.sh does whichever works)").into())
}
