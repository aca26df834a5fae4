//! What the command line takes.

mod holds;
mod policy;
mod simulate;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use incumbent::Vacancy;
use incumbent::lease::Timing;
use incumbent::limits::{TTL_LONGEST, TTL_SHORTEST};
use incumbent::store::check_key;
use incumbent::store::open::{Access, NoStore, StoreUrl};

pub(crate) use holds::{
    HoldsBegin, HoldsBuckets, HoldsCommand, HoldsEnd, HoldsNext, HoldsStatus, HoldsWatch, Office,
    QueueCommand, QueueCreate, QueuePut, QueueStatus,
};
pub(crate) use policy::{
    PolicyArgs, PolicyCheck, PolicyClear, PolicyCommand, PolicyHistory, PolicyInspect, PolicyKey, PolicyNew,
    PolicyPublish, PolicyRollback, PolicyState,
};
pub(crate) use simulate::Simulate;

/// One instance acts: a lease around any command.
#[derive(Debug, Parser)]
#[command(name = "incumbent", version, after_help = EXITS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more; twice: everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

const EXITS: &str = "Exit codes: 0 done, 1 there is none (nobody holds it, no job came, nothing to clear or to go back to), 2 usage, \
65 a record that is no holder, or a file that is no policy, 69 the store is out of reach, 70 the policy or this program failed, \
74 the answer cannot be written (141 when nobody reads it), 75 the lease, or the job, was lost, or another holds it, \
77 not allowed, 78 a bucket or timings that do not fit, 126 and 127 the command cannot be executed or is not there; \
`run` and `holds next` pass their command's code on, 128 + n after signal n.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Stand for a lease and run a command while holding it.
    Run(Run),
    /// Who holds a lease.
    Status(Status),
    /// Who holds what.
    List(List),
    /// Ask whoever holds a lease to give way.
    StepDown(StepDown),
    /// Clear away a record that is no holder.
    Clear(Clear),
    /// Buckets, which hold leases.
    Bucket {
        #[command(subcommand)]
        command: BucketCommand,
    },
    /// Check holds: checks wait while a delivery builds.
    Holds {
        #[command(subcommand)]
        command: HoldsCommand,
    },
    /// Work queues, which builders take jobs from.
    Queue {
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// A policy under everything that may befall those who stand for a lease, in simulated time.
    Simulate(Simulate),
    /// Policies, which decide.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BucketCommand {
    /// Make a bucket for leases.
    Create(BucketCreate),
}

/// Which store, and how to be let in.
#[derive(Args)]
pub(crate) struct StoreArgs {
    /// sqlite:PATH, nats://HOST:PORT (tls:// for TLS only; several with commas between them) or memory:
    /// [default: a SQLite file in the user's state folder]
    #[arg(long, env = "INCUMBENT_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,
    /// A NATS credentials file.
    #[arg(long, env = "INCUMBENT_CREDENTIALS", value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// Certificates to trust, PEM.
    #[arg(long, env = "INCUMBENT_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// One's own certificate, PEM.
    #[arg(long, env = "INCUMBENT_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, env = "INCUMBENT_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl StoreArgs {
    /// The store, where one is named. Not parsed with the rest, which would show what it says of users.
    pub(crate) fn url(&self) -> Result<Option<StoreUrl>, NoStore> {
        self.store.as_deref().map(str::parse).transpose()
    }

    pub(crate) fn access(&self) -> Access {
        Access {
            credentials: self.credentials.clone(),
            tls_root: self.tls_ca.clone(),
            tls_identity: self.tls_cert.clone().zip(self.tls_key.clone()),
        }
    }
}

/// Without what the store's URL says of users.
impl fmt::Debug for StoreArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreArgs({:?})", self.url())
    }
}

