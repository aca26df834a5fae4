//! What `incumbent policy` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use incumbent::policies::source::Source;

use super::{StoreArgs, duration, replicas};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Make a policy of one's own, to be changed: a crate that builds by itself.
    New(PolicyNew),
    /// What a policy says of itself, after every check that loading it makes.
    Inspect(PolicyInspect),
    /// Every step that a policy takes before it serves, dry, with a report.
    Check(PolicyCheck),
    /// Publish a policy to all that follow it, after every check.
    Publish(PolicyPublish),
    /// What served, was proven, refused and rolled back; or the versions that were published.
    History(PolicyHistory),
    /// Go back to the version before.
    Rollback(PolicyRollback),
    /// Let a policy be offered again that was rolled back.
    ClearQuarantine(PolicyClear),
    /// Which policy serves on this machine.
    Status(PolicyState),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyNew {
    /// Where to make it: a folder that is not there yet, or is empty.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Its name [default: the folder's]
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyInspect {
    /// The component [default: the one built in]
    pub(crate) file: Option<PathBuf>,
}

/// Where what outlives the process is kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyState {
    /// The folder that keeps the proven policy and the quarantine [default: in the user's state folder]
    #[arg(long, env = "INCUMBENT_POLICY_STATE", value_name = "DIR")]
    pub(crate) policy_state: Option<PathBuf>,
}

/// Who must have signed.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyKey {
    /// The minisign key that policies must be signed by: the .pub file, or the key itself.
    #[arg(long, env = "INCUMBENT_POLICY_KEY", value_name = "KEY")]
    pub(crate) policy_key: Option<String>,
}

/// Where policies come from, and how they are taken.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// A policy to decide by, followed as it changes: a file, or nats:BUCKET/NAME of the store's server
    /// [default: the one built in]
    #[arg(long, value_name = "SOURCE")]
    pub(crate) policy: Option<Source>,
    /// For how long a new version is on probation, at the least.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    pub(crate) probation: Duration,
    /// How many calls it must answer well meanwhile.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) probation_calls: u32,
    #[command(flatten)]
    pub(crate) key: PolicyKey,
    #[command(flatten)]
    pub(crate) state: PolicyState,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheck {
    /// The component.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) key: PolicyKey,
    #[command(flatten)]
    pub(crate) state: PolicyState,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyPublish {
    /// The component; its signature is in FILE.minisig, where there is one.
    pub(crate) file: PathBuf,
    /// nats:BUCKET/NAME
    pub(crate) to: Source,
    /// Make the bucket where there is none.
    #[arg(long)]
    pub(crate) create: bool,
    /// On how many servers a bucket that is made is kept.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = replicas())]
    pub(crate) replicas: u8,
    #[command(flatten)]
    pub(crate) key: PolicyKey,
    #[command(flatten)]
    pub(crate) state: PolicyState,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyHistory {
    /// nats:BUCKET/NAME [default: what happened on this machine]
    pub(crate) of: Option<Source>,
    #[command(flatten)]
    pub(crate) state: PolicyState,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyRollback {
    /// nats:BUCKET/NAME [default: what serves on this machine]
    pub(crate) of: Option<Source>,
    /// The SHA-256 of the version to go back to [default: the one before]
    #[arg(long, value_name = "DIGEST", requires = "of")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) state: PolicyState,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyClear {
    /// The SHA-256 of the policy, as `policy status` shows it.
    pub(crate) digest: String,
    #[command(flatten)]
    pub(crate) state: PolicyState,
}
