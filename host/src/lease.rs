//! The lease: taken, kept, gated, lost or given back. One lease object has one tenure at the most.

mod error;
mod event;
mod keeper;
mod line;
mod operator;
mod options;
mod permit;
mod shared;
mod view;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{MutexGuard, Notify, oneshot};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::bindings::{Attempt, Certainty, Holder, Identity, Sighting, Tenure, Terms, Vacancy};
use crate::clock::Steady;
use crate::gate::Gate;
use crate::limits;
use crate::policy::Policy;
use crate::rails::Rails;
use crate::store::{BucketInfo, Store, Watch, check_key};

pub use error::{LeaseError, NotHeld};
pub use event::{Ended, Event, Released};
pub use line::Line;
pub use operator::{Cleared, clear, step_down};
pub use options::{Healthy, LeaseOptions, Timing};
pub use permit::Permit;
pub use view::{current, list};

use keeper::{Keeper, Orders};
use shared::Shared;
use waiting::{Said, rest};

/// One instance's stand for a lease, and its hold of it.
///
/// Dropping it shuts the gate and stops renewing; the record is left to expire. Give it back with
/// [`release`](Self::release).
#[derive(Debug)]
pub struct Lease {
    shared: Arc<Shared>,
    /// What the candidate has seen so far, and the proof that one take is under way at a time.
    candidacy: tokio::sync::Mutex<Option<Sighting>>,
    keeper: OnceLock<Orders>,
}

impl Lease {
    /// Stand for a lease in a bucket of a store; nothing is taken yet.
    ///
    /// # Errors
    /// The name does not fit, the bucket is missing or has no ttl, or the timings do not fit it.
    pub async fn open(
        policy: &Policy,
        store: &dyn Store,
        bucket: &str,
        options: LeaseOptions,
    ) -> Result<Self, LeaseError> {
        check_key(&options.name).map_err(LeaseError::Store)?;
        let bucket = store.bucket(bucket).await.map_err(LeaseError::Store)?;
        // The bucket's ttl is the only truth: every instance judges by it.
        let BucketInfo { ttl, created, .. } = bucket.info().await.map_err(LeaseError::Store)?;
        if ttl.is_zero() {
            return Err(LeaseError::Misfit(format!(
                "the bucket {} keeps its keys for ever, so a holder that died would hold for ever; give it a \
                 ttl",
                bucket.name()
            )));
        }
        let terms = options.check(policy, ttl).await?;
        let default = if store.keeps_what_it_acknowledged() { Vacancy::Trusted } else { Vacancy::Watched };
        let share = u32::from(options.first_renewal_per_mille.min(1000));
        let mut rails = Rails::new(Duration::from_nanos(terms.ttl_ns.saturating_sub(terms.margin_ns)));
        rails.saw_bucket(created);
        Ok(Self {
            shared: Arc::new(Shared {
                policy: policy.clone(),
                bucket,
                who: Identity {
                    lease: options.name,
                    instance: options.instance,
                    host: options.host,
                    build: options.build,
                    nonce: options::nonce(&options.chance)
                        .map_err(|why| LeaseError::Nonce(why.to_string()))?,
                },
                terms,
                vacancy: options.vacancy.unwrap_or(default),
                clock: options.clock,
                chance: options.chance,
                floor: options.floor,
                gate: Arc::new(Gate::new()),
                rails: Arc::new(Mutex::new(rails)),
                taken: AtomicBool::new(false),
                renewed: AtomicU64::new(0),
                ended: OnceLock::new(),
                over: CancellationToken::new(),
                asked: OnceLock::new(),
                asking: Notify::new(),
                line: options.line,
                awaits_bucket: !store.keeps_what_it_acknowledged(),
                begun: Notify::new(),
                quiet: Notify::new(),
                healthy: options.healthy,
                first_renewal: Duration::from_nanos(terms.renew_every_ns) * share / 1000,
                on_event: options.on_event,
            }),
            candidacy: tokio::sync::Mutex::new(None),
            keeper: OnceLock::new(),
        })
    }

