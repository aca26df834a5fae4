//! How much memory this process has.

use anyhow::{Context as _, Result};

/// kB.
///
/// # Errors
/// The kernel does not say.
pub fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?)
}
