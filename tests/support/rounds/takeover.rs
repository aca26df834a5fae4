//! How long it takes until the next holder acts, after a holder was killed or told to end.

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;

use super::fault::{Chance, Kind};
use super::log::{Log, sweep};
use super::site::{Program, Site, now};

/// How a holder goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// Killed.
    Crash,
    /// Told to end, and it gives the lease back.
    Release,
}

/// So many takeovers: the time from the signal to the next holder's first pass, each.
///
/// # Errors
/// One did not come, or two held at one time.
pub fn measure(
    program: &Program,
    kind: Kind,
    going: Going,
    count: usize,
    seed: u64,
) -> Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(takeovers(program, kind, going, count, seed));
    runtime.shutdown_timeout(Duration::from_secs(1));
    measured
}

async fn takeovers(
    program: &Program,
    kind: Kind,
    going: Going,
    count: usize,
    seed: u64,
) -> Result<Vec<Duration>> {
    let mut chance = Chance::new(seed);
    let mut site = Site::new(program, kind, false).await?;
    site.stand(false).await?;
    site.held(1).await?;
    site.stand(false).await?;
    let mut took = Vec::new();
    for _ in 0..count {
        // The next in line stands before the holder goes.
        let holder = site.held(1).await?;
        site.stand(false).await?;
        site.until("the others wait", |site| {
            let mut others = site.holders.iter().enumerate().skip(holder + 1);
            others.all(|(_, other)| other.log.said(0, "waiting for").is_some()).then_some(())
        })
        .await?;
        // Anywhere between two renewals.
        tokio::time::sleep(chance.millis(0, 700)).await;
        let gone = now();
        site.holders[holder].signal(if going == Going::Crash { Signal::KILL } else { Signal::TERM })?;
        let next = site
            .until("the next one acts", |site| {
                let others = site.holders.iter().enumerate().filter(|(place, _)| *place != holder);
                others.filter_map(|(_, other)| other.log.passes().next()).find(|pass| pass.before > gone)
            })
            .await?;
        took.push(Duration::from_nanos(next.before - gone));
        site.gone(holder).await?;
    }
    site.end().await?;
    let logs: Vec<Log> = site.holders.iter().map(|holder| holder.log.clone()).collect();
    let found = sweep(&logs);
    if !found.overlaps.is_empty() || !found.epochs.is_empty() {
        bail!("{:?} {:?}", found.overlaps, found.epochs);
    }
    Ok(took)
}