/// The bucket of the leases.
#[derive(Debug, Args)]
pub(crate) struct BucketArg {
    /// The bucket that holds the lease.
    #[arg(long, env = "INCUMBENT_BUCKET", value_name = "NAME", value_parser = name, default_value = "leases")]
    pub(crate) bucket: String,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The lease to stand for.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) lease: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
    /// Names this instance, for people who look [default: machine/process/chance]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) instance: Option<String>,
    /// How long the record lives unrenewed. A SQLite bucket is made with it (15s); any other bucket has its
    /// own, and this must agree with it.
    #[arg(long, value_name = "DURATION", value_parser = ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// How often it is renewed [default: a third of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) renew_every: Option<Duration>,
    /// How long before it could expire the gate shuts and the command is dead [default: a fifth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) margin: Option<Duration>,
    /// How often to look while waiting, when nothing woke it [default: a fifteenth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) poll: Option<Duration>,
    /// What an absent record is worth [default: trusted for SQLite and memory, watched for NATS]
    #[arg(long, value_enum)]
    pub(crate) vacancy: Option<VacancyArg>,
    /// The file that keeps the highest epoch issued, or `none` [default: in the user's state folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) floor: Option<PathBuf>,
    /// How long the command has to end by itself after SIGTERM, when the lease is lost [default: 1s; at most
    /// a quarter of the time there is]
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s", hide_default_value = true)]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Exit when the lease is lost, for a service manager to start it again (the default).
    #[arg(long, conflicts_with = "again")]
    pub(crate) once: bool,
    /// Stand again when the lease is lost.
    #[arg(long)]
    pub(crate) again: bool,
    /// The command to run, after `--`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    pub(crate) fn timing(&self) -> Timing {
        Timing { renew_every: self.renew_every, margin: self.margin, poll: self.poll, lenient: false }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The lease.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) lease: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
    #[command(flatten)]
    pub(crate) policy: PolicyState,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
}

#[derive(Debug, Args)]
pub(crate) struct StepDown {
    /// The lease.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) lease: String,
    /// In whose name it is asked for [default: you, at this machine]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    /// Do not wait until the holder has given way.
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// The lease.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) lease: String,
    /// Do it; without, only what stands there is said.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) bucket: BucketArg,
}

#[derive(Debug, Args)]
pub(crate) struct BucketCreate {
    /// Its name.
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How long a record lives unrenewed.
    #[arg(long, value_name = "DURATION", value_parser = ttl, allow_hyphen_values = true, default_value = "15s")]
    pub(crate) ttl: Duration,
    /// On how many servers it is kept.
    #[arg(long, default_value_t = 1, value_parser = replicas())]
    pub(crate) replicas: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum VacancyArg {
    /// Free at once: the store keeps what it acknowledged.
    Trusted,
    /// Free once seen unchanged for a ttl.
    Watched,
    /// Free a ttl after it was first seen absent, given back or aged out.
    Delayed,
}

impl From<VacancyArg> for Vacancy {
    fn from(arg: VacancyArg) -> Self {
        match arg {
            VacancyArg::Trusted => Self::Trusted,
            VacancyArg::Watched => Self::Watched,
            VacancyArg::Delayed => Self::Delayed,
        }
    }
}

/// A name that a store takes.
fn name(text: &str) -> Result<String, String> {
    check_key(text).map(|()| text.to_owned()).map_err(|why| why.to_string())
}

/// On how many servers something is kept: NATS keeps it on one to five.
fn replicas() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=5)
}

/// A duration that records may live.
fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl < TTL_SHORTEST {
        return Err(format!("it must be at least {}", humantime::format_duration(TTL_SHORTEST)));
    }
    Ok(ttl)
}

/// A duration as people write it, above zero and at most a day.
fn duration(text: &str) -> Result<Duration, String> {
    let example = "write it like 15s, 1m 30s or 500ms";
    let duration = humantime::parse_duration(text).map_err(|why| format!("{why}; {example}"))?;
    if duration.is_zero() {
        return Err(format!("it must be above zero; {example}"));
    }
    if duration > TTL_LONGEST {
        return Err(format!("it must be at most {}", humantime::format_duration(TTL_LONGEST)));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_and_bounded() {
        assert_eq!(duration("999ms"), Ok(Duration::from_millis(999)));
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for bad in ["0s", "-5s", "15", "", "18446744073709551616s", "25h", "5 parsecs"] {
            let refused = duration(bad).expect_err(bad);
            assert!(refused.contains("write it like") || refused.contains("at most"), "{bad}: {refused}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
