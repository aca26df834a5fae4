//! Keeps a lease that was taken: renews it, finds out what became of a renewal, gives it back, or says that
//! it is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::bindings::{Certainty, Loss, ReleaseOutcome, Renewal, Setback, Tenure};
use crate::clock::Steady;
use crate::lease::{Ended, Event, Released, Shared};
use crate::limits;
use crate::policy::Instance;

/// How soon a renewal that failed is tried again: this share of the renew interval, within these bounds. Several
/// tries fit before the gate shuts, and a server that is back is found soon.
const RETRY_SHARE: u32 = 5;
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How soon one looks again why a renewal was refused; the gate is shut meanwhile.
const LOOK_SHARE: u32 = 50;
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The keeper of one tenure.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    tenure: Tenure,
    next: Steady,
    /// Of the policy's version.
    changes: watch::Receiver<u64>,
}

/// What the lease object may ask of its keeper; each is answered when it is done. The end of these is the end
/// of the lease object.
#[derive(Debug)]
pub(super) struct Orders {
    /// Renew now.
    pub(super) renew: mpsc::Sender<oneshot::Sender<()>>,
    /// Give the lease back: never behind a renewal.
    pub(super) release: mpsc::Sender<oneshot::Sender<Released>>,
}

/// The keeper's side of [`Orders`].
pub(super) struct Ordered {
    renew: mpsc::Receiver<oneshot::Sender<()>>,
    release: mpsc::Receiver<oneshot::Sender<Released>>,
}

pub(super) fn orders() -> (Orders, Ordered) {
    let ((renew, renewals), (release, releases)) = (mpsc::channel(1), mpsc::channel(1));
    (Orders { renew, release }, Ordered { renew: renewals, release: releases })
}

enum Step {
    Again,
    Over,
}

impl Keeper {
    /// `changes` are those since the gate was asked.
    pub(super) fn new(shared: Arc<Shared>, tenure: Tenure, changes: watch::Receiver<u64>) -> Self {
        let next = sent(&shared, &tenure).plus(shared.first_renewal);
        Self { shared, tenure, next, changes }
    }

    /// Until the lease is over.
    pub(super) async fn run(mut self, mut ordered: Ordered) {
        let _ended = LostByPanic(self.shared.clone());
        loop {
            let step = tokio::select! {
                biased;
                // A renewal under way is dropped: should it still land, the release finds it.
                order = ordered.release.recv() => match order {
                    Some(order) => return self.release(order).await,
                    // The lease object was dropped: nobody acts, and the record is left to expire.
                    None => return,
                },
                step = self.step(&mut ordered.renew) => step,
            };
            if matches!(step, Step::Over) {
                return;
            }
        }
    }

    /// Until the next renewal is due or asked for, and the renewal. One under way is never dropped for another:
    /// should it land unheard, the other would be refused.
    async fn step(&mut self, asked: &mut mpsc::Receiver<oneshot::Sender<()>>) -> Step {
        let due = self.next.min(Steady(self.tenure.until_ns));
        let answer = tokio::select! {
            biased;
            () = sleep(due.since(self.shared.clock.now())) => None,
            Some(answer) = asked.recv() => Some(answer),
            // The sender lives as long as the policy.
            Ok(()) = self.changes.changed() => return self.ask_anew().await,
        };
        let step = self.renew().await;
        if let Some(answer) = answer {
            // Whoever asked may be gone.
            let _ = answer.send(());
        }
        step
    }

    async fn renew(&mut self) -> Step {
        let shared = self.shared.clone();
        let left = Steady(self.tenure.until_ns).since(shared.clock.now());
        if left.is_zero() {
            return self.lose(Loss::Overdue);
        }
        if shared.asked.get().is_some() {
            // Waiting for its end, by the order to give it back or by the clock.
            self.next = Steady(self.tenure.until_ns);
            return Step::Again;
        }
        if let Err(why) = (shared.healthy)() {
            return self.failed(format!("not made, because what acts under it is not well: {why}"));
        }
        let asked = self.tenure.clone();
        // Until it is answered. A call that is dropped in the middle leaves it so.
        if asked.certainty == Certainty::Sure {
            self.tenure.certainty = Certainty::Unsure;
        }
        let call = shared.policy.renew_and(shared.imports(false), shared.terms, &shared.who, &asked);
        let (renewal, instance) = match timeout(left.min(renew_every(&shared)), call).await {
            Ok((Ok(renewal), instance)) => (renewal, instance),
            Ok((Err(why), _)) => return self.failed(why.to_string()),
            Err(_) => return self.failed("no answer in time".into()),
        };
        match renewal {
            Renewal::Lost(loss) => self.lose(loss),
            Renewal::Kept(tenure) => {
                if let Err(why) = self.believe(tenure) {
                    return self.failed(why);
                }
                self.next = sent(&shared, &self.tenure).plus(renew_every(&shared));
                self.publish(instance).await
            }
            Renewal::Failed(Setback { tenure, why }) => match self.believe(tenure) {
                Ok(()) => self.failed(why),
                Err(lie) => self.failed(lie),
            },
            Renewal::Asked(Setback { tenure, why: by }) => {
                shared.gate.shut();
                if let Err(lie) = self.believe(tenure) {
                    return self.failed(lie);
                }
                let until = Steady(self.tenure.until_ns);
                self.next = until;
                // Once only: it is not renewed any more.
                let _ = shared.asked.set(by.as_str().into());
                shared.asking.notify_waiters();
                (shared.on_event)(&Event::Asked { by, until });
                Step::Again
            }
            Renewal::Refused(Setback { tenure, why }) => {
                shared.gate.shut();
                if let Err(lie) = self.believe(tenure) {
                    return self.failed(lie);
                }
                self.next = shared.clock.now().plus(pause(&shared, LOOK_SHARE, LOOK));
                if !matches!(asked.certainty, Certainty::Doubted(_)) {
                    (shared.on_event)(&Event::Refused { why });
                }
                Step::Again
            }
        }
    }

