//! A fault, done to a site and ended, and what shows that it hit.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::jetstream;
use incumbent::store::Bucket;
use rustix::process::Signal;

use super::fault::{Chance, Fault};
use super::holder::{BUCKET, LEASE};
use super::past;
use super::site::{Ground, Site, TTL, now};
use super::writer::JUMP;
use crate::cluster::Cluster;
use crate::nats::NatsServer;
use crate::proxy::Counts;

/// Do it, and undo it. Answers what shows that it hit.
///
/// # Errors
/// It cannot be done.
pub(super) async fn inflict(site: &mut Site, fault: Fault, chance: &mut Chance) -> Result<Option<String>> {
    if fault == Fault::RollBack && !past::is_backed_up(site) {
        // From the time of another holder.
        past::back_up(site)?;
        let holder = site.held(1).await?;
        release(site, holder).await?;
    }
    let holder = site.held(1).await?;
    // Anywhere between two renewals.
    tokio::time::sleep(chance.millis(0, 700)).await;
    let since = now();
    // Between a moment and two ttls; and surely longer than one.
    let (any, long) = (chance.millis(100, 4000), TTL + chance.millis(300, 1500));
    match fault {
        Fault::Kill => {
            let was = server(site)?.pid();
            server(site)?.kill()?;
            tokio::time::sleep(any).await;
            server(site)?.restart()?;
            let is = server(site)?.pid();
            Ok((is != was).then(|| format!("process {was:?} became {is:?}")))
        }
        Fault::StopShort | Fault::StopLong => {
            let time = if fault == Fault::StopLong { long } else { chance.millis(100, 1200) };
            server(site)?.stop()?;
            tokio::time::sleep(time).await;
            server(site)?.cont()?;
            Ok(Some(format!("all its threads stood still for {time:?}")))
        }
        Fault::Wipe => past::wipe(site).await,
        Fault::RollBack => past::roll_back(site).await,
        Fault::Cut | Fault::CutRequests | Fault::CutAnswers | Fault::Delay | Fault::DropAnswers => {
            on_line(site, holder, fault, any, chance).await
        }
        Fault::DiskFull => {
            // A renewal is due meanwhile.
            let time = any.max(TTL / 2);
            set_full(site, true).await?;
            tokio::time::sleep(time).await;
            set_full(site, false).await?;
            site.read()?;
            // Whoever holds or stands says what the store answered.
            let says = if site.disk.is_some() { "is full" } else { "maximum bytes" };
            let mut told = site.holders.iter().filter_map(|holder| holder.log.said(since, says));
            Ok(told.next().map(|told| format!("for {time:?}: {told}")))
        }
        Fault::StepDown
        | Fault::KillLeader
        | Fault::StopLeader
        | Fault::CutLeader
        | Fault::CutLeaderSpeech => on_leader(cluster(site)?, fault, chance).await,
        Fault::KillHolder => {
            site.holders[holder].kill()?;
            Ok(Some(format!("{} is gone", site.holders[holder].log.holder)))
        }
        Fault::StopHolder => {
            site.holders[holder].stop().await?;
            tokio::time::sleep(long).await;
            site.holders[holder].signal(Signal::CONT)?;
            Ok(Some(format!("{} stood still for {long:?}", site.holders[holder].log.holder)))
        }
        Fault::ReleaseHolder => {
            release(site, holder).await?;
            Ok(site.holders[holder].log.said(since, "given back").map(Into::into))
        }
        Fault::KillWriter => {
            let was = bucket(site).await?.last_revision().await?;
            let writer = site.write()?;
            tokio::time::sleep(chance.millis(0, 1000)).await;
            drop(writer);
            let is = bucket(site).await?.last_revision().await?;
            ensure!(is < JUMP, "a transaction that was never committed is kept: revision {is} after {was}");
            Ok(Some(format!("a transaction was open; revision {was} before, {is} after")))
        }
        Fault::Lock => {
            let writer = site.write()?;
            tokio::time::sleep(long).await;
            drop(writer);
            site.read()?;
            let told = site.holders[holder].log.said(since, "renewal failed");
            Ok(told.map(|told| format!("for {long:?}: {told}")))
        }
    }
}

