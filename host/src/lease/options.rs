//! What a lease object is made with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bindings::{Terms, Vacancy};
use crate::chance::Chance;
use crate::clock::{Clock, nanos};
use crate::digest;
use crate::floor::{Floor, MemoryFloor};
use crate::imports::ClockOnly;
use crate::lease::{Event, LeaseError, Line};
use crate::policy::Policy;
use crate::store::check_key;

/// Told of every event, in order; must not block.
pub(super) type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// Whether whatever acts under the lease is well, or else in what way it is not.
pub type Healthy = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What a lease object is made with.
#[derive(Clone)]
pub struct LeaseOptions {
    /// The lease: any UTF-8 of 1 to 200 bytes.
    pub name: String,
    /// Names this process; the default has the machine, the process number and chance in it.
    pub instance: String,
    /// The machine, for people who look. Default: its own name for itself.
    pub host: String,
    /// What was built, for people who look. Default: empty.
    pub build: String,
    /// The timings.
    pub timing: Timing,
    /// When the first renewal is made, in thousandths of the interval. Default: 1000. Many leases of one process
    /// that are taken at once are renewed in turn when each has a place of its own here.
    pub first_renewal_per_mille: u16,
    /// Where it waits for its turn to wait for the lease. Default: a line of its own. Give the same one to the
    /// candidates of one process for one lease: only the first of them looks at the store.
    pub line: Line,
    /// What an absence is worth; default by the store.
    pub vacancy: Option<Vacancy>,
    /// Where the highest epoch issued is kept. Default: in memory, which is forgotten with the process;
    /// give a [`FileFloor`](crate::floor::FileFloor) or your own wherever the store may be wiped.
    pub floor: Arc<dyn Floor>,
    /// The clock.
    pub clock: Clock,
    /// Chance: of the nonce that tells this lease object from every other, and of pauses. Default: the machine's.
    pub chance: Chance,
    /// Whether whatever acts under the lease is well, asked before each renewal; must not block. A holder that
    /// is not well is not renewed, and gives way when its time is over. Default: it is.
    pub healthy: Healthy,
    /// Told of every event, in order; must not block. Default: a line in the log.
    pub on_event: OnEvent,
}

impl LeaseOptions {
    /// The defaults, for this lease.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let chance = nonce(&Chance::machine())
            .map(|nonce| nonce.chars().take(8).collect())
            .unwrap_or_else(|_| String::from("0"));
        Self {
            name: name.into(),
            instance: format!("{host}/{}/{chance}", std::process::id()),
            host,
            build: String::new(),
            timing: Timing::default(),
            first_renewal_per_mille: 1000,
            line: Line::default(),
            vacancy: None,
            floor: Arc::new(MemoryFloor::default()),
            clock: Clock::machine(),
            chance: Chance::machine(),
            healthy: Arc::new(|| Ok(())),
            on_event: Arc::new(|event| match event {
                Event::Renewed { .. } => tracing::debug!("{event}"),
                Event::RenewalFailed { .. } | Event::Refused { .. } | Event::Retrying { .. } => {
                    tracing::warn!("{event}");
                }
                Event::Lost { .. } => tracing::error!("{event}"),
                _ => tracing::info!("{event}"),
            }),
        }
    }
}

impl LeaseOptions {
    /// Whether a lease with these can stand in a bucket of this ttl; the timings that come of it. What
    /// [`Lease::open`](crate::Lease::open) looks at, for whoever has the bucket yet to be made.
    ///
    /// # Errors
    /// The name does not fit, or the timings do not fit each other or the ttl.
    pub async fn check(&self, policy: &Policy, ttl: Duration) -> Result<Terms, LeaseError> {
        check_key(&self.name).map_err(LeaseError::Store)?;
        let terms = self.timing.terms(ttl);
        policy.check(ClockOnly(self.clock.clone()), terms).await?.map_err(LeaseError::Misfit)?;
        Ok(terms)
    }
}

impl fmt::Debug for LeaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseOptions")
            .field("name", &self.name)
            .field("instance", &self.instance)
            .field("timing", &self.timing)
            .field("vacancy", &self.vacancy)
            .finish_non_exhaustive()
    }
}

/// A lease's timings, but for the ttl, which is the bucket's. What is not given is a share of the ttl:
/// 15 s make 5 s, 3 s and 1 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How often the holder renews. Default: a third of the ttl.
    pub renew_every: Option<Duration>,
    /// How long before the record could expire the gate shuts. Default: a fifth of the ttl. With clock rates
    /// within e, the store's clock stepping by at most s and an act under way for at most f, one incumbent
    /// needs `margin ≥ 2·e·ttl + s + f`.
    pub margin: Option<Duration>,
    /// How often a candidate looks when nothing woke it. Default: a fifteenth of the ttl.
    pub poll: Option<Duration>,
    /// Whether a renew interval that does not fit, with the margin, below the ttl is taken for not given; it is
    /// refused otherwise. Default: refused; for [workers](crate::workers) it is taken for not given.
    pub lenient: bool,
}

impl Timing {
    fn terms(&self, ttl: Duration) -> Terms {
        let margin = self.margin.unwrap_or(ttl / 5);
        let fits = |every: &Duration| every.saturating_add(margin) < ttl;
        let given = self.renew_every.filter(|every| !self.lenient || fits(every));
        Terms {
            ttl_ns: nanos(ttl),
            renew_every_ns: nanos(given.unwrap_or(ttl / 3)),
            margin_ns: nanos(margin),
            poll_ns: nanos(self.poll.unwrap_or(ttl / 15)),
        }
    }
}

/// 128 bits of chance, hexadecimal.
pub(super) fn nonce(chance: &Chance) -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    chance.fill(&mut bytes)?;
    Ok(digest::hex(&bytes))
}
