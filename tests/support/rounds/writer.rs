//! The writer: another program that is in the middle of a transaction on the file, until it is killed.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rusqlite::Connection;
use rustix::process::{Signal, set_parent_process_death_signal};

/// How far it moves the last revision: were that kept, it would be seen.
pub const JUMP: u64 = 1 << 40;

/// The program. It says `begun` once it holds the file and some of what it changed is on the disk.
///
/// # Errors
/// The file cannot be written.
pub fn main(path: &Path) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let file = Connection::open(path)?;
    file.busy_timeout(Duration::from_secs(30))?;
    // A cache of one page: what is changed goes to the disk before any commit.
    file.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE")?;
    file.execute("UPDATE buckets SET last_revision = last_revision + ?1", [JUMP])?;
    file.execute("UPDATE entries SET value = zeroblob(200000)", [])?;
    println!("begun");
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
