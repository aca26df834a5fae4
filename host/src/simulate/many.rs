//! Many seeds, on all cores.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Run, Simulation};

impl Simulation {
    /// Run it for each of these seeds, on all cores. Each run is told as it ends, in no order; those not yet begun are left
    /// out once the answer is to break.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_each(
        &self,
        seeds: Range<u64>,
        ended: impl FnMut(u64, Run) -> ControlFlow<()> + Send,
    ) -> io::Result<()> {
        let (next, ended) = (AtomicU64::new(seeds.start), Mutex::new((ended, Ok(()))));
        let stop = || next.store(seeds.end, Ordering::SeqCst);
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::SeqCst);
                if seed >= seeds.end {
                    return;
                }
                let run = self.run(seed);
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                let goes_on = match run {
                    Ok(run) => ended.0(seed, run).is_continue(),
                    Err(why) => {
                        ended.1 = Err(why);
                        false
                    }
                };
                if !goes_on {
                    stop();
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        ended.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}