    /// Wait until the lease is free, take it, and keep it in the background. Answers the epoch. Candidates that
    /// share a [`Line`] wait one behind another.
    ///
    /// What passes by itself (a server away, a busy file) is waited out, and so is a bucket that servers lost meanwhile;
    /// it is said once and again when it recovered and failed anew. Cancel-safe: a record left behind by a take cut off
    /// in the middle is found by the next one of this lease object or by [`release`](Self::release), or expires. A write
    /// that was on its way may land after that look: [`take_until`](Self::take_until) waits for it.
    ///
    /// # Errors
    /// What waiting does not mend.
    pub async fn take(&self) -> Result<u64, LeaseError> {
        let shared = &self.shared;
        // Before the candidacy, or a try of this lease object would wait for others.
        let _turn = self.turn().await;
        let mut candidacy = self.candidacy.lock().await;
        let mut watch: Option<Box<dyn Watch>> = None;
        let mut watchable = true;
        let mut said = Said::default();
        loop {
            let (pause, woken_by) = match self.attempt(&mut candidacy).await {
                Ok(Turn::Taken(epoch)) => return Ok(epoch),
                Ok(Turn::Waiting(holder, again_at)) => {
                    said.waiting(shared, holder);
                    // Watched from before the look that counts, so that no change falls between the two.
                    if watch.is_none() && watchable {
                        match shared.bucket.watch(&shared.who.lease).await {
                            Ok(begun) => {
                                watch = Some(begun);
                                continue;
                            }
                            Err(why) => {
                                tracing::debug!("no watch on the lease, polling: {why}");
                                watchable = false;
                            }
                        }
                    }
                    let due = again_at.map(|at| at.since(shared.clock.now()));
                    (due.map_or(shared.poll(), |due| shared.poll().min(due)), &mut watch)
                }
                Err(why) if why.passes() || (shared.awaits_bucket && why.is_missing_bucket()) => {
                    said.trouble(shared, &why);
                    // Deaf meanwhile: a record that it wrote and gave back again would wake it at once, over and over.
                    (shared.poll(), &mut None)
                }
                Err(why) => return Err(why),
            };
            rest(shared, pause, woken_by).await;
            watchable |= watch.is_none();
        }
    }

    /// As [`take`](Self::take), until `stop`: then the stand is over, as after [`release`](Self::release), and the answer
    /// is `None`. A write under way is waited for, for [`RELEASE`](limits::RELEASE) at the most, and what it wins is
    /// given back, so that nobody waits for a record that is not acted on.
    ///
    /// # Errors
    /// As `take`.
    pub async fn take_until(&self, stop: impl Future<Output = ()>) -> Result<Option<u64>, LeaseError> {
        let take = self.take();
        tokio::pin!(take);
        tokio::select! {
            taken = &mut take => return taken.map(Some),
            () = stop => {}
        }
        // What it answers from now on is that the stand is over.
        let _ = tokio::join!(self.release(), tokio::time::timeout(limits::RELEASE, take));
        Ok(None)
    }

    /// Take the lease if it is free now, and keep it in the background. Answers the epoch. It stands in no
    /// [`Line`].
    ///
    /// # Errors
    /// [`LeaseError::Taken`] and [`LeaseError::NotYetFree`] when it is not, and what a try can run into.
    pub async fn try_take(&self) -> Result<u64, LeaseError> {
        let mut candidacy = self.candidacy.lock().await;
        match self.attempt(&mut candidacy).await? {
            Turn::Taken(epoch) => Ok(epoch),
            Turn::Waiting(Some(holder), _) => Err(LeaseError::Taken(Box::new(holder))),
            Turn::Waiting(None, _) => Err(LeaseError::NotYetFree),
        }
    }

    /// The gate: the epoch, while acts may pass. Lock-free, and it waits for nothing.
    ///
    /// # Errors
    /// Why they may not.
    #[inline]
    pub fn epoch(&self) -> Result<u64, NotHeld> {
        self.shared.gate.pass(|| self.shared.clock.now().0).ok_or_else(|| self.shared.why_closed())
    }

    /// Whether acts may pass now.
    #[must_use]
    pub fn held(&self) -> bool {
        self.epoch().is_ok()
    }

    /// Guard one act: [`release`](Self::release) waits for it to be dropped.
    ///
    /// # Errors
    /// Why acts may not pass.
    pub fn permit(&self) -> Result<Permit, NotHeld> {
        Permit::enter(&self.shared)
    }

    /// The instant at which the gate shuts unless renewed; `None` before the lease is taken, while a refused
    /// renewal is looked into, and after its end.
    #[must_use]
    pub fn until(&self) -> Option<Steady> {
        self.shared.gate.until().map(Steady)
    }

