//! Reads the contract in `wit/`, for what the host has to say of it in words: its version, and what a policy may
//! import.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use wit_parser::{Resolve, WorldItem};

/// What is read of it.
pub(super) struct Contract {
    pub(super) version: String,
    /// The same as Rust: `VERSION` and `OFFERED`.
    pub(super) source: String,
}

/// Reads the contract in this folder.
pub(super) fn read(wit: &Path) -> Result<Contract, Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let name = &resolve.packages[package].name;
    let version = name.version.as_ref().ok_or("the contract has no version")?.to_string();
    let world = resolve.select_world(&[package], Some("policy"))?;

    let mut offered = String::new();
    for item in resolve.worlds[world].imports.values() {
        if let WorldItem::Interface { id, .. } = item {
            let interface = &resolve.interfaces[*id];
            let functions: Vec<_> = interface.functions.keys().collect();
            let named = interface.name.as_deref().ok_or("an interface of the contract has no name")?;
            writeln!(offered, "    ({named:?}, &{functions:?}),")?;
        }
    }
    let source = format!(
        "/// The version of the contract that this host has.\n\
         pub(crate) const VERSION: &str = \"{version}\";\n\n\
         /// What a policy may import: each interface and its functions.\n\
         const OFFERED: &[(&str, &[&str])] = &[\n{offered}];\n"
    );
    Ok(Contract { version, source })
}
