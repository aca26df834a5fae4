//! How a candidate waits, and what it says meanwhile.

use std::time::Duration;

use crate::bindings::Holder;
use crate::lease::{Event, LeaseError, Shared};
use crate::store::Watch;

/// Until it is worth looking again: the key has changed, the pause is over, or the lease object is.
pub(super) async fn rest(shared: &Shared, pause: Duration, watch: &mut Option<Box<dyn Watch>>) {
    let woken = async {
        if !changed(watch).await {
            // It has ended. A new one waits for the next look, or one that ends at once would be begun over
            // and over.
            *watch = None;
            std::future::pending().await
        }
    };
    tokio::select! {
        biased;
        () = shared.over.cancelled() => {}
        () = woken => {}
        () = tokio::time::sleep(pause) => {}
    }
}

async fn changed(watch: &mut Option<Box<dyn Watch>>) -> bool {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// What was said last, so that it is said once.
#[derive(Default)]
pub(super) struct Said {
    holder: Option<Option<(String, u64)>>,
    trouble: bool,
}

impl Said {
    pub(super) fn waiting(&mut self, shared: &Shared, holder: Option<Holder>) {
        self.trouble = false;
        let who = holder.as_ref().map(|holder| (holder.instance.clone(), holder.epoch));
        if self.holder.as_ref() != Some(&who) {
            self.holder = Some(who);
            (shared.on_event)(&Event::Waiting { holder });
        }
    }

    pub(super) fn trouble(&mut self, shared: &Shared, why: &LeaseError) {
        if !std::mem::replace(&mut self.trouble, true) {
            self.holder = None;
            (shared.on_event)(&Event::Retrying { why: why.to_string() });
        }
    }
}
