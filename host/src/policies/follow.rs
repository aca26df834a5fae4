//! Following a source: what it offers is tried, and serves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::registry::Policies;
use super::source::Offers;

/// How often one looks whether an operator changed the quarantine.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A source that is followed in the background, until this is dropped.
#[derive(Debug)]
pub struct Following {
    task: JoinHandle<()>,
    reread: Arc<Notify>,
}

impl Policies {
    /// Follow a source in the background: each of its offers is tried, and serves when it passes. What an operator
    /// puts into quarantine is rolled back when it serves, and what is taken out of it is offered again.
    ///
    /// Needs a Tokio runtime.
    #[must_use]
    pub fn follow(&self, offers: Offers) -> Following {
        let reread = Arc::new(Notify::new());
        let task = tokio::spawn(follow(self.clone(), offers, reread.clone()));
        Following { task, reread }
    }
}

impl Following {
    /// Read the source again, changed or not.
    pub fn reread(&self) {
        self.reread.notify_one();
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(policies: Policies, mut offers: Offers, reread: Arc<Notify>) {
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut quarantine = None;
    loop {
        tokio::select! {
            offer = offers.next() => match offer {
                // A refusal is told by the registry.
                Ok(offer) => drop(policies.offer(&offer).await),
                Err(why) => policies.unreadable(&why.to_string()),
            },
            () = reread.notified() => offers.reread(),
            _ = look.tick() => {
                let now = policies.quarantine().await;
                if now.is_some() && now != quarantine {
                    let cleared = gone(quarantine.as_ref(), now.as_ref());
                    quarantine = now;
                    policies.leave_quarantined().await;
                    if cleared {
                        offers.reread();
                    }
                }
            }
        }
    }
}

/// Whether something is no longer in quarantine.
fn gone(before: Option<&BTreeSet<String>>, now: Option<&BTreeSet<String>>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => !before.is_subset(now),
        _ => false,
    }
}
