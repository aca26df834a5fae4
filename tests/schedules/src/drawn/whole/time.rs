//! Time as the model moves it: everybody's, a little at a time, and now and then to the next sleeper's hour at once. That
//! is a step like any other, so what others do takes as long as the order that was drawn lets it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use incumbent::clock::{Clock, Steady};
use shuttle::rand::{self, Rng as _};

shuttle::lazy_static! {
    static ref TIME: Time = Time {
        clock: Clock::by_hand(START),
        sleepers: Mutex::default(),
        pace: match rand::thread_rng().gen_ratio(1, 8) {
            true => Duration::from_millis(rand::thread_rng().gen_range(200..=1000)),
            false => Duration::from_millis(rand::thread_rng().gen_range(10..=200)),
        },
    };
}

/// When it begins: zero is no instant for a lease.
const START: Steady = Steady(1_000_000_000);

/// Of one run of a model. Its lock is held for no step.
struct Time {
    clock: Clock,
    sleepers: Mutex<Vec<(Steady, Waker)>>,
    /// How much of it goes by at once.
    pace: Duration,
}

/// Of so many steps, one is to the next sleeper's hour.
const LEAPS: u32 = 50;

/// Everybody's clock.
pub(super) fn clock() -> Clock {
    TIME.clock.clone()
}

/// It goes on, at the most to the hour of whoever is to be woken next.
pub(super) fn goes_on() {
    let leaps = rand::thread_rng().gen_ratio(1, LEAPS);
    let mut due = Vec::new();
    {
        let mut sleepers = TIME.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = sleepers.iter().map(|(hour, _)| *hour).min() else { return };
        let left = next.since(TIME.clock.now());
        TIME.clock.advance(if leaps { left } else { left.min(TIME.pace) });
        let now = TIME.clock.now();
        sleepers.retain(|(hour, waker)| {
            let sleeps = *hour > now;
            if !sleeps {
                due.push(waker.clone());
            }
            sleeps
        });
    }
    due.into_iter().for_each(Waker::wake);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(Steady);

impl Instant {
    pub(super) fn now() -> Self {
        Self(TIME.clock.now())
    }

    pub(super) fn elapsed(self) -> Duration {
        TIME.clock.now().since(self.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.plus(later))
    }
}

pub(super) struct Sleep(Steady);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if TIME.clock.now() >= self.0 {
            return Poll::Ready(());
        }
        let mut sleepers = TIME.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.push((self.0, context.waker().clone()));
        Poll::Pending
    }
}

pub(super) fn sleep(time: Duration) -> Sleep {
    sleep_until(Instant::now() + time)
}

pub(super) fn sleep_until(hour: Instant) -> Sleep {
    Sleep(hour.0)
}

/// Too late.
#[derive(Debug)]
pub(super) struct Elapsed;

pub(super) async fn timeout<T>(time: Duration, what: impl Future<Output = T>) -> Result<T, Elapsed> {
    timeout_at(Instant::now() + time, what).await
}

pub(super) async fn timeout_at<T>(hour: Instant, what: impl Future<Output = T>) -> Result<T, Elapsed> {
    let (mut what, mut late) = (pin!(what), pin!(sleep_until(hour)));
    std::future::poll_fn(|context| {
        if let Poll::Ready(answer) = what.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        ready!(late.as_mut().poll(context));
        Poll::Ready(Err(Elapsed))
    })
    .await
}