    /// When the last write that counted was sent; `None` before the lease was taken.
    #[must_use]
    pub fn renewed(&self) -> Option<Steady> {
        Some(self.shared.renewed.load(Ordering::Acquire)).filter(|ns| *ns > 0).map(Steady)
    }

    /// Until the lease is over: lost, or given back.
    pub fn lost(&self) -> WaitForCancellationFuture<'_> {
        self.shared.over.cancelled()
    }

    /// Fires when the lease is over: lost, or given back.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.shared.over.child_token()
    }

    /// Until an operator asks to give way; who that is. The gate is shut by then and does not open again: end
    /// what acts, and [`release`](Self::release) the lease, which is lost by its time otherwise. Never, when the
    /// lease ends without.
    pub async fn asked(&self) -> Arc<str> {
        loop {
            let asking = self.shared.asking.notified();
            tokio::pin!(asking);
            // Listening before looking, so that nothing falls between the two.
            asking.as_mut().enable();
            if let Some(by) = self.asked_by() {
                return by;
            }
            asking.await;
        }
    }

    /// Who asked to give way, if somebody has.
    #[must_use]
    pub fn asked_by(&self) -> Option<Arc<str>> {
        self.shared.asked.get().cloned()
    }

    /// How the lease ended; `None` while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.shared.ended.get().cloned()
    }

    /// The timings it stands under.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.shared.terms
    }

    /// Who stands.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.shared.who
    }

    /// Who holds the lease now, as its record says.
    ///
    /// # Errors
    /// It cannot be read, or is no holder: never "nobody".
    pub async fn current(&self) -> Result<Option<Holder>, LeaseError> {
        current(&self.shared.policy, &self.shared.bucket, &self.shared.clock, &self.shared.who.lease).await
    }

    /// Renew now, beside the renewals that the keeper makes by itself.
    ///
    /// # Errors
    /// Why the gate is shut afterwards. A renewal that failed while the last one still counts is no error.
    pub async fn renew(&self) -> Result<u64, NotHeld> {
        let (answer, answered) = oneshot::channel();
        if let Some(keeper) = self.keeper.get()
            && keeper.renew.send(answer).await.is_ok()
        {
            // The keeper drops it unanswered when the lease is lost meanwhile; the gate tells.
            let _ = answered.await;
        }
        self.epoch()
    }

    /// Give the lease back: the gate shuts, the acts under way are waited for, the record is deleted.
    /// Bounded by [`RELEASE`](limits::RELEASE), and goes on when the caller is cancelled. The lease
    /// object is finished after it.
    pub async fn release(&self) -> Released {
        self.shared.gate.seal();
        let Some(keeper) = self.keeper.get() else { return self.withdraw().await };
        let (answer, answered) = oneshot::channel();
        // The keeper is gone when the lease was lost, or given back before.
        if keeper.release.send(answer).await.is_err() {
            return Released::NeverHeld;
        }
        answered.await.unwrap_or(Released::NeverHeld)
    }

    /// End a candidacy. A take cut off in the middle may have left a record, which nobody is to wait for.
    async fn withdraw(&self) -> Released {
        let shared = &self.shared;
        // One under way gives back by itself what it wins.
        if let Ok(_candidacy) = self.candidacy.try_lock() {
            self.give_back_stray().await;
        }
        shared.end(Ended::GivenBack);
        Released::NeverHeld
    }

    /// Delete the record that a take left, cut off in the middle or at rest. What cannot be found or deleted in time expires.
    async fn give_back_stray(&self) {
        let _ = tokio::time::timeout(limits::RELEASE, self.find_and_give_back()).await;
    }

    async fn find_and_give_back(&self) {
        let shared = &self.shared;
        // A purge that may yet arrive must find nobody else's record: this one stays and expires.
        if shared.rails().may_purge() {
            return;
        }
        let releasing = shared.imports(true);
        if shared.rails().latest().is_none() && shared.rails().is_unsettled() {
            // Its answer was never heard: what stands there is known again by its bytes.
            let _ = releasing.own.get().await;
        }
        let left = shared.rails().latest();
        if let Some(revision) = left {
            let until = shared.rails().until(revision);
            let tenure = Tenure {
                epoch: revision,
                revision,
                created: 0,
                taken: String::new(),
                // What is not believed any more is left to expire.
                until_ns: until.map_or(0, |until| until.0),
                certainty: Certainty::Unsure,
            };
            let _ = shared.policy.release(releasing, &shared.who, &tenure).await;
        }
    }

    /// Its turn in the line; `None` when there is nothing to wait for: it has the lease, or is over.
    async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let shared = &self.shared;
        // From before the look, so that a try which takes the lease meanwhile is not missed.
        let begun = shared.begun.notified();
        if self.keeper.get().is_some() {
            return None;
        }
        tokio::select! {
            biased;
            () = shared.over.cancelled() => None,
            () = begun => None,
            turn = shared.line.turn(|| (shared.on_event)(&Event::InLine)) => Some(turn),
        }
    }

    async fn attempt(&self, candidacy: &mut Option<Sighting>) -> Result<Turn, LeaseError> {
        let shared = &self.shared;
        if let Some(ended) = shared.ended.get() {
            // Given up meanwhile: what an earlier try left would be waited for.
            if self.keeper.get().is_none() {
                self.give_back_stray().await;
            }
            return Err(LeaseError::Over(ended.clone()));
        }
        if self.keeper.get().is_some() {
            return Ok(Turn::Taken(self.epoch()?));
        }
        let call =
            shared.policy.take(shared.imports(false), shared.terms, &shared.who, shared.vacancy, *candidacy);
        let tried = tokio::select! {
            biased;
            tried = tokio::time::timeout(shared.attempt_bound(), call) => tried,
            () = self.given_up() => return Err(LeaseError::Over(Ended::GivenBack)),
        };
        match tried.map_err(|_| LeaseError::TooSlow)??.map_err(LeaseError::from)? {
            Attempt::Waiting(waiting) => {
                *candidacy = Some(waiting.sighting);
                Ok(Turn::Waiting(waiting.holder, waiting.again_at_ns.map(Steady)))
            }
            Attempt::Taken(tenure) => self.begin(tenure).await.map(Turn::Taken),
        }
    }

    /// Until the stand is over while no write of it may stand or land, so that a try under way may be cut off: it writes
    /// nothing from then on.
    async fn given_up(&self) {
        self.shared.over.cancelled().await;
        let may_stand = {
            let rails = self.shared.rails();
            rails.is_unsettled() || rails.latest().is_some()
        };
        if may_stand {
            std::future::pending().await
        }
    }

    /// From a tenure that the policy answered to one that is kept.
    async fn begin(&self, mut tenure: Tenure) -> Result<u64, LeaseError> {
        let shared = &self.shared;
        let (orders, ordered) = keeper::orders();
        let changes = shared.policy.changes();
        if let Err(why) = self.open_gate(&mut tenure, orders).await {
            // Nobody waits for a record that is not acted on. What cannot be deleted expires.
            let call = shared.policy.release(shared.imports(true), &shared.who, &tenure);
            let _ = tokio::time::timeout(limits::RELEASE, call).await;
            return Err(shared.ended.get().cloned().map_or(why, LeaseError::Over));
        }
        let (epoch, until) = (tenure.epoch, Steady(tenure.until_ns));
        (shared.on_event)(&Event::Taken { epoch, until });
        tokio::spawn(Keeper::new(shared.clone(), tenure, changes).run(ordered));
        Ok(epoch)
    }

    /// From a tenure that the policy answered to a gate that is open: believed, written to the floor, passed.
    async fn open_gate(&self, tenure: &mut Tenure, orders: Orders) -> Result<(), LeaseError> {
        let shared = &self.shared;
        let floor =
            shared.floor.highest().await.map_err(|why| LeaseError::FloorUnreadable(why.to_string()))?;
        tenure.until_ns =
            shared.rails().believe_taken(tenure.epoch, tenure.revision, Steady(tenure.until_ns), floor)?.0;
        // Before the first act: an epoch that is not on record could be issued again.
        let kept = shared.floor.raise(tenure.epoch).await;
        kept.map_err(|why| LeaseError::FloorUnwritable(why.to_string()))?;
        let open = shared.ask(tenure, None).await?;
        // Before the gate opens: a release that finds no keeper has then sealed the gate, and it does not open.
        // Takes are serialised, and none begins after this one.
        let _ = self.keeper.set(orders);
        shared.begun.notify_waiters();
        shared.taken.store(true, Ordering::Release);
        if shared.open(tenure, open) {
            return Ok(());
        }
        shared.end(Ended::GivenBack);
        Err(LeaseError::Over(Ended::GivenBack))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.gate.seal();
        self.shared.over.cancel();
    }
}

/// How one try ended.
enum Turn {
    Taken(u64),
    Waiting(Option<Holder>, Option<Steady>),
}
