//! What befalls instances and store as a whole, one thing after another, and how it is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::Mishap;
use super::ground::{Ground, LEASE, Writer};
use super::instance::{Instance, Place};
use super::line::{Line, Wire};
use crate::clock::Clock;
use crate::lease;
use crate::policy::{Policy, Probation, Version};
use crate::store::Bucket;

/// On probation for as long as a simulation lasts, so that whatever it does wrong is told.
pub(super) const FOR_EVER: Probation = Probation { calls: u32::MAX, time: Duration::MAX };

/// What happens between operations.
const EVENTS: [Mishap; 16] = [
    Mishap::StoreDown,
    Mishap::Wiped,
    Mishap::RolledBack,
    Mishap::Forgotten,
    Mishap::Unmarked,
    Mishap::ClockStepped,
    Mishap::Cut,
    Mishap::CutOneWay,
    Mishap::Suspended,
    Mishap::Crashed,
    Mishap::CrashedStanding,
    Mishap::GivenBack,
    Mishap::GivingBackCutOff,
    Mishap::SteppedDown,
    Mishap::FloorUnreadable,
    Mishap::FloorUnwritable,
];

/// Everybody and everything.
pub(super) struct World {
    pub(super) place: Place,
    pub(super) ground: Arc<Ground>,
    pub(super) instances: Vec<Arc<Instance>>,
    /// The operator's own.
    pub(super) operator: Arc<Line>,
    pub(super) candidate: Version,
    pub(super) proven: Version,
}

impl World {
    /// A storm for this long, and then none.
    pub(super) async fn storm(&self, rng: &mut Rng, time: Duration) {
        let over = Instant::now() + time;
        for instance in &self.instances {
            instance.line.set_stormy(true);
        }
        let mut events: Vec<Mishap> =
            EVENTS.iter().copied().filter(|event| self.place.weather.has(*event)).collect();
        if self.place.weather.has(Mishap::Swapped) {
            events.push(Mishap::Swapped);
        }
        while Instant::now() < over {
            // Twice the average at the most.
            let pause = self.within(rng, self.place.weather.every * 2);
            sleep(pause).await;
            if !events.is_empty() {
                for _ in 0..rng.usize(1..=self.place.weather.together) {
                    let event = events[rng.usize(..events.len())];
                    self.befall(rng, event);
                }
            }
        }
        self.heal();
    }

    /// Nothing is wrong any more, but for what is on its way.
    fn heal(&self) {
        for instance in &self.instances {
            instance.line.set_stormy(false);
            instance.starts(Duration::ZERO);
        }
        self.ground.set_down(false);
        self.place.floor.unreadable.store(false, Ordering::SeqCst);
        self.place.floor.unwritable.store(false, Ordering::SeqCst);
    }

    fn befall(&self, rng: &mut Rng, event: Mishap) {
        let instance = &self.instances[rng.usize(..self.instances.len())];
        let holder = self.place.oracle.holding().map(|holder| &self.instances[holder]);
        // Long enough to lose a lease by, or not.
        let time = self.within(rng, self.place.weather.ttl * 2);
        let befallen = match event {
            Mishap::StoreDown => {
                self.ground.set_down(true);
                let ground = self.ground.clone();
                after(time, move || ground.set_down(false));
                None
            }
            Mishap::Wiped => {
                if !self.ground.wipe() {
                    return;
                }
                None
            }
            Mishap::RolledBack => {
                if !self.ground.roll_back() {
                    return;
                }
                None
            }
            Mishap::Forgotten => {
                if !self.ground.forget() {
                    return;
                }
                None
            }
            Mishap::Unmarked => {
                self.ground.set_unmarked(true);
                let ground = self.ground.clone();
                after(time * 4, move || ground.set_unmarked(false));
                None
            }
            Mishap::ClockStepped => {
                self.ground.set_clock_ahead(self.within(rng, self.place.weather.store_ahead));
                None
            }
            Mishap::Cut | Mishap::CutOneWay => {
                let one_way = event == Mishap::CutOneWay;
                instance.line.cut(true, one_way);
                let line = instance.line.clone();
                after(time, move || line.cut(false, one_way));
                Some(instance)
            }
            Mishap::Suspended => {
                instance.line.sleeps_for(time);
                Some(instance)
            }
            Mishap::Crashed | Mishap::GivingBackCutOff => {
                let Some(holder) = holder else { return };
                if event == Mishap::Crashed {
                    holder.dies();
                    holder.starts(time);
                } else {
                    holder.gives_back();
                    let (holder, soon) = (holder.clone(), self.within(rng, self.place.weather.latency * 3));
                    after(soon, move || {
                        holder.dies();
                        holder.starts(time);
                    });
                }
                Some(holder)
            }
            Mishap::CrashedStanding => {
                if holder.is_some_and(|holder| holder.index == instance.index) {
                    return;
                }
                instance.dies();
                instance.starts(time);
                Some(instance)
            }
            Mishap::GivenBack => {
                let Some(holder) = holder else { return };
                holder.gives_back();
                Some(holder)
            }
            Mishap::SteppedDown => {
                if holder.is_none() {
                    return;
                }
                self.ask_to_step_down();
                holder
            }
            Mishap::FloorUnreadable | Mishap::FloorUnwritable => {
                let floor = self.place.floor.clone();
                let set = move |to| match event {
                    Mishap::FloorUnreadable => floor.unreadable.store(to, Ordering::SeqCst),
                    _ => floor.unwritable.store(to, Ordering::SeqCst),
                };
                set(true);
                after(time, move || set(false));
                None
            }
            _ => {
                // The candidate, or the one that is proven.
                if rng.bool() {
                    instance.policy.swap(self.candidate.clone(), Some(FOR_EVER));
                } else {
                    instance.policy.swap(self.proven.clone(), None);
                }
                Some(instance)
            }
        };
        self.place.oracle.mishap(event, befallen.map(|instance| instance.index));
    }

    fn ask_to_step_down(&self) {
        let wire = Wire { line: self.operator.clone(), by: Writer::Operator, life: 0 };
        let policy = Policy::of(self.proven.clone());
        tokio::spawn(async move {
            let (bucket, clock): (Arc<dyn Bucket>, _) = (Arc::new(wire), Clock::machine());
            // The holder may be another by then, or nobody: that is the operator's affair.
            let _ = lease::step_down(&policy, &bucket, &clock, LEASE, "ops").await;
        });
    }

    fn within(&self, rng: &mut Rng, longest: Duration) -> Duration {
        Duration::from_millis(rng.u64(..=u64::try_from(longest.as_millis()).unwrap_or(u64::MAX - 1)))
    }

    /// Whether somebody holds the lease within this time.
    pub(super) async fn is_held_within(&self, time: Duration) -> bool {
        let over = Instant::now() + time;
        while self.place.oracle.holding().is_none() {
            if Instant::now() >= over {
                return false;
            }
            sleep(self.place.weather.ttl / 15).await;
        }
        true
    }
}

/// Do this in the end.
fn after(time: Duration, act: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        sleep(time).await;
        act();
    });
}
