//! Where chance comes from: the machine, or a seed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::nanos;

/// Where chance comes from: the machine, or a seed, so that what was once drawn is drawn again.
#[derive(Clone, Default)]
pub struct Chance(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    Machine,
    Seeded(Arc<Mutex<fastrand::Rng>>),
}

impl Chance {
    /// The machine's.
    #[must_use]
    pub fn machine() -> Self {
        Self(Source::Machine)
    }

    /// The same draws for the same seed. Not for nonces of leases that others stand for in earnest.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))))
    }

    /// Fill these bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        match &self.0 {
            Source::Machine => getrandom::fill(bytes),
            Source::Seeded(rng) => {
                rng.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
                Ok(())
            }
        }
    }

    /// A duration, give or take a quarter.
    pub(crate) fn jittered(&self, duration: Duration) -> Duration {
        let mut byte = [128];
        // Without chance it is the plain duration.
        let _ = self.fill(&mut byte);
        let per_mille = 750 + u64::from(byte[0]) * 500 / 255;
        Duration::from_nanos((nanos(duration) / 1000).saturating_mul(per_mille))
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Machine => "Chance(machine)",
            Source::Seeded(_) => "Chance(seeded)",
        })
    }
}
