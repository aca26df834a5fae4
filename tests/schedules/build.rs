//! Copies of the host's sources whose locks and counters are shuttle's: what is `std::sync` there is
//! `crate::drawn::sync` here, and what they name of their own crate is the stage that they stand on.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Where it is below `host/src`, and the part of it that is wanted: from its first words to the end of that item.
const COPIED: &[(&str, Option<&str>)] = &[
    ("gate.rs", None),
    ("rails.rs", None),
    ("policy/serving.rs", None),
    ("lease/permit.rs", None),
    ("lease/line.rs", None),
    ("lease/keeper.rs", Some("async fn quiet(")),
];

fn main() -> Result<(), Box<dyn Error>> {
    let host = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../host/src");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for (file, part) in COPIED {
        let source = host.join(file);
        println!("cargo::rerun-if-changed={}", source.display());
        let mut text = fs::read_to_string(&source)?;
        if let Some(begins) = part {
            let from = text.find(begins).ok_or(format!("{file} has no {begins:?} any more"))?;
            let to = text[from..].find("\n}\n").ok_or(format!("{begins:?} does not end"))?;
            text = format!("pub(crate) {}", &text[from..from + to + 3]);
        }
        let text = text
            // An included file has no documentation of its own, and its tests are run where it stands.
            .replace("//!", "//")
            .replace("#[cfg(test)]", "#[cfg(any())]")
            .replace("pub(super)", "pub(crate)")
            .replace("crate::", "crate::drawn::stage::")
            .replace("super::sync", "crate::drawn::sync")
            .replace("std::sync::", "crate::drawn::sync::");
        fs::write(out.join(file.replace('/', "_")), text)?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
