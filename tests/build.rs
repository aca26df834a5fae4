//! Builds the policies that the tests rehearse, beside the built-in one.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../host/build/guest.rs"]
mod guest;

fn main() -> Result<(), Box<dyn Error>> {
    for input in ["build.rs", "guests", "../host/build"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let target = PathBuf::from(env::var("DEP_INCUMBENT_TARGET")?);
    println!("cargo::rustc-env=INCUMBENT_POLICIES={}", target.display());
    for policy in ["strict", "faulty"] {
        let component = guest::component(&workspace, &target, &format!("{policy}-policy"), "")?;
        fs::write(PathBuf::from(env::var("OUT_DIR")?).join(policy).with_extension("wasm"), component)?;
    }
    Ok(())
}
