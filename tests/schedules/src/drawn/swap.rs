//! Versions of a policy that come and go while others call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::stage::policy::serving::{Probation, Serving, Verdict};
use super::stage::policy::{PolicyError, Version};

const NEEDS: Probation = Probation { calls: 2, time: Duration::ZERO };

/// The version that fails every call; the others answer well.
const BAD: u64 = 2;

struct World {
    serving: Serving,
    /// The highest version that was published: they are published in their order.
    published: AtomicU64,
    verdicts: Arc<Mutex<Vec<Verdict>>>,
}

impl World {
    /// Version 1 serves, and is proven.
    fn new() -> Arc<Self> {
        let verdicts: Arc<Mutex<Vec<Verdict>>> = Arc::default();
        let serving = Serving::new(Version(1));
        let told = verdicts.clone();
        serving.on_verdict(Box::new(move |verdict| {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(verdict);
        }));
        Arc::new(Self { serving, published: AtomicU64::new(1), verdicts })
    }

    fn publish(&self, version: u64) {
        self.published.store(version, Ordering::SeqCst);
        self.serving.publish(Version(version), Some(NEEDS));
    }

    /// One call: which version answered it.
    fn call(&self) -> u64 {
        let (version, _) = self.serving.current();
        assert!(version.0 <= self.published.load(Ordering::SeqCst), "a version that nobody published");
        if version.0 != BAD {
            self.serving.clean(&version);
            return version.0;
        }
        assert!(self.serving.blame(&version, &PolicyError), "nothing serves that may answer instead");
        let (next, _) = self.serving.current();
        assert_ne!(next.0, BAD, "what failed serves again");
        next.0
    }

    /// What must be so once everybody is through. Answers how many were rolled back.
    fn end(&self) -> u64 {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut judged = Vec::new();
        let mut rolled_back = 0;
        for verdict in verdicts.iter() {
            judged.push(match verdict {
                Verdict::Proven(version) => {
                    assert_ne!(version.0, BAD, "what failed is proven");
                    version.0
                }
                Verdict::RolledBack { from, to, .. } => {
                    assert_eq!((from.0, to.0), (BAD, 1), "a verdict for the wrong version");
                    rolled_back += 1;
                    from.0
                }
            });
        }
        let verdicts = judged.len();
        judged.sort_unstable();
        judged.dedup();
        assert_eq!(judged.len(), verdicts, "two verdicts for one version");
        rolled_back
    }
}

fn spawn(world: &Arc<World>, body: impl FnOnce(&World) + Send + 'static) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

fn everybody(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("what it saw holds");
    }
}

/// A bad version and then a good one are published while two call.
pub(super) fn versions_come_and_go() {
    let world = World::new();
    let changes = world.serving.changes();
    let callers = [0; 2].map(|_| {
        spawn(&world, |world| {
            for _ in 0..2 {
                world.call();
            }
        })
    });
    let swapper = spawn(&world, |world| {
        world.publish(BAD);
        assert_ne!(world.serving.current().0.0, 0);
        world.publish(3);
    });
    everybody(callers.into_iter().chain([swapper]));
    let rolled_back = world.end();
    assert_eq!(world.serving.current().0, Version(3), "the last one published is lost");
    assert_eq!(*changes.borrow(), 2 + rolled_back, "a change that nobody heard of");
    if let Some((trial, fallback)) = world.serving.trial() {
        assert_eq!(fallback, Version(1), "back to one that was never proven");
        assert!(trial.calls < NEEDS.calls);
    }
}

/// Three call the bad version at the same time, and a good one is published meanwhile.
pub(super) fn callers_blame_one() {
    let world = World::new();
    world.publish(BAD);
    let callers = [0; 3].map(|_| {
        spawn(&world, |world| {
            let answered = world.call();
            assert!(answered == 1 || answered == 3, "answered by {answered}");
        })
    });
    let swapper = spawn(&world, |world| world.publish(3));
    everybody(callers.into_iter().chain([swapper]));
    assert!(world.end() <= 1);
    assert_eq!(world.serving.current().0, Version(3), "the good one was rolled back for the bad one's fault");
}
