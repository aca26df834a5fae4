//! What a lease object, its keeper and its permits share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bindings::{Identity, Open, Standing as Where, Tenure, Terms, Vacancy};
use crate::chance::Chance;
use crate::clock::{Clock, Steady};
use crate::floor::Floor;
use crate::gate::Gate;
use crate::imports::{ClockOnly, OwnKey, Standing};
use crate::lease::{Ended, Event, Healthy, LeaseError, Line, NotHeld, options};
use crate::lie::Lie;
use crate::limits;
use crate::policy::{Instance, Policy};
use crate::rails::Rails;
use crate::store::Bucket;

/// What the lease object, its keeper and its permits share.
pub(super) struct Shared {
    pub(super) policy: Policy,
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) who: Identity,
    pub(super) terms: Terms,
    pub(super) vacancy: Vacancy,
    pub(super) clock: Clock,
    pub(super) chance: Chance,
    pub(super) floor: Arc<dyn Floor>,
    pub(super) gate: Arc<Gate>,
    pub(super) rails: Arc<Mutex<Rails>>,
    pub(super) taken: AtomicBool,
    /// When the last good write was sent, steady nanoseconds; zero before the lease was taken.
    pub(super) renewed: AtomicU64,
    pub(super) ended: OnceLock<Ended>,
    pub(super) over: CancellationToken,
    /// Who asked it to give way, once somebody has.
    pub(super) asked: OnceLock<Arc<str>>,
    pub(super) asking: Notify,
    pub(super) line: Line,
    /// Whether a bucket that is missing is waited for: of a store on servers somebody makes it again. One of this machine
    /// is made by whoever opens it.
    pub(super) awaits_bucket: bool,
    /// Told when the lease is taken.
    pub(super) begun: Notify,
    pub(super) quiet: Notify,
    pub(super) healthy: Healthy,
    /// When the first renewal is due, after the taking was sent.
    pub(super) first_renewal: Duration,
    pub(super) on_event: options::OnEvent,
}

impl Shared {
    pub(super) fn rails(&self) -> std::sync::MutexGuard<'_, Rails> {
        self.rails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn imports(self: &Arc<Self>, releasing: bool) -> Standing {
        let shared = self.clone();
        Standing {
            own: OwnKey {
                clock: self.clock.clone(),
                bucket: self.bucket.clone(),
                key: self.who.lease.clone(),
                rails: self.rails.clone(),
            },
            gate: self.gate.clone(),
            floor: self.floor.clone(),
            moved: Arc::new(move |was, floor| (shared.on_event)(&Event::Moved { was, floor })),
            marker: 0,
            told_floor: None,
            releasing,
        }
    }

    /// Ask the policy for the gate's state under this tenure, in the instance that renewed, and set it. Fails closed.
    pub(super) async fn publish(&self, tenure: &Tenure, renewed: Option<Instance>) -> Result<(), LeaseError> {
        // Whatever the policy made of it: the gate was shut then, and opens by a write that wins.
        if self.rails().is_refused() {
            return Err(Lie::NotOurs(tenure.revision).into());
        }
        let open = self.ask(tenure, renewed).await.inspect_err(|_| self.gate.shut())?;
        // Sealed meanwhile: the order to give the lease back is on its way.
        let _ = self.open(tenure, open);
        Ok(())
    }

    /// Ask the policy for the gate's state under this tenure: never another epoch.
    pub(super) async fn ask(&self, tenure: &Tenure, renewed: Option<Instance>) -> Result<Open, LeaseError> {
        let standing = Where::Held(tenure.clone());
        let imports = ClockOnly(self.clock.clone());
        let answer = self.policy.pass_after(renewed, imports, &standing).await?;
        let open = answer.map_err(|closed| {
            // Whatever stood still meanwhile, the next try may be faster.
            let is_late = self.clock.now().0 >= tenure.until_ns;
            if is_late { LeaseError::TooSlow } else { LeaseError::NotOpened(format!("{closed:?}")) }
        })?;
        if open.epoch != tenure.epoch {
            return Err(Lie::OtherEpoch { said: open.epoch, known: tenure.epoch }.into());
        }
        Ok(open)
    }

    /// Open the gate, never for longer than the guard rails allow. `false` when it is sealed.
    pub(super) fn open(&self, tenure: &Tenure, open: Open) -> bool {
        let validity = self.terms.ttl_ns.saturating_sub(self.terms.margin_ns);
        self.renewed.store(tenure.until_ns.saturating_sub(validity), Ordering::Release);
        self.gate.open(open.epoch, open.until_ns.min(tenure.until_ns))
    }

    /// The lease object's end, once.
    pub(super) fn end(&self, ended: Ended) -> bool {
        self.gate.seal();
        self.rails().finish();
        let first = self.ended.set(ended).is_ok();
        self.over.cancel();
        first
    }

    /// Why the gate is shut. Takes no lock: the gate waits for nothing.
    pub(super) fn why_closed(&self) -> NotHeld {
        match (self.ended.get(), self.gate.until()) {
            (Some(Ended::Lost(loss)), _) => NotHeld::Lost(Box::new(loss.clone())),
            (Some(Ended::GivenBack), _) => NotHeld::Released,
            (None, Some(until)) => NotHeld::Overdue { by: self.clock.now().since(Steady(until)) },
            (None, None) if self.gate.is_sealed() => NotHeld::Released,
            (None, None) if self.asked.get().is_some() => NotHeld::Asked,
            (None, None) if self.taken.load(Ordering::Acquire) => NotHeld::Doubted,
            (None, None) => NotHeld::NotTaken,
        }
    }

    /// The poll, give or take a quarter, so that candidates do not all look in the same moment.
    pub(super) fn poll(&self) -> Duration {
        self.chance.jittered(Duration::from_nanos(self.terms.poll_ns))
    }

    pub(super) fn attempt_bound(&self) -> Duration {
        Duration::from_nanos(self.terms.ttl_ns).max(limits::RELEASE)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("who", &self.who).field("gate", &self.gate).finish_non_exhaustive()
    }
}
