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

async fn follow(policies: Policies, offers: Offers, reread: Arc<Notify>) {
    // Beside one another: a policy that takes long to be read is not read anew at each look at the quarantine.
    tokio::join!(take_offers(&policies, offers, &reread), mind_quarantine(&policies, &reread));
}

async fn take_offers(policies: &Policies, mut offers: Offers, reread: &Notify) {
    loop {
        tokio::select! {
            offer = offers.next() => match offer {
                // A refusal is told by the registry.
                Ok(offer) => drop(policies.offer(&offer).await),
                Err(why) => policies.unreadable(&why.to_string()),
            },
            () = reread.notified() => offers.reread(),
        }
    }
}

async fn mind_quarantine(policies: &Policies, reread: &Notify) {
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = BTreeSet::new();
    let mut said = false;
    loop {
        look.tick().await;
        let Some(now) = policies.quarantine().await else { continue };
        match policies.leave_quarantined(&now).await {
            Ok(()) => said = false,
            // Tried again at every look, and said once.
            Err(why) if !std::mem::replace(&mut said, true) => policies.unreadable(&why.to_string()),
            Err(_) => {}
        }
        if !before.is_subset(&now) {
            reread.notify_one();
        }
        before = now;
    }
}
