//! The decision tables: `decisions/*.txt`, each block run natively and through the built-in component.
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
use incumbent::{Policy, Runtime};
use incumbent_tests::script::{Args, Line, Script, decide_natively, decide_through_the_component};
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

tables! { anew asked create doubt floor gate holds let_through moving own plans record release renew step_down take terms vacancy view }

#[test]
fn every_table_is_run() -> Result<()> {
    let mut files: Vec<String> = Vec::new();
    for file in std::fs::read_dir(folder())? {
        files.extend(file?.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    files.sort();
    assert_eq!(files, TABLES);
    Ok(())
}

async fn run(table: &str) -> Result<()> {
    let path = folder().join(format!("{table}.txt"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (mut written, mut faults) = (Vec::new(), Vec::new());
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "{} has no block", path.display());
    for block in &blocks {
        let decided = match (block.run(None).await, block.run(Some(built_in().await?)).await) {
            (Ok(native), Ok(component)) if native == component => native,
            (native, component) => {
                let said = [native, component].map(|ran| ran.unwrap_or_else(|why| format!("{why:#}")));
                faults.push(block.fault(table, "natively", &said[0], "through the component", &said[1]));
                continue;
            }
        };
        if decided != block.expected {
            faults.push(block.fault(table, "expected", &block.expected, "decided", &decided));
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

/// One decision of a table.
struct Block {
    /// Everything before `----`, as it stands.
    given: String,
    command: Line,
    answers: Vec<Line>,
    expected: String,
}

impl Block {
    fn fault(&self, table: &str, one: &str, first: &str, other: &str, second: &str) -> String {
        let at = self.command.number;
        format!("{table}.txt:{at}: {}\n  {one}:\n{first}\n  {other}:\n{second}\n", self.command.text)
    }

    async fn run(&self, policy: Option<&Policy>) -> Result<String> {
        let (command, args) = self.command.text.split_once(' ').unwrap_or((&self.command.text, ""));
        let args = Args::of(args).map_err(anyhow::Error::msg)?;
        let script = Script::new(&self.answers);
        let outcome = match policy {
            None => decide_natively(command, args, &script),
            Some(policy) => decide_through_the_component(policy, command, args, &script).await,
        };
        let outcome = outcome.map_err(anyhow::Error::msg)?;
        let transcript = script.end().map_err(anyhow::Error::msg)?;
        Ok(format!("{transcript}{outcome}"))
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut paragraph: Vec<Line> = Vec::new();
    // One empty line more closes the last block.
    for (at, line) in text.lines().chain([""]).enumerate() {
        if line.trim().is_empty() {
            blocks.extend(block(&std::mem::take(&mut paragraph)));
        } else {
            paragraph.push(Line { number: at + 1, text: line.trim_end().into() });
        }
    }
    blocks
}

/// `None` for a paragraph of comments alone.
fn block(paragraph: &[Line]) -> Option<Block> {
    let text = |lines: &[Line]| lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let rule = paragraph.iter().position(|line| line.text == "----").unwrap_or(paragraph.len());
    let (given, expected) = paragraph.split_at(rule);
    let mut said = given.iter().filter(|line| !line.text.starts_with('#')).cloned();
    Some(Block {
        given: text(given),
        command: said.next()?,
        answers: said.collect(),
        expected: text(expected.get(1..).unwrap_or_default()),
    })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("decisions")
}

/// Compiled once for all tables.
async fn built_in() -> Result<&'static Policy> {
    static POLICY: OnceCell<Policy> = OnceCell::const_new();
    POLICY.get_or_try_init(|| async { Ok(Policy::built_in(&Runtime::new()?).await?) }).await
}
