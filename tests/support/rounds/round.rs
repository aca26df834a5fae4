//! One round: a site, a fault, and what the holders and the receiver wrote down.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::fault::{Chance, Fault, Kind, all};
use super::holder::{Rule, policy};
use super::inflict::inflict;
use super::log::{Log, Sweep, stale, sweep};
use super::past::back_up;
use super::receiver::Receiver;
use super::site::{Program, Site};

/// Holders in a round.
pub const HOLDERS: usize = 3;

/// Passes before the fault, and after it.
const LOAD: usize = 100;

/// How long a round goes on once somebody holds again: what was kept on a line, or in a process, comes by then.
const REST: Duration = Duration::from_millis(500);

/// Tries of a round that does not count.
const TRIES: u64 = 3;

/// Which round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Draws the times.
    pub seed: u64,
    /// Where.
    pub kind: Kind,
    /// What happens.
    pub fault: Fault,
}

impl Order {
    /// One that was shown as `SEED 'STORE, FAULT'`.
    ///
    /// # Errors
    /// There is no such store or fault; the error lists them.
    pub fn parse(seed: &str, what: &str) -> Result<Self> {
        let seed = seed.parse().with_context(|| format!("{seed:?} is no seed"))?;
        let name = |(kind, fault): (Kind, Fault)| format!("{kind}, {fault}");
        let found = all().find(|named| name(*named) == what);
        let (kind, fault) = found
            .with_context(|| format!("{what:?} is not among {:?}", all().map(name).collect::<Vec<_>>()))?;
        Ok(Self { seed, kind, fault })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}, {}'", self.seed, self.kind, self.fault)
    }
}

/// What is broken on purpose, to show that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// Holders go on acting when their gate is shut.
    pub gate: bool,
    /// The receiver admits everything.
    pub fence: bool,
}

/// What came of a round.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which.
    pub order: Order,
    /// What the logs show.
    pub sweep: Sweep,
    /// Stale acts that were admitted.
    pub admitted: u64,
    /// Stale acts that were refused.
    pub refused: u64,
    /// What shows that the fault hit; nothing, and the round does not count.
    pub evidence: Option<String>,
    /// The ends of the logs, for people.
    pub tails: String,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Whether anything is there that must not be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.sweep.overlaps.is_empty() && self.sweep.epochs.is_empty() && self.admitted == 0
    }
}

/// Play a round to its end.
///
/// # Errors
/// Something took too long, nobody held the lease again, or the machinery failed.
pub fn run(program: &Program, order: Order, broken: Broken) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // On this thread, which may block; the lines go on beside it.
    let played = runtime.block_on(play(program, order, broken));
    runtime.shutdown_timeout(Duration::from_secs(1));
    played.with_context(|| format!("round {order}"))
}

async fn play(program: &Program, order: Order, broken: Broken) -> Result<Report> {
    let begun = Instant::now();
    let mut chance = Chance::new(order.seed);
    let mut site = Site::new(program, order.kind, order.fault == Fault::DiskFull).await?;
    site.part.rule = match (order.kind, order.fault) {
        // Data of the past know nothing of who acts now, so each vacancy is waited out.
        (_, Fault::RollBack) => Some(Rule::Delayed),
        // A file is trusted unless one asks for more.
        (Kind::Sqlite, Fault::Wipe) => Some(Rule::Watched),
        _ => None,
    };
    if order.fault == Fault::RollBack && chance.upto(1) == 0 {
        // Of the time when the lease was just given back. The other half is of another holder's time.
        back_up(&mut site)?;
    }
    let socket = site.folder().join("receiver");
    let policy = policy(&site.part.cache).await?;
    let receiver = Receiver::start(&socket, &policy, !broken.fence, Chance::new(chance.bits())).await?;
    site.part.receiver = Some(socket);
    for _ in 0..HOLDERS {
        site.stand(broken.gate).await?;
    }
    site.held(LOAD).await?;
    site.until("two wait", |site| {
        let waits = site.holders.iter().filter(|holder| holder.log.said(0, "waiting for").is_some());
        (waits.count() + 1 >= HOLDERS).then_some(())
    })
    .await?;

    let evidence = inflict(&mut site, order.fault, &mut chance).await?;
    site.held(LOAD).await.context("after the fault")?;
    tokio::time::sleep(REST).await;
    site.end().await?;

    let logs: Vec<Log> = site.holders.iter().map(|holder| holder.log.clone()).collect();
    let (admitted, refused) = stale(&receiver.acts().await);
    let (sweep, tails) = (sweep(&logs), site.tails());
    Ok(Report { order, sweep, admitted, refused, evidence, tails, took: begun.elapsed() })
}

/// What came of many rounds.
#[derive(Debug, Default)]
pub struct Tally {
    /// Those that count.
    pub counted: Vec<Report>,
    /// Those whose fault did not hit, and what they were.
    pub uncounted: Vec<Order>,
    /// Those that broke off, and why.
    pub broken_off: Vec<String>,
}

/// Play these rounds, so many side by side. One that does not count is played again with another seed.
#[must_use]
pub fn many(program: &Program, orders: &[Order], lanes: usize, told: impl Fn(&Report) + Sync) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let lane = || {
        while let Some(order) = orders.get(next.fetch_add(1, Ordering::Relaxed)) {
            for again in 0..TRIES {
                // Far from the seeds of the others.
                let order = Order { seed: order.seed + (again << 32), ..*order };
                let played = run(program, order, Broken::default());
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                match played {
                    Ok(report) if report.evidence.is_some() || !report.is_clean() => {
                        told(&report);
                        tally.counted.push(report);
                        break;
                    }
                    Ok(report) => tally.uncounted.push(report.order),
                    Err(why) => tally.broken_off.push(format!("{why:#}")),
                }
            }
        }
    };
    std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}
