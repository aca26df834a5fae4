//! What the commands about check holds and queues take.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use incumbent::holds::{Buckets, PLANS, RUNNING};

use super::{BucketArg, StoreArgs, duration, name, replicas};

#[derive(Debug, Subcommand)]
pub(crate) enum HoldsCommand {
    /// Why checks wait: the plans that build, and the check let through.
    Status(HoldsStatus),
    /// The same, a line at each change.
    Watch(HoldsWatch),
    /// Say that a delivery plan builds: once, or for as long as a command runs.
    Begin(HoldsBegin),
    /// Say that a delivery plan has built.
    End(HoldsEnd),
    /// Take the next job that may run and run a command with it.
    Next(HoldsNext),
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Make a queue.
    Create(QueueCreate),
    /// Put what standard input says into a queue.
    Put(QueuePut),
    /// How much waits in a queue.
    Status(QueueStatus),
}

/// Where the plans that build and the let-through key are.
#[derive(Debug, Args)]
pub(crate) struct HoldsBuckets {
    /// The bucket of the plans that build.
    #[arg(long, env = "INCUMBENT_PLANS", value_name = "NAME", value_parser = name, default_value = PLANS)]
    plans: String,
    /// The bucket of the checks that run.
    #[arg(long, env = "INCUMBENT_RUNNING", value_name = "NAME", value_parser = name, default_value = RUNNING)]
    running: String,
}

impl HoldsBuckets {
    pub(crate) fn names(&self) -> Buckets {
        Buckets { plans: self.plans.clone(), running: self.running.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct HoldsStatus {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) buckets: HoldsBuckets,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsWatch {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) buckets: HoldsBuckets,
    /// How often to look.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub(crate) every: Duration,
}

/// Which office says what builds; `incumbent run` tells its command.
#[derive(Debug, Args)]
pub(crate) struct Office {
    /// The lease that is held.
    #[arg(long, env = "INCUMBENT_LEASE", value_name = "NAME", value_parser = name)]
    pub(crate) lease: String,
    /// The epoch at which it is held.
    #[arg(long, env = "INCUMBENT_EPOCH", value_name = "NUMBER")]
    pub(crate) epoch: u64,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsBegin {
    /// The plan: plan- and digits.
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) office: Office,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) buckets: HoldsBuckets,
    /// What builds it, after `--`. Without one, say it again within the bucket's ttl.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsEnd {
    /// The plan.
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) office: Office,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) buckets: HoldsBuckets,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsNext {
    /// Names this builder, in the let-through key.
    #[arg(long, value_name = "NAME")]
    pub(crate) builder: String,
    /// The queue of the deliveries, which have the right of way.
    #[arg(long, value_name = "QUEUE", value_parser = name)]
    pub(crate) deliveries: Option<String>,
    /// A queue of checks; may be given several times.
    #[arg(long, value_name = "QUEUE", value_parser = name)]
    pub(crate) checks: Vec<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) buckets: HoldsBuckets,
    /// How long a check waits before it is let through.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30m")]
    pub(crate) after: Duration,
    /// How often to look when there is nothing to do.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub(crate) poll: Duration,
    /// Give up when no job came for this long [default: wait for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// When a job whose command failed is given again.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) retry_after: Duration,
    /// How long the command has to end by itself after SIGTERM, when its job is lost.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub(crate) grace: Duration,
    /// The command to run with the job, after `--`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct QueueCreate {
    /// Its name.
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How long a job stays its taker's unless heard of.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) ack_wait: Duration,
    /// On how many servers it is kept.
    #[arg(long, default_value_t = 1, value_parser = replicas())]
    pub(crate) replicas: u8,
}

#[derive(Debug, Args)]
pub(crate) struct QueuePut {
    /// The queue.
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QueueStatus {
    /// The queue.
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
