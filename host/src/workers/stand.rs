//! One worker's stand: takes the lease, works, gives it back, and stands again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Duty, Event, Shared, Worker};
use crate::chance::Chance;
use crate::lease::{Lease, Line, NotHeld};

/// The rest after errors in a row grows up to this many intervals.
const REST_LONGEST: u32 = 8;

/// How long a worker that was cut off has to come to the place where that takes effect.
const CUT_OFF: Duration = Duration::from_millis(500);

/// How soon one looks again whether it is known why the gate was shut.
const LOOK: Duration = Duration::from_millis(20);

/// How long one rests who cannot even stand, since the lease's own poll is not known then.
const NOT_STANDING: Duration = Duration::from_secs(1);

pub(super) struct Stand {
    shared: Arc<Shared>,
    name: Arc<str>,
    /// Shared with those of the same name.
    line: Line,
    worker: Arc<dyn Worker>,
}

/// How one time of working ended.
enum Shift {
    Finished,
    Failed(String),
    /// Asked to give way: others first.
    SteppedDown,
    /// Lost, or stopped: whatever the worker answered.
    Over,
    /// It was to end and has not.
    Abandoned(CutOff),
}

impl Stand {
    pub(super) fn new(shared: Arc<Shared>, name: Arc<str>, line: Line, worker: Arc<dyn Worker>) -> Self {
        Self { shared, name, line, worker }
    }

    /// Until the work is finished, or the workers are stopped. Whether it finished.
    pub(super) async fn run(self) -> bool {
        let interval = self.shared.options.interval;
        let mut failed: u32 = 0;
        while !self.shared.stop.is_cancelled() {
            let began = Instant::now();
            let shift = if self.shared.options.election {
                self.in_office().await
            } else {
                self.tell(&Event::Started { epoch: None });
                Some(self.work(None, &Unwell::default()).await)
            };
            let rest = match shift {
                Some(Shift::Finished) => {
                    self.tell(&Event::Finished);
                    return true;
                }
                Some(Shift::Failed(why)) => {
                    // So long after the one before it is not the next of a row.
                    let in_a_row = began.elapsed() <= interval.saturating_mul(REST_LONGEST);
                    failed = if in_a_row { failed.saturating_add(1) } else { 1 };
                    let times = 2_u32.saturating_pow(failed - 1).min(REST_LONGEST);
                    let again_in = interval.saturating_mul(times);
                    self.tell(&Event::Failed { why, again_in });
                    Chance::machine().jittered(again_in)
                }
                Some(Shift::SteppedDown) => Chance::machine().jittered(interval),
                // Never beside itself: it stands again when it has ended after all.
                Some(Shift::Abandoned(mut working)) => {
                    tokio::select! {
                        biased;
                        () = self.shared.stop.cancelled() => return false,
                        _ = &mut working.0 => {}
                    }
                    Duration::ZERO
                }
                Some(Shift::Over) => {
                    failed = 0;
                    Duration::ZERO
                }
                None => break,
            };
            tokio::select! {
                () = self.shared.stop.cancelled() => break,
                () = sleep(rest) => {}
            }
        }
        self.tell(&Event::Stopped);
        false
    }

    /// Stand for the lease, and work under it. `None`: stopped before that.
    async fn in_office(&self) -> Option<Shift> {
        let unwell = Arc::new(Unwell::default());
        let lease = Arc::new(self.take(&unwell).await?);
        let Ok(epoch) = lease.epoch() else { return Some(Shift::Over) };
        self.tell(&Event::Started { epoch: Some(epoch) });
        let shift = self.work(Some(&lease), &unwell).await;
        match shift {
            // What it does may still be under way: the gate shuts, and the record expires.
            Shift::Abandoned(_) => {}
            _ if lease.ended().is_some() => self.tell(&Event::Lost),
            _ => {
                lease.release().await;
            }
        }
        Some(shift)
    }