    /// Take over what the policy answered, as far as the guard rails let it be believed.
    fn believe(&mut self, mut tenure: Tenure) -> Result<(), String> {
        let believed = self.shared.rails().believe(tenure.epoch, tenure.revision, Steady(tenure.until_ns));
        tenure.until_ns = believed.map_err(|lie| format!("the policy is not believed: {lie}"))?.0;
        self.tenure = tenure;
        Ok(())
    }

    async fn publish(&mut self, renewed: Option<Instance>) -> Step {
        let shared = self.shared.clone();
        match shared.publish(&self.tenure, renewed).await {
            Ok(()) => {
                (shared.on_event)(&Event::Renewed { until: Steady(self.tenure.until_ns) });
                Step::Again
            }
            Err(why) => self.failed(why.to_string()),
        }
    }

    /// Another version serves: the gate is asked anew, and a stricter answer counts at once. What it was shut for
    /// otherwise, no version undoes.
    async fn ask_anew(&mut self) -> Step {
        let shared = self.shared.clone();
        let is_shut = matches!(self.tenure.certainty, Certainty::Doubted(_))
            || shared.asked.get().is_some()
            || shared.rails().is_refused();
        if !is_shut && let Err(why) = shared.publish(&self.tenure, None).await {
            (shared.on_event)(&Event::Shut { why: why.to_string() });
        }
        Step::Again
    }

    /// Not renewed, and not lost while `until` lies ahead.
    fn failed(&mut self, why: String) -> Step {
        let now = self.shared.clock.now();
        if now.0 >= self.tenure.until_ns {
            return self.lose(Loss::Overdue);
        }
        self.next = now.plus(pause(&self.shared, RETRY_SHARE, RETRY));
        (self.shared.on_event)(&Event::RenewalFailed { why, until: Steady(self.tenure.until_ns) });
        Step::Again
    }

    fn lose(&mut self, loss: Loss) -> Step {
        if self.shared.end(Ended::Lost(loss.clone())) {
            (self.shared.on_event)(&Event::Lost { epoch: self.tenure.epoch, loss });
        }
        Step::Over
    }

    /// Give the lease back once no act is under way; the gate was sealed when it was ordered.
    async fn release(self, order: oneshot::Sender<Released>) {
        let shared = self.shared;
        let deadline = tokio::time::Instant::now() + limits::RELEASE;
        let outcome = match tokio::time::timeout_at(deadline, quiet(&shared)).await {
            Err(_) => Released::Left("acts are still under way".into()),
            Ok(()) => {
                let call = shared.policy.release(shared.imports(true), &shared.who, &self.tenure);
                match tokio::time::timeout_at(deadline, call).await {
                    Ok(Ok(ReleaseOutcome::GivenBack)) => Released::GivenBack,
                    Ok(Ok(ReleaseOutcome::NotOurs)) => Released::NotOurs,
                    Ok(Ok(ReleaseOutcome::Left(fault))) => {
                        Released::Left(crate::store::Fault::from(fault).to_string())
                    }
                    Ok(Err(why)) => Released::Left(why.to_string()),
                    Err(_) => Released::Left("the store did not answer in time".into()),
                }
            }
        };
        shared.end(Ended::GivenBack);
        (shared.on_event)(&Event::Released { epoch: self.tenure.epoch, outcome: outcome.clone() });
        // Whoever ordered it may be gone; it was done all the same.
        let _ = order.send(outcome);
    }
}

/// A lease whose keeper panicked, in what it asks whether its holder is well or in what is told of events, is renewed by
/// nobody any more: what acts under it is told at once.
struct LostByPanic(Arc<Shared>);

impl Drop for LostByPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Ended::Lost(Loss::Overdue));
        }
    }
}

/// Until no act is under way.
async fn quiet(shared: &Shared) {
    loop {
        // Listening from here on, before looking, so that a permit dropped between the two is heard.
        let last = shared.quiet.notified();
        if shared.gate.is_quiet() {
            return;
        }
        last.await;
    }
}

fn renew_every(shared: &Shared) -> Duration {
    Duration::from_nanos(shared.terms.renew_every_ns)
}

/// When the write that a tenure rests on was sent, at the latest.
fn sent(shared: &Shared, tenure: &Tenure) -> Steady {
    Steady(tenure.until_ns.saturating_sub(shared.terms.ttl_ns - shared.terms.margin_ns))
}

fn pause(shared: &Shared, share: u32, (shortest, longest): (Duration, Duration)) -> Duration {
    shared.chance.jittered((renew_every(shared) / share).clamp(shortest, longest))
}
