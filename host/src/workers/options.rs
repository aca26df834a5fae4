//! How workers stand and work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Event;
use crate::lease::LeaseOptions;

/// The options of the lease of a worker, from its name.
pub type LeaseOf = Arc<dyn Fn(&str) -> LeaseOptions + Send + Sync>;

/// Told what happens to a worker, by its name.
pub type OnEvent = Arc<dyn Fn(&str, &Event) + Send + Sync>;

/// How workers stand and work.
#[derive(Clone)]
pub struct WorkersOptions {
    /// Whether leases are stood for at all. Without, each worker just works: for a single instance.
    /// Default: true.
    pub election: bool,
    /// The options of the lease of each worker, from its name. The workers give the name, the line and the place of the
    /// first renewal themselves. A renew interval that does not fit the bucket's ttl becomes a third of it. Default:
    /// [`LeaseOptions::new`].
    pub lease: LeaseOf,
    /// How long after an error a worker works again, the first time; twice as long after each further one
    /// in a row, up to eight times; one that comes so long after the last is the first again. And how long one that stepped down lets others go first. Default: 20 s.
    pub interval: Duration,
    /// How long a worker has to end when its lease was lost, or it was stopped. After that it is cut off where
    /// it next waits, and if that does not end it either, it is abandoned: its lease is not given back but
    /// left to expire, and it stands again when it has ended after all. Default: 10 s.
    pub patience: Duration,
    /// Told what happens to each worker, in order; must not block. Default: a line in the log.
    pub on_event: OnEvent,
}

impl Default for WorkersOptions {
    fn default() -> Self {
        Self {
            election: true,
            lease: Arc::new(|name| LeaseOptions::new(name)),
            interval: Duration::from_secs(20),
            patience: Duration::from_secs(10),
            on_event: Arc::new(|name, event| match event {
                Event::Failed { .. } | Event::Abandoned { .. } | Event::NotStanding { .. } => {
                    tracing::warn!("{name}: {event}");
                }
                _ => tracing::info!("{name}: {event}"),
            }),
        }
    }
}

impl fmt::Debug for WorkersOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersOptions")
            .field("election", &self.election)
            .field("interval", &self.interval)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
