//! The guard rails behind their lock: writes are sent, answered or not, and read by others meanwhile.

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::Mutex;
use shuttle::thread::{self, JoinHandle};

use super::stage::clock::Steady;
use super::stage::rails::Rails;
use super::stage::store::Entry;

const VALIDITY: Duration = Duration::from_nanos(12);

/// A bucket with one key: what was written, in order, by whom, and when ours were sent.
#[derive(Default)]
struct Bucket(Vec<Written>);

struct Written {
    value: Vec<u8>,
    /// None for somebody else's.
    sent: Option<u64>,
}

impl Bucket {
    fn write(&mut self, value: &[u8], sent: Option<u64>) -> u64 {
        self.0.push(Written { value: value.to_vec(), sent });
        self.0.len() as u64
    }

    fn last(&self) -> Option<Entry> {
        let last = self.0.last()?;
        Some(Entry { revision: self.0.len() as u64, value: last.value.clone() })
    }
}

struct World {
    rails: Mutex<Rails>,
    bucket: Mutex<Bucket>,
}

impl World {
    /// A write of ours, sent at this instant: its revision where it landed and was acknowledged.
    fn send(&self, value: &[u8], sent: u64, end: End) {
        let ticket = self.rails.lock().expect("whole").sending(value, Steady(sent));
        match end {
            End::Acknowledged => {
                let revision = self.bucket.lock().expect("whole").write(value, Some(sent));
                self.rails.lock().expect("whole").acknowledged(ticket, revision);
            }
            End::AnswerLost => {
                self.bucket.lock().expect("whole").write(value, Some(sent));
            }
            End::Refused => self.rails.lock().expect("whole").not_applied(ticket),
        }
    }

    /// Somebody reads the key, and the rails see it.
    fn look(&self) {
        let read = self.bucket.lock().expect("whole").last();
        if let Some(entry) = read {
            self.rails.lock().expect("whole").saw(&entry);
        }
    }

    /// What must be so at any moment.
    fn check(&self) {
        // In this order in every thread.
        let rails = self.rails.lock().expect("whole");
        let bucket = self.bucket.lock().expect("whole");
        for (at, written) in bucket.0.iter().enumerate() {
            let revision = at as u64 + 1;
            match written.sent {
                None => assert!(!rails.owns(revision), "somebody else's record is owned"),
                Some(sent) => {
                    let latest = Steady(sent).plus(VALIDITY);
                    assert!(
                        rails.until(revision).map_or(true, |until| until <= latest),
                        "believed for too long"
                    );
                }
            }
        }
        let beyond = bucket.0.len() as u64 + 1;
        assert!(!rails.owns(beyond) && rails.latest().is_none_or(|latest| latest < beyond), "never written");
    }
}

enum End {
    Acknowledged,
    AnswerLost,
    Refused,
}

/// A keeper writes with every kind of answer, bob writes between, two look, and one gives it back.
pub(super) fn writes_and_answers() {
    let world = Arc::new(World { rails: Mutex::new(Rails::new(VALIDITY)), bucket: Mutex::default() });
    let spawn = |body: fn(&World)| -> JoinHandle<()> {
        let world = world.clone();
        thread::spawn(move || body(&world))
    };
    let threads = [
        spawn(|world| {
            world.send(b"first", 100, End::Acknowledged);
            world.send(b"second", 105, End::AnswerLost);
            world.send(b"third", 110, End::Refused);
            // The same bytes again: the earliest counts, whose time runs out first.
            world.send(b"second", 115, End::AnswerLost);
        }),
        spawn(|world| {
            world.bucket.lock().expect("whole").write(b"bob's", None);
        }),
        spawn(|world| (0..2).for_each(|_| world.look())),
        spawn(|world| {
            world.look();
            world.check();
        }),
        spawn(|world| {
            let mut rails = world.rails.lock().expect("whole");
            rails.deleting();
            assert_eq!(rails.latest(), None, "believed after a deletion was sent");
            drop(rails);
            world.check();
            world.rails.lock().expect("whole").finish();
        }),
    ];
    world.check();
    for thread in threads {
        thread.join().expect("what it saw holds");
    }
    world.check();
    assert!(world.rails.lock().expect("whole").is_finished());
    assert!(!world.rails.lock().expect("whole").owns_key(Steady(100)), "owned after the end");
}
