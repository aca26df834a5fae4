//! `cargo run -p make`: builds the policy of this workspace and writes the component to `policy.wasm`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

mod wasm;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let component = wasm::component(&folder, &target, "policy", &[])?;
    let file = folder.join("policy.wasm");
    fs::write(&file, &component).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    println!("{} ({} bytes)", file.display(), component.len());
    Ok(())
}
