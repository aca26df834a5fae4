//! Builds the policy that the host carries as its built-in one, and gathers what the host says of the contract and what
//! a new policy is made of.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "build/contract.rs"]
mod contract;
#[path = "build/guest.rs"]
mod guest;
#[path = "build/scaffold.rs"]
mod scaffold;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=scaffold");
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = out.join("guest");
    fs::write(
        out.join("policy.wasm"),
        guest::component(&workspace, &target, "incumbent-policy", "built-in")?,
    )?;
    // Where the tests' policies are built, so that what they depend on is built once.
    println!("cargo::metadata=target={}", target.display());

    let contract = contract::read(&workspace.join("wit"))?;
    let words = [("version", env::var("CARGO_PKG_VERSION")?), ("contract", contract.version)];
    let words = words.each_ref().map(|(word, meaning)| (*word, meaning.as_str()));
    fs::write(out.join("contract.rs"), contract.source)?;
    fs::write(out.join("scaffold.rs"), scaffold::gather(&workspace, &out, &words)?)?;
    Ok(())
}
