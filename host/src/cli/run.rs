//! A command that runs while the lease is held, and is dead before another instance could take it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use incumbent::clock::Steady;
use incumbent::guard::{GuardError, GuardOptions, Guarded, Status};
use incumbent::lease::{Event, Lease, LeaseError, LeaseOptions};
use incumbent::policy::Policy;
use incumbent::store::{Fault, Store};
use rustix::process::Signal;
use tokio::sync::watch;

use super::args::Run;
use super::exit::Exit;
use super::policy::{self, Serves};
use super::signals::{Signals, after_signal};
use super::{say, state};

/// `incumbent run`.
pub(crate) async fn run(args: Run) -> anyhow::Result<ExitCode> {
    // Listening first, so that no signal ends this process without the lease being given back.
    let mut signals = Signals::listen().context("signals cannot be listened to")?;
    let opening = async {
        let store = state::open_store(&args.store).await?;
        anyhow::Ok((store, policy::serves(&args.policy, &args.store).await?))
    };
    let (store, serves) = match signals.unless_ended(opening, || false).await {
        Ok(opened) => opened?,
        Err(signal) => return Ok(after_signal(signal).into()),
    };
    let ended = stand(&args, &*store, &serves, &mut signals).await;
    serves.close().await;
    ended
}

/// Stands for the lease, and again when that was asked for.
async fn stand(
    args: &Run,
    store: &dyn Store,
    serves: &Serves,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    // The ttl that it stood under, and whether trouble was said since.
    let (mut stood, mut said) = (None, false);
    loop {
        let standing =
            signals.unless_ended(Stand::new(args, &serves.policy, store), || serves.reread()).await;
        let served = match standing {
            Ok(Ok(stand)) => {
                (stood, said) = (Some(Duration::from_nanos(stand.lease.terms().ttl_ns)), false);
                match stand.serve(args, serves, signals).await {
                    // The bucket came back with another ttl, and is opened anew.
                    Err(why) if args.again && matches!(why.downcast_ref(), Some(LeaseError::Misfit(_))) => {
                        say::error(&format!("{}; standing anew", say::chain(&why)));
                        Ok(End::Lost)
                    }
                    served => served,
                }
            }
            Ok(Err(why)) => Err(why),
            Err(signal) => Ok(End::Code(after_signal(signal))),
        };
        let rest = match served {
            Ok(End::Code(code)) => return Ok(code.into()),
            Ok(End::Lost | End::GaveWay { .. }) if !args.again => return Ok(Exit::Lost.into()),
            Ok(End::Lost) => Duration::ZERO,
            Ok(End::GaveWay { rest }) => rest,
            Err(why) => match stood.filter(|_| args.again && passes(&why)) {
                // What took the lease away may be there still, and the others' stand waits as well.
                Some(ttl) => {
                    if !std::mem::replace(&mut said, true) {
                        say::error(&format!("{}; trying again", say::chain(&why)));
                    }
                    // One that is made again here was taken away under somebody who may act still.
                    if is_missing_bucket(&why) && state::makes_buckets(&args.store)? {
                        ttl
                    } else {
                        STAND_AGAIN
                    }
                }
                None => return Err(why),
            },
        };
        // Also one that was passed on to a command which ended for its time.
        let ending = match signals.ending() {
            None => signals.unless_ended(tokio::time::sleep(rest), || serves.reread()).await.err(),
            ending => ending,
        };
        if let Some(signal) = ending {
            return Ok(after_signal(signal).into());
        }
    }
}

/// Whether it may be otherwise later without anybody doing anything.
fn passes(why: &anyhow::Error) -> bool {
    is_missing_bucket(why)
        || match why.downcast_ref() {
            Some(why) => LeaseError::passes(why),
            // The store's, when the bucket is looked at.
            None => matches!(why.downcast_ref(), Some(Fault::Unavailable(_) | Fault::Unknown(_))),
        }
}

fn is_missing_bucket(why: &anyhow::Error) -> bool {
    match why.downcast_ref() {
        Some(why) => LeaseError::is_missing_bucket(why),
        None => matches!(why.downcast_ref(), Some(Fault::MissingBucket(_))),
    }
}

/// The bucket's ttl is the only truth, so another one that was asked for is refused and not ignored. A bucket that is
/// missing is made, where that is done by the way, once it is known that the lease can stand in it.
async fn agree(args: &Run, store: &dyn Store, policy: &Policy) -> anyhow::Result<()> {
    let bucket = args.bucket.bucket.as_str();
    let found = match store.bucket(bucket).await {
        Err(Fault::MissingBucket(_)) if state::makes_buckets(&args.store)? => None,
        found => Some(found?),
    };
    let found = match found {
        Some(found) => found,
        None => {
            let ttl = args.ttl.unwrap_or(state::TTL);
            options(args)?.check(policy, ttl).await?;
            state::ensure_bucket(&args.store, store, bucket, ttl).await?;
            store.bucket(bucket).await?
        }
    };
    let has = found.info().await?.ttl;
    match args.ttl {
        Some(ttl) if ttl != has => {
            let (has, ttl) = (humantime::format_duration(has), humantime::format_duration(ttl));
            let text = format!(
                "the bucket {bucket} has a ttl of {has}, not {ttl}; leave --ttl out, or use another bucket"
            );
            Err(LeaseError::Misfit(text).into())
        }
        _ => Ok(()),
    }
}

