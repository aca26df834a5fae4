//! What `incumbent simulate` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration;

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The policy's component [default: the one built in]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// How many seeds, from --from on.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 63))]
    pub(crate) from: u64,
    /// This seed only, and what happened in it.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"], value_parser = clap::value_parser!(u64).range(..=1 << 63))]
    pub(crate) seed: Option<u64>,
    /// How much time is simulated for each seed, at the least.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15m")]
    pub(crate) length: Duration,
    /// Nothing goes wrong: a lease that is lost then was lost for nothing.
    #[arg(long)]
    pub(crate) calm: bool,
}
