//! Instances that stand for one lease under everything that may befall them, in time that passes by itself.
//!
//! One thread, and a seed from which all is drawn: who stands, by clocks of which rates, what befalls them and when. The
//! lease, its keeper, the guard rails and the gate are the ones of this crate; the policy is a component, or
//! [native](crate::policy::Native); the store is the one in memory behind a line that loses, delays, repeats and
//! reorders. Storms alternate with calm: under a storm nothing unsafe may happen, and in the calm after it somebody
//! holds the lease and keeps it.
//!
//! A sleep of an instance goes by true time, though its clock may gain or lose: its renewals are a hundredth
//! early or late, and its gate is judged by its clock. An instance that is suspended stands still at its next import.

mod ground;
mod instance;
mod line;
mod many;
mod mishap;
mod oracle;
mod storm;
mod timeline;
mod weather;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use crate::clock::{Clock, Steady};
use crate::policy::{Policy, Verdict, Version};

pub use mishap::{Mishap, Mishaps};
pub use oracle::{Counts, Finding, Found, Hold, Note};
pub use timeline::Timeline;
pub use weather::{Narrow, Weather};

use ground::Ground;
use instance::{Instance, Place, SharedFloor};
use line::Line;
use oracle::Oracle;
use storm::{FOR_EVER, World};

/// Storms last so many ttls.
const STORM: u32 = 20;
/// After a storm so many ttls are waited for what is on its way, and then so many for a holder: a record of somebody dead
/// that arrives last lives one, the absence after it is watched for another, and one more is for the takes that fail.
const SETTLING: u32 = 4;
const TAKING: u32 = 4;
/// And for so many nothing may be lost.
const CALM: u32 = 3;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The policy that is looked at: on probation all the time.
    pub candidate: Version,
    /// What serves when the candidate has failed, and beside it where versions are swapped.
    pub proven: Version,
    /// How long, in simulated time.
    pub length: Duration,
    /// Without any mishap, but for clocks of different rates and ways of different lengths.
    pub calm: bool,
    /// Nothing but these mishaps.
    pub narrow: Option<Narrow>,
    /// Whether to keep what happened, for people to read.
    pub keep: bool,
}

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was drawn first.
    pub weather: Weather,
    /// What must not have happened, in order; the first few.
    pub findings: Vec<Found>,
    /// Tells transcripts apart: equal where everything happened alike.
    pub transcript: u64,
    /// What happened, where it was to be kept.
    pub notes: Vec<Note>,
    /// Who held when.
    pub holds: Vec<Hold>,
    /// How often each mishap happened.
    pub mishaps: Mishaps,
    /// What was counted.
    pub counts: Counts,
    /// How long it was, in simulated time.
    pub simulated: Duration,
}

impl Simulation {
    /// Run it for one seed. Not from within an async runtime: it has one of its own.
    ///
    /// # Errors
    /// There is no runtime to be had.
    pub fn run(&self, seed: u64) -> io::Result<Run> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        Ok(runtime.block_on(self.play(seed)))
    }

    async fn play(&self, seed: u64) -> Run {
        let mut rng = Rng::with_seed(seed);
        let weather = Arc::new(match &self.narrow {
            Some(narrow) => Weather::narrowed(&mut rng, narrow),
            None => Weather::drawn(&mut rng, self.calm),
        });
        let world = self.raise(&weather, &mut rng);
        let (oracle, began) = (world.place.oracle.clone(), Instant::now());
        for instance in &world.instances {
            instance.starts(Duration::from_millis(rng.u64(..1000)));
        }
        if self.calm {
            world.calm(self.length).await;
        } else {
            while began.elapsed() < self.length && oracle.book().findings.is_empty() {
                world.storm(&mut rng, weather.ttl * STORM).await;
                world.calm(weather.ttl * CALM).await;
            }
        }
        let (transcript, simulated) = (oracle.transcript(), began.elapsed());
        let mut book = oracle.book();
        Run {
            weather: (*weather).clone(),
            findings: std::mem::take(&mut book.findings),
            transcript,
            notes: std::mem::take(&mut book.notes),
            holds: std::mem::take(&mut book.holds),
            mishaps: std::mem::take(&mut book.mishaps),
            counts: book.counts,
            simulated,
        }
    }

    fn raise(&self, weather: &Arc<Weather>, rng: &mut Rng) -> World {
        let oracle = Arc::new(Oracle::new(weather.instances, self.keep));
        let store_clock = Clock::of_runtime(Steady(0), 0);
        let ground = Arc::new(Ground::new(store_clock, weather, oracle.clone()));
        let place = Place {
            oracle: oracle.clone(),
            weather: weather.clone(),
            floor: Arc::new(SharedFloor::default()),
        };
        let line = |instance, rng: &mut Rng| {
            Arc::new(Line::new(ground.clone(), oracle.clone(), weather.clone(), instance, rng.fork()))
        };
        let instances = (0..weather.instances)
            .map(|index| {
                let policy = Policy::of(self.proven.clone());
                let told = oracle.clone();
                policy.on_verdict(move |verdict| {
                    if let Verdict::RolledBack { why, .. } = verdict {
                        told.misdeed(index, why.to_string());
                    }
                });
                policy.swap(self.candidate.clone(), Some(FOR_EVER));
                // Their clocks have nothing to do with one another.
                let start = Steady(rng.u64(1..1 << 50));
                let clock = Clock::of_runtime(start, weather.gains[index]);
                Arc::new(Instance::new(index, policy, line(index, rng), clock, &place, rng))
            })
            .collect();
        World {
            operator: line(0, rng),
            ground: ground.clone(),
            place,
            instances,
            candidate: self.candidate.clone(),
            proven: self.proven.clone(),
        }
    }
}

impl World {
    /// The calm: somebody takes the lease, and nobody loses it.
    async fn calm(&self, time: Duration) {
        let (oracle, ttl) = (&self.place.oracle, self.place.weather.ttl);
        sleep(ttl * SETTLING).await;
        if !self.is_held_within(ttl * TAKING).await {
            return oracle.nobody_takes();
        }
        oracle.set_calm(true);
        sleep(time).await;
        if oracle.holding().is_none() {
            oracle.nobody_takes();
        }
        oracle.set_calm(false);
    }
}
