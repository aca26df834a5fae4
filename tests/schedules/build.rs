//! Copies of the host's sources whose locks, counters, tasks and time are shuttle's: what is `std::sync` there is
//! `crate::drawn::sync` here, and what they name of their own crate is the stage that they stand on. And of the gate,
//! whose counters are loom's.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

/// What is wanted of a file.
enum Part {
    All,
    /// From these words to the end of that item.
    Item(&'static str),
    /// All but what is between the first words and the second, which the stage has.
    Without(&'static str, &'static str),
}

/// What several threads share, each with as little around it as it lets: the file below `host/src`, and the part of it.
const SHARED: &[(&str, Part)] = &[
    ("gate.rs", Part::All),
    ("rails.rs", Part::All),
    ("policy/serving.rs", Part::All),
    ("lease/permit.rs", Part::All),
    ("lease/line.rs", Part::All),
    ("lease/keeper.rs", Part::Item("async fn quiet(")),
];

/// The lease with everything in it.
const WHOLE: &[(&str, Part)] = &[
    ("chance.rs", Part::All),
    ("digest.rs", Part::All),
    ("imports.rs", Part::Without("/// What a bucket is for", "/// How the refusal of")),
    ("lease.rs", Part::All),
    ("lease/error.rs", Part::All),
    ("lease/event.rs", Part::All),
    ("lease/keeper.rs", Part::All),
    ("lease/line.rs", Part::All),
    ("lease/operator.rs", Part::All),
    ("lease/options.rs", Part::All),
    ("lease/permit.rs", Part::All),
    ("lease/shared.rs", Part::All),
    ("lease/view.rs", Part::All),
    ("lease/waiting.rs", Part::All),
];

fn main() -> Result<(), Box<dyn Error>> {
    write("gate_under_loom.rs", &included("gate.rs", &Part::All)?)?;
    for (file, part) in SHARED {
        let text = included(file, part)?
            .replace("pub(super)", "pub(crate)")
            .replace("crate::", "crate::drawn::stage::")
            .replace("super::sync", "crate::drawn::sync")
            .replace("std::sync::", "crate::drawn::sync::");
        write(&file.replace('/', "_"), &text)?;
    }
    for (file, part) in WHOLE {
        let text = copied(file, part)?
            .replace("crate::", "crate::drawn::whole::host::")
            .replace("std::sync::", "crate::drawn::sync::")
            .replace("tokio::time::", "crate::drawn::whole::time::")
            .replace("tokio::spawn(", "shuttle::future::spawn(");
        write(&format!("whole/{file}"), &text)?;
    }
    // Where modules are looked for beside the file that names them.
    let modules = ["chance", "digest", "imports", "lease"];
    write("whole/modules.rs", &modules.map(|name| format!("pub(crate) mod {name};\n")).concat())?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}

/// As [`copied`], to be included: such a file has no documentation of its own.
fn included(file: &str, part: &Part) -> Result<String, Box<dyn Error>> {
    Ok(copied(file, part)?.replace("//!", "//"))
}

fn copied(file: &str, part: &Part) -> Result<String, Box<dyn Error>> {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../host/src").join(file);
    println!("cargo::rerun-if-changed={}", source.display());
    let text = fs::read_to_string(&source)?;
    let at = |text: &str, words: &str| text.find(words).ok_or(format!("{file} has no {words:?} any more"));
    let text = match part {
        Part::All => text,
        Part::Item(begins) => {
            let item = &text[at(&text, begins)?..];
            format!("pub(crate) {}", &item[..at(item, "\n}\n")? + 3])
        }
        Part::Without(from, to) => {
            let from = at(&text, from)?;
            let to = from + at(&text[from..], to)?;
            format!(
                "{}pub use incumbent::imports::{{Claim, Imports, Level, Role}};\n\n{}",
                &text[..from],
                &text[to..]
            )
        }
    };
    // Its tests are run where it stands.
    Ok(text.replace("#[cfg(test)]", "#[cfg(any())]"))
}

fn write(file: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let path = Path::new(&env::var("OUT_DIR")?).join(file);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(fs::write(path, text)?)
}
