//! The decision tables: `decisions/*.txt`, each block run natively and through the built-in component, exactly. The
//! host carries them too, for the rehearsal of other policies: one more is named in its `rehearsal/table.rs` as well.
//!
//! A block is separated from the next one by an empty line. It has `#` lines that say what is shown, a command,
//! the imports' answers in order, `----`, then what was asked of the imports and what was decided.
//! `UPDATE_DECISIONS=1 cargo test --workspace decisions` writes what follows `----` anew, for review.
//!
//! Unless a block says otherwise it is 100 s by the steady clock, alice (nonce n1) stands for `controller` in
//! a bucket created at 7 with a ttl of 15 s, renews every 5 s with a margin of 3 s, and holds epoch 41 at
//! revision 57 until 107 s. The time of day is 2027-01-15T08:00:00Z and what the steady clock says.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use incumbent::policy::rehearsal::{Scene, Script, TABLES as BUILT_IN};
use incumbent::{Policy, Runtime};
use tokio::sync::OnceCell;

macro_rules! tables {
    ($($table:ident)*) => {
        $(
            #[tokio::test]
            async fn $table() -> Result<()> {
                run(stringify!($table)).await
            }
        )*

        const TABLES: &[&str] = &[$(stringify!($table)),*];
    };
}

tables! { anew asked create doubt floor gate holds let_through moving own plans record release renew room step_down take terms vacancy view }

#[test]
fn every_table_is_run() -> Result<()> {
    let mut files: Vec<String> = Vec::new();
    for file in std::fs::read_dir(folder())? {
        files.extend(file?.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    files.sort();
    assert_eq!(files, TABLES);
    assert!(BUILT_IN.iter().map(|(table, _)| table).eq(TABLES), "the host rehearses other tables");
    Ok(())
}

async fn run(table: &str) -> Result<()> {
    let path = folder().join(format!("{table}.txt"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (mut written, mut faults) = (Vec::new(), Vec::new());
    let blocks = Scene::of_table(&text);
    ensure!(!blocks.is_empty(), "{} has no block", path.display());
    for block in &blocks {
        let decided = match (run_natively(block), run_through(built_in().await?, block).await) {
            (Ok(native), Ok(component)) if native == component => native,
            (native, component) => {
                let said = [native, component].map(|ran| ran.unwrap_or_else(|why| format!("{why:#}")));
                faults.push(fault(block, table, "natively", &said[0], "through the component", &said[1]));
                continue;
            }
        };
        if decided != block.expected {
            faults.push(fault(block, table, "expected", &block.expected, "decided", &decided));
        }
        written.push(format!("{}\n----\n{decided}\n", block.given));
    }
    if std::env::var_os("UPDATE_DECISIONS").is_some() && written.len() == blocks.len() {
        std::fs::write(&path, written.join("\n"))?;
        return Ok(());
    }
    ensure!(faults.is_empty(), "{} of {} blocks\n\n{}", faults.len(), blocks.len(), faults.join("\n"));
    Ok(())
}

fn fault(block: &Scene, table: &str, one: &str, first: &str, other: &str, second: &str) -> String {
    let at = block.command.number;
    format!("{table}.txt:{at}: {}\n  {one}:\n{first}\n  {other}:\n{second}\n", block.command.text)
}

fn run_natively(block: &Scene) -> Result<String> {
    incumbent_quick::play(&block.given).map_err(anyhow::Error::msg)
}

async fn run_through(policy: &Policy, block: &Scene) -> Result<String> {
    let script = Script::new(&block.answers);
    let outcome = block.decide(policy, &script).await?;
    Ok(format!("{}{outcome}", script.end().map_err(anyhow::Error::msg)?))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("decisions")
}

/// Compiled once for all tables.
async fn built_in() -> Result<&'static Policy> {
    static POLICY: OnceCell<Policy> = OnceCell::const_new();
    POLICY.get_or_try_init(|| async { Ok(Policy::built_in(&Runtime::new()?).await?) }).await
}