    /// Take the lease, however long that takes and whatever is in the way. `None`: stopped before.
    async fn take(&self, unwell: &Arc<Unwell>) -> Option<Lease> {
        let shared = &self.shared;
        let mut said = false;
        loop {
            let mut options = (shared.options.lease)(&self.name);
            options.name = self.name.to_string();
            options.timing.lenient = true;
            options.line = self.line.clone();
            options.first_renewal_per_mille = shared.next_place();
            let (worker, tell, healthy) = (self.worker.clone(), unwell.clone(), options.healthy.clone());
            options.healthy =
                Arc::new(move || healthy().and_then(|()| worker.healthy()).inspect_err(|why| tell.tell(why)));
            let opened = tokio::select! {
                opened = Lease::open(&shared.policy, &*shared.store, &shared.bucket, options) => opened,
                () = shared.stop.cancelled() => return None,
            };
            let why = match opened {
                Ok(lease) => match lease.take_until(shared.stop.cancelled()).await {
                    Ok(Some(_)) => return Some(lease),
                    Ok(None) => return None,
                    Err(why) => why,
                },
                Err(why) => why,
            };
            if !std::mem::replace(&mut said, true) {
                self.tell(&Event::NotStanding { why: why.to_string() });
            }
            tokio::select! {
                () = shared.stop.cancelled() => return None,
                () = sleep(Chance::machine().jittered(NOT_STANDING)) => {}
            }
        }
    }

    /// Work until the worker ends, or has been asked to and does not.
    async fn work(&self, lease: Option<&Arc<Lease>>, unwell: &Unwell) -> Shift {
        let over = lease.map_or_else(CancellationToken::new, |lease| lease.lost_token());
        let duty = Duty { lease: lease.map(Arc::downgrade), over: over.clone() };
        let worker = self.worker.clone();
        // In a task of its own, so that its panic is not this one's.
        let mut working = CutOff(tokio::spawn(async move { worker.work(duty).await }));
        let mut asked_by = None;
        let ended = tokio::select! {
            biased;
            ended = &mut working.0 => Some(ended),
            () = self.shared.stop.cancelled() => None,
            () = unwell.told.notified() => None,
            by = asked(lease) => {
                asked_by = Some(by);
                None
            }
            () = over.cancelled() => None,
        };
        if let Some(ended) = ended {
            return match lease {
                // One that ends because its gate was shut, by the clock or by doubt, ends of a loss.
                Some(lease) if !lease.held() => {
                    if self.was_asked(lease).await {
                        Shift::SteppedDown
                    } else {
                        Shift::Over
                    }
                }
                _ => shift(ended),
            };
        }
        let stepping_down = |why: String| self.tell(&Event::SteppingDown { why });
        let end = match (asked_by, unwell.why.get()) {
            (Some(by), _) => {
                stepping_down(format!("{by} asked it to give way"));
                || Shift::SteppedDown
            }
            (None, Some(why)) => {
                stepping_down(format!("it is not well: {why}"));
                || Shift::Failed("it was not well".into())
            }
            (None, None) => || Shift::Over,
        };
        over.cancel();
        let patience = self.shared.options.patience;
        if timeout(patience, &mut working.0).await.is_ok() {
            return end();
        }
        working.0.abort();
        if timeout(CUT_OFF, &mut working.0).await.is_ok() {
            return end();
        }
        self.tell(&Event::Abandoned { after: patience });
        Shift::Abandoned(working)
    }

    /// Whether the gate was shut because somebody asked to give way. It shuts when a renewal is refused, and only then
    /// is it found out why, within a renew interval. One that a policy keeps shut stays in doubt for longer.
    async fn was_asked(&self, lease: &Lease) -> bool {
        let found_out = async {
            while lease.epoch() == Err(NotHeld::Doubted) {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            _ = timeout(Duration::from_nanos(lease.terms().renew_every_ns), found_out) => {}
            () = self.shared.stop.cancelled() => {}
        }
        lease.asked_by().is_some()
    }

    fn tell(&self, event: &Event) {
        self.shared.tell(&self.name, event);
    }
}

/// Until somebody asks the holder of this lease to give way; who that is.
async fn asked(lease: Option<&Arc<Lease>>) -> Arc<str> {
    match lease {
        Some(lease) => lease.asked().await,
        None => std::future::pending().await,
    }
}

/// That a worker is not well.
#[derive(Default)]
struct Unwell {
    why: OnceLock<String>,
    told: Notify,
}

impl Unwell {
    fn tell(&self, why: &str) {
        // The first reason is the one that is said.
        let _ = self.why.set(why.into());
        self.told.notify_one();
    }
}

/// A worker whose stand is dropped does not work on alone.
struct CutOff(JoinHandle<anyhow::Result<()>>);

impl Drop for CutOff {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn shift(ended: Result<anyhow::Result<()>, JoinError>) -> Shift {
    match ended {
        Ok(Ok(())) => Shift::Finished,
        Ok(Err(why)) => Shift::Failed(format!("{why:#}")),
        Err(ended) if ended.is_panic() => {
            Shift::Failed(format!("it panicked: {}", words(&*ended.into_panic())))
        }
        Err(ended) => Shift::Failed(ended.to_string()),
    }
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".into())
}
