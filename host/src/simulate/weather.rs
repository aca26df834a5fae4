//! What a seed draws before anything happens: who stands, under which timings and rule, and what may befall them.

use std::time::Duration;

use fastrand::Rng;

use super::Mishap;
use crate::bindings::Vacancy;

/// What was drawn from a seed.
#[derive(Clone, Debug)]
pub struct Weather {
    /// How many instances stand.
    pub instances: usize,
    /// How long a record lives. The other timings are the default shares of it.
    pub ttl: Duration,
    /// What an absence is worth.
    pub vacancy: Vacancy,
    /// What each instance's clock gains in a million.
    pub gains: Vec<i32>,
    /// The longest way to the store, one way.
    pub latency: Duration,
    /// What may befall them.
    pub mishaps: Vec<Mishap>,
    /// How many operations in a thousand meet each of those that befall operations.
    pub per_mille: u32,
    /// How long it is on average between two of the others.
    pub every: Duration,
    /// How many of those come at once, at the most.
    pub together: usize,
    /// By how much the store's clock may be off, forward.
    pub store_ahead: Duration,
    /// How long an act is under way at the most.
    pub flight: Duration,
}

/// A weather with nothing but these: for what shows only when a few things come together. The rest is drawn.
#[derive(Clone, Debug)]
pub struct Narrow {
    /// What an absence is worth.
    pub vacancy: Vacancy,
    /// What befalls them, often and several at once.
    pub mishaps: Vec<Mishap>,
}

/// A clock gains or loses this much in a million at the most: the README's 1 %.
const GAIN: i32 = 10_000;

impl Weather {
    /// Draw it, and leave nothing of it but what is asked for.
    pub(super) fn narrowed(rng: &mut Rng, narrow: &Narrow) -> Self {
        let drawn = Self::drawn(rng, false);
        let every = drawn.ttl / 2;
        Self { vacancy: narrow.vacancy, mishaps: narrow.mishaps.clone(), every, together: 4, ..drawn }
    }

    /// Draw it.
    pub(super) fn drawn(rng: &mut Rng, calm: bool) -> Self {
        // A controller's and a worker's.
        let ttl = Duration::from_secs(if rng.bool() { 60 } else { 15 });
        let vacancy = match rng.u8(..3) {
            0 => Vacancy::Trusted,
            1 => Vacancy::Watched,
            _ => Vacancy::Delayed,
        };
        let instances = rng.usize(2..=4);
        let gains = (0..instances).map(|_| if rng.bool() { 0 } else { rng.i32(-GAIN..=GAIN) }).collect();
        let latency = Duration::from_millis([0, 0, 10, 200][rng.usize(..4)]);
        // Each seed goes without some of them, so that those which are left meet often.
        let share = rng.u8(1..=4);
        let drawn: Vec<Mishap> = Mishap::ALL
            .iter()
            .copied()
            .filter(|mishap| rng.u8(..4) < share && withstood(*mishap, vacancy))
            .collect();
        Self {
            instances,
            ttl,
            vacancy,
            gains,
            latency,
            mishaps: if calm { Vec::new() } else { drawn },
            per_mille: [3, 20, 60][rng.usize(..3)],
            every: ttl * [1, 3, 10][rng.usize(..3)] / 2,
            together: [1, 1, 4][rng.usize(..3)],
            // With the clocks' 2·e·ttl these make up the default margin, a fifth of the ttl.
            store_ahead: ttl / 15,
            flight: ttl / 10,
        }
    }

    pub(super) fn has(&self, mishap: Mishap) -> bool {
        self.mishaps.contains(&mishap)
    }
}

/// Whether the rule promises to withstand it: that is the README's table.
fn withstood(mishap: Mishap, rule: Vacancy) -> bool {
    match mishap {
        Mishap::Wiped => rule != Vacancy::Trusted,
        Mishap::RolledBack | Mishap::Forgotten => rule == Vacancy::Delayed,
        _ => true,
    }
}
