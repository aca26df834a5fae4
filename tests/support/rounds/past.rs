//! A store raised again from nothing, or brought back to what it was.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rusqlite::Connection;
use rustix::process::Signal;

use super::inflict::bucket;
use super::site::{Ground, Site};

/// The copy that a store is rolled back to, in the site's folder.
fn copy(site: &Site) -> PathBuf {
    site.folder().join("copy")
}

/// Whether there is a copy.
pub(super) fn is_backed_up(site: &Site) -> bool {
    copy(site).exists()
}

/// Keep a copy of the store as it is now, to roll back to.
///
/// # Errors
/// It cannot be made.
pub(super) fn back_up(site: &mut Site) -> Result<()> {
    let copy = copy(site);
    match &mut site.ground {
        Ground::Nats(server) => server.back_up(&copy),
        Ground::Sqlite(file) => {
            let file = Connection::open(file)?;
            file.busy_timeout(super::site::PATIENCE)?;
            file.execute("VACUUM INTO ?1", [copy.display().to_string()])?;
            Ok(())
        }
        Ground::Cluster(_) => bail!("a cluster has no data of one past"),
    }
}

/// Raise the store again from nothing, with a bucket of the same name. Answers what shows that it is another.
pub(super) async fn wipe(site: &mut Site) -> Result<Option<String>> {
    let was = bucket(site).await?.info().await?.created;
    match &mut site.ground {
        Ground::Nats(server) => server.wipe()?,
        Ground::Sqlite(file) => {
            let file = file.clone();
            while_all_stand_still(site, || remove(&file)).await?;
        }
        Ground::Cluster(_) => bail!("a cluster is not wiped"),
    }
    site.make_bucket().await?;
    let is = bucket(site).await?.info().await?.created;
    Ok((is != was).then(|| format!("the bucket {was} became {is}")))
}

/// Put the copy in the store's place. Answers what shows that it is of the past.
pub(super) async fn roll_back(site: &mut Site) -> Result<Option<String>> {
    let was = bucket(site).await?.last_revision().await?;
    let copy = copy(site);
    match &mut site.ground {
        Ground::Nats(server) => server.roll_back(&copy)?,
        Ground::Sqlite(file) => {
            let file = file.clone();
            let put_back = || {
                remove(&file)?;
                std::fs::copy(&copy, &file)?;
                Ok(())
            };
            while_all_stand_still(site, put_back).await?;
        }
        Ground::Cluster(_) => bail!("a cluster is not rolled back"),
    }
    let is = bucket(site).await?.last_revision().await?;
    Ok((is < was).then(|| format!("at revision {is} after {was}")))
}

/// A file and the two beside it, which none that is open may meet half removed. What was in the middle of a write goes on
/// with the files that are gone.
async fn while_all_stand_still(site: &Site, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let present: Vec<_> = site.holders.iter().filter(|holder| holder.is_there()).collect();
    for holder in &present {
        holder.stop().await?;
    }
    let done = act();
    for holder in &present {
        holder.signal(Signal::CONT)?;
    }
    done
}

fn remove(file: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let path = format!("{}{suffix}", file.display());
        match std::fs::remove_file(path) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why.into()),
            _ => {}
        }
    }
    Ok(())
}
