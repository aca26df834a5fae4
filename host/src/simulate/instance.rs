//! One instance: stands, holds and acts, over and over, until it dies and is started again.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Mishap;
use super::ground::{BUCKET, LEASE, Writer};
use super::line::{Line, Wire};
use super::oracle::Oracle;
use super::weather::Weather;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::floor::Floor;
use crate::lease::{Lease, LeaseError, LeaseOptions};
use crate::policy::Policy;

/// Where all instances keep the highest epoch issued.
#[derive(Debug, Default)]
pub(super) struct SharedFloor {
    highest: AtomicU64,
    pub(super) unreadable: AtomicBool,
    pub(super) unwritable: AtomicBool,
}

#[async_trait]
impl Floor for SharedFloor {
    async fn highest(&self) -> io::Result<u64> {
        if self.unreadable.load(Ordering::SeqCst) {
            return Err(io::Error::other("the floor cannot be read"));
        }
        Ok(self.highest.load(Ordering::SeqCst))
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        if self.unwritable.load(Ordering::SeqCst) {
            return Err(io::Error::other("the floor cannot be written"));
        }
        self.highest.fetch_max(epoch, Ordering::SeqCst);
        Ok(())
    }
}

/// The instance.
pub(super) struct Instance {
    pub(super) index: usize,
    pub(super) policy: Policy,
    pub(super) line: Arc<Line>,
    oracle: Arc<Oracle>,
    weather: Arc<Weather>,
    floor: Arc<SharedFloor>,
    clock: Clock,
    chance: Chance,
    rng: Mutex<Rng>,
    give_back: Notify,
    life: Mutex<Option<JoinHandle<()>>>,
}

/// What all instances share.
pub(super) struct Place {
    pub(super) oracle: Arc<Oracle>,
    pub(super) weather: Arc<Weather>,
    pub(super) floor: Arc<SharedFloor>,
}

impl Instance {
    pub(super) fn new(
        index: usize,
        policy: Policy,
        line: Arc<Line>,
        clock: Clock,
        place: &Place,
        rng: &mut Rng,
    ) -> Self {
        Self {
            index,
            policy,
            line,
            oracle: place.oracle.clone(),
            weather: place.weather.clone(),
            floor: place.floor.clone(),
            clock,
            chance: Chance::seeded(rng.u64(..)),
            rng: Mutex::new(rng.fork()),
            give_back: Notify::new(),
            life: Mutex::default(),
        }
    }

    /// It is started, after this long.
    pub(super) fn starts(self: &Arc<Self>, after: Duration) {
        let mut life = self.life();
        if life.as_ref().is_none_or(JoinHandle::is_finished) {
            let instance = self.clone();
            *life = Some(tokio::spawn(async move {
                sleep(after).await;
                loop {
                    instance.stand().await;
                    let pause = instance.draw(Duration::ZERO, instance.weather.ttl / 5);
                    sleep(pause).await;
                }
            }));
        }
    }

    /// It dies: what it had sent is on its way still, and its record is left to expire.
    pub(super) fn dies(&self) {
        if let Some(life) = self.life().take() {
            life.abort();
            self.line.dies();
        }
    }

    /// It is to give the lease back.
    pub(super) fn gives_back(&self) {
        self.give_back.notify_waiters();
    }

    /// One lease object, from its beginning to its end.
    async fn stand(&self) {
        let (object, index) = (self.oracle.object(), self.index);
        let life = self.line.life();
        let wire = Wire { line: self.line.clone(), by: Writer::Object(object, index), life };
        let mut options = LeaseOptions::new(LEASE);
        options.instance = format!("instance-{index}");
        options.host = String::new();
        options.vacancy = Some(self.weather.vacancy);
        options.floor = self.floor.clone();
        options.clock = self.clock.clone();
        options.chance = self.chance.clone();
        let oracle = self.oracle.clone();
        options.on_event = Arc::new(move |event| oracle.event(index, object, event));
        let lease = match Lease::open(&self.policy, &wire, BUCKET, options).await {
            Ok(lease) => Arc::new(lease),
            Err(why) => return self.gives_up("cannot stand", &why),
        };
        self.oracle.stands(index, object, &lease);
        match lease.take().await {
            Ok(_) => self.hold(&lease, life).await,
            Err(why) => {
                // A read that answers what was there before may well tell of nobody.
                if matches!(why, LeaseError::Unwritable(_)) && !self.weather.has(Mishap::ReadStale) {
                    self.oracle.told_nobody(index, self.weather.ttl);
                }
                self.gives_up("cannot take", &why);
            }
        }
    }

    fn gives_up(&self, what: &'static str, why: &dyn std::error::Error) {
        self.oracle.note(self.index, what, 0, 0, || format!("{what}: {why}"));
    }

    /// Acts, until the lease is over.
    async fn hold(&self, lease: &Arc<Lease>, life: u64) {
        loop {
            let pause = self.draw(self.weather.ttl / 30, self.weather.ttl / 5);
            tokio::select! {
                biased;
                () = lease.lost() => return,
                _ = lease.asked() => return drop(lease.release().await),
                () = self.give_back.notified() => return drop(lease.release().await),
                () = sleep(pause) => {}
            }
            self.line.awake(life).await;
            let Ok(permit) = lease.permit() else { continue };
            let Ok(epoch) = permit.epoch() else { continue };
            self.oracle.act(self.index, epoch);
            let (oracle, flight) = (self.oracle.clone(), self.draw(Duration::ZERO, self.weather.flight));
            tokio::spawn(async move {
                sleep(flight).await;
                oracle.arrives(epoch);
                // The lease is not given back while an act is under way.
                drop(permit);
            });
        }
    }

    fn draw(&self, from: Duration, to: Duration) -> Duration {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_millis(rng.u64(millis(from)..=millis(to)))
    }

    fn life(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