/// What happens to all that a holder reaches the store by.
async fn on_line(
    site: &Site,
    holder: usize,
    fault: Fault,
    time: Duration,
    chance: &mut Chance,
) -> Result<Option<String>> {
    let lines = &site.holders[holder].lines;
    let count = |of: fn(Counts) -> usize| lines.iter().map(|line| of(line.counts())).sum::<usize>();
    match fault {
        Fault::Cut => {
            let was = count(|counts| counts.connections);
            lines.iter().for_each(|line| line.cut());
            tokio::time::sleep(time).await;
            lines.iter().for_each(|line| line.heal());
            // It connects again within its longest pause between two tries.
            let _ = tokio::time::timeout(TTL, async {
                while count(|counts| counts.connections) == was {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            let more = count(|counts| counts.connections) - was;
            Ok((more > 0).then(|| format!("cut for {time:?}, connected again")))
        }
        Fault::CutRequests | Fault::CutAnswers => {
            let cut = |line: &crate::proxy::Proxy| {
                if fault == Fault::CutRequests { line.cut_requests() } else { line.cut_answers() }
            };
            lines.iter().for_each(cut);
            tokio::time::sleep(time).await;
            lines.iter().for_each(|line| line.heal());
            let held = count(|counts| counts.held);
            Ok((held > 0).then(|| format!("{held} messages met a cut of {time:?}")))
        }
        Fault::Delay => {
            let by = chance.millis(100, 1000);
            lines.iter().for_each(|line| line.delay(by));
            tokio::time::sleep(time).await;
            lines.iter().for_each(|line| line.delay(Duration::ZERO));
            let delayed = count(|counts| counts.delayed);
            Ok((delayed > 0).then(|| format!("{delayed} answers came {by:?} late")))
        }
        Fault::DropAnswers => {
            let subject = format!("$KV.{BUCKET}.{LEASE}");
            let most = chance.upto(5) + 1;
            lines.iter().for_each(|line| line.drop_answers(&subject, most));
            tokio::time::sleep(time.max(TTL)).await;
            lines.iter().for_each(|line| line.drop_answers(&subject, 0));
            let dropped = count(|counts| counts.dropped);
            Ok((dropped > 0).then(|| format!("{dropped} answers were dropped")))
        }
        _ => bail!("{fault} is nothing that happens to a line"),
    }
}

/// What happens to the leader, until there is another.
async fn on_leader(cluster: &mut Cluster, fault: Fault, chance: &mut Chance) -> Result<Option<String>> {
    let was = cluster.led(BUCKET, None).await?;
    match fault {
        Fault::StepDown => cluster.step_down(BUCKET).await?,
        Fault::KillLeader => cluster.member_mut(was).kill()?,
        Fault::StopLeader => cluster.member(was).stop()?,
        Fault::CutLeader => cluster.cut(was),
        _ => cluster.cut_speech(was),
    }
    let is = cluster.led(BUCKET, Some(was)).await?;
    tokio::time::sleep(chance.millis(0, 1500)).await;
    match fault {
        Fault::StepDown => {}
        Fault::KillLeader => cluster.member_mut(was).restart()?,
        Fault::StopLeader => cluster.member(was).cont()?,
        _ => cluster.heal(),
    }
    Ok(Some(format!("member {is} leads after member {was}")))
}

/// Tell a holder to end, and see it gone.
async fn release(site: &mut Site, holder: usize) -> Result<()> {
    site.holders[holder].signal(Signal::TERM)?;
    site.gone(holder).await
}

/// Let the store take no byte more, or any.
async fn set_full(site: &Site, full: bool) -> Result<()> {
    let url = match &site.ground {
        Ground::Nats(server) => server.url(),
        Ground::Cluster(cluster) => cluster.member(0).url(),
        Ground::Sqlite(file) => {
            let disk = site.disk.as_ref().context("the file has no disk of its own")?;
            return if full { disk.fill(file) } else { disk.empty() };
        }
    };
    let context = jetstream::new(async_nats::connect(url).await?);
    let stream = context.get_stream(format!("KV_{BUCKET}")).await?;
    let info = stream.cached_info();
    let mut config = info.config.clone();
    config.max_bytes = if full { i64::try_from(info.state.bytes)?.max(1) } else { -1 };
    context.update_stream(config).await?;
    Ok(())
}

pub(super) async fn bucket(site: &Site) -> Result<std::sync::Arc<dyn Bucket>> {
    Ok(site.store().await?.bucket(BUCKET).await?)
}

fn server(site: &mut Site) -> Result<&mut NatsServer> {
    if let Ground::Nats(server) = &mut site.ground { Some(server) } else { None }.context("no single server")
}

fn cluster(site: &mut Site) -> Result<&mut Cluster> {
    if let Ground::Cluster(cluster) = &mut site.ground { Some(cluster) } else { None }.context("no cluster")
}