/// What the lease is stood for with.
fn options(args: &Run) -> anyhow::Result<LeaseOptions> {
    let mut options = LeaseOptions::new(args.lease.as_str());
    if let Some(instance) = &args.instance {
        options.instance.clone_from(instance);
    }
    options.timing = args.timing();
    options.vacancy = args.vacancy.map(Into::into);
    options.floor = state::floor(args)?;
    Ok(options)
}

/// How soon one who lost the lease with its store tries to stand again.
const STAND_AGAIN: Duration = Duration::from_secs(1);

enum End {
    Lost,
    /// An operator asked for it. Others go first, for this long.
    GaveWay {
        rest: Duration,
    },
    Code(u8),
}

/// One stand for the lease.
struct Stand {
    lease: Lease,
    until: watch::Receiver<Option<Steady>>,
}

impl Stand {
    async fn new(args: &Run, policy: &Policy, store: &dyn Store) -> anyhow::Result<Self> {
        agree(args, store, policy).await?;
        let (told, until) = watch::channel(None);
        let mut options = options(args)?;
        let name = args.lease.clone();
        options.on_event = Arc::new(move |event: &Event| {
            if let Event::Taken { until, .. } | Event::Renewed { until } = event {
                told.send_replace(Some(*until));
            }
            say::event(&name, event);
        });
        let lease = Lease::open(policy, store, &args.bucket.bucket, options).await?;
        Ok(Self { lease, until })
    }

    /// Takes the lease, runs the command, gives the lease back.
    async fn serve(mut self, args: &Run, serves: &Serves, signals: &mut Signals) -> anyhow::Result<End> {
        let mut heard = None;
        let stop = async { heard = Some(signals.next_to_end(|| serves.reread()).await) };
        let taken = self.lease.take_until(stop).await?;
        let epoch = match (taken, heard) {
            (Some(epoch), _) => epoch,
            (None, signal) => return Ok(End::Code(after_signal(signal.unwrap_or_default()))),
        };
        let started = self.start(args, epoch).await;
        let mut command = match started {
            Ok(command) => command,
            Err(why) => {
                // What is left of the command may act still: the lease expires then.
                if !is_left(&why) {
                    self.lease.release().await;
                }
                return Err(why);
            }
        };
        let lost = self.lease.lost_token();
        let (mut knows_lost, mut knows_asked) = (false, false);
        let ended = loop {
            tokio::select! {
                ended = command.wait() => break ended,
                // The guardian ends the command by itself, should this process not get to it.
                () = lost.cancelled(), if !knows_lost => {
                    knows_lost = true;
                    command.end();
                }
                _ = self.lease.asked(), if !knows_asked => {
                    knows_asked = true;
                    command.end();
                }
                signal = signals.next() => {
                    // The command may have something to read again too.
                    if signal == Signal::HUP.as_raw() {
                        serves.reread();
                    }
                    pass_on(&command, signal);
                }
                Ok(()) = self.until.changed() => {
                    let until = *self.until.borrow_and_update();
                    if let Some(until) = until
                        && let Err(why) = command.extend(until)
                    {
                        tracing::warn!("{why}");
                    }
                }
            }
        };
        // Ended for its time, with a status that is no matter of the command's own: lost, in effect.
        if ended.overdue {
            say::error("the command was ended: its time ran out before a renewal was acknowledged");
        }
        let was_lost = self.lease.ended().is_some();
        if !ended.all_gone {
            say::error("not all that the command started is gone, so the lease is left to expire");
        } else if !was_lost {
            self.lease.release().await;
        }
        Ok(match ended.status {
            _ if was_lost || ended.overdue => End::Lost,
            _ if knows_asked => {
                End::GaveWay { rest: Duration::from_nanos(self.lease.terms().renew_every_ns) }
            }
            Status::Exit(code) => End::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            Status::Signal(signal) => End::Code(after_signal(signal)),
            Status::GuardianDied => {
                say::error("the guardian of the command was killed, and the command with it");
                End::Code(Exit::Internal as u8)
            }
        })
    }

    async fn start(&mut self, args: &Run, epoch: u64) -> anyhow::Result<Guarded> {
        let until = self.until.borrow_and_update().context("the lease was taken without a time")?;
        let env = [
            ("INCUMBENT_LEASE", args.lease.clone()),
            ("INCUMBENT_EPOCH", epoch.to_string()),
            ("INCUMBENT_INSTANCE", self.lease.identity().instance.clone()),
        ];
        let options = GuardOptions {
            command: args.command.clone(),
            env: env.map(|(name, value)| (name.into(), value)).into(),
            until,
            grace: args.grace,
            stdin: None,
            executable: None,
        };
        Ok(Guarded::spawn(options).await?)
    }
}

/// Whether something of a command that did not start lives on.
pub(super) fn is_left(why: &anyhow::Error) -> bool {
    matches!(why.downcast_ref(), Some(GuardError::Left))
}

pub(super) fn pass_on(command: &Guarded, signal: i32) {
    if let Err(why) = command.signal(signal) {
        tracing::warn!("signal {signal} was not passed on: {why}");
    }
}
