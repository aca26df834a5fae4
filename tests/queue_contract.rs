//! The contract of `host/src/store/queue.rs`, held by every backend: each rule is written once and is a test
//! of its own for each of them.

mod asks;
mod callers;
mod queues;
mod time;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use incumbent::clock::{Clock, Steady};
use incumbent::store::memory::Memory;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::queue::{Queue, QueueConfig, Taken};
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{Fault, Store};
use incumbent_tests::nats::NatsServer;

/// A backend: one store with one queue, [`QUEUE`], and a way to let time pass in it.
#[async_trait]
trait Subject: Sized + Send + Sync {
    /// The ack wait with which time is tried.
    const ACK_WAIT: Duration;
    /// Time passes here exactly as asked, asks come to be given again to the nanosecond, and the store knows
    /// whose each of them is. Otherwise time is really waited for, what comes may come late, and a taker that
    /// lost its ask may not be told.
    const EXACT: bool;

    /// A store of its own, with the queue made.
    async fn raise(ack_wait: Duration) -> Result<Self>;

    /// A connection to it; each call makes another where there are such.
    async fn connect(&self) -> Result<Arc<dyn Store>>;

    /// The clock that it goes by, or one that runs as that does.
    fn clock(&self) -> &Clock;

    /// Let time pass.
    async fn pass(&self, time: Duration);

    /// The queue, by a connection of its own.
    async fn queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(self.connect().await?.queue(QUEUE).await?)
    }
}

/// Makes every rule a test named `queue_contract::<backend>::<rule>`.
macro_rules! holds {
    ($backend:ident: $subject:ident) => {
        holds! { @ $backend: $subject =>
            asks: an_ask_is_kept_until_it_is_done;
            asks: never_taken_asks_are_taken_in_order;
            asks: one_given_again_comes_before_one_never_taken;
            asks: looking_takes_nothing;
            asks: the_oldest_waiting_is_not_one_that_is_worked_on;
            asks: nothing_waits_in_an_empty_queue;
            asks: an_ask_says_when_it_was_stored;
            asks: an_ask_of_the_limit_is_kept_and_one_byte_more_is_refused;
            asks: an_empty_ask_is_an_ask;
            asks: waiting_and_taken_asks_are_counted;
            time: a_taken_ask_is_nobody_elses_before_the_ack_wait_and_given_again_after;
            time: a_word_from_its_taker_keeps_an_ask;
            time: a_handed_back_ask_is_given_again_at_once;
            time: a_handed_back_ask_is_given_again_after_the_delay_and_not_before;
            time: an_old_taking_touches_no_newer_one;
            time: a_late_taker_may_finish_what_nobody_took_since;
            callers: a_take_waits_for_what_another_connection_puts;
            callers: a_take_waits_for_what_comes_to_be_given_again;
            callers: a_take_may_wait_for_ever;
            callers: a_take_ends_when_nothing_comes;
            callers: a_dropped_take_loses_nothing_that_comes_later;
            callers: a_dropped_take_loses_nothing_that_was_there;
            callers: an_ask_goes_to_one_of_many_takers;
            queues: a_missing_queue_is_told;
            queues: a_queue_made_twice_is_left_alone;
            queues: a_queue_with_another_ack_wait_is_denied_and_both_are_named;
            queues: settings_that_do_not_fit_are_denied;
            queues: two_queues_do_not_meet;
            queues: a_bucket_and_a_queue_of_one_name_do_not_meet;
        }
    };
    (@ $backend:ident: $subject:ident => $($file:ident: $rule:ident;)+) => {
        mod $backend {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() -> anyhow::Result<()> {
                    super::$file::$rule::<super::$subject>().await
                }
            )+
        }
    };
}

holds! { memory: OnMemory }
holds! { sqlite: OnSqlite }
holds! { nats: OnNats }

struct OnMemory {
    clock: Clock,
    store: Memory,
}

#[async_trait]
impl Subject for OnMemory {
    // A take that waits for one to be given again sleeps for as long, whatever the hand does.
    const ACK_WAIT: Duration = Duration::from_millis(300);
    const EXACT: bool = true;

    async fn raise(ack_wait: Duration) -> Result<Self> {
        let clock = Clock::by_hand(Steady(1_000_000));
        let store = Memory::new(clock.clone());
        store.create_queue(QUEUE, &config(ack_wait)).await?;
        Ok(Self { clock, store })
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.store.clone()))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

struct OnSqlite {
    clock: Clock,
    folder: tempfile::TempDir,
}

#[async_trait]
impl Subject for OnSqlite {
    const ACK_WAIT: Duration = Duration::from_secs(15);
    const EXACT: bool = true;

    async fn raise(ack_wait: Duration) -> Result<Self> {
        let subject = Self { clock: Clock::by_hand(Steady(1_000_000)), folder: tempfile::tempdir()? };
        subject.connect().await?.create_queue(QUEUE, &config(ack_wait)).await?;
        Ok(subject)
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        let path = self.folder.path().join("leases.db");
        Ok(Arc::new(Sqlite::open(&path, self.clock.clone(), GENEROUS).await?))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

struct OnNats {
    clock: Clock,
    server: NatsServer,
}

#[async_trait]
impl Subject for OnNats {
    // Long enough for a busy machine to answer within it, short enough to wait for.
    const ACK_WAIT: Duration = Duration::from_secs(2);
    const EXACT: bool = false;

    async fn raise(ack_wait: Duration) -> Result<Self> {
        let subject = Self { clock: Clock::machine(), server: NatsServer::start()? };
        subject.connect().await?.create_queue(QUEUE, &config(ack_wait)).await?;
        Ok(subject)
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        let mut options = NatsOptions::new(self.server.url());
        options.timeout = GENEROUS;
        Ok(Arc::new(Nats::connect(options).await?))
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// The queue that every subject has.
const QUEUE: &str = "checks";
/// An ack wait that no test outlives: what is lost until then is lost.
const LONG: Duration = Duration::from_secs(3600);
/// A bound that only a fault reaches, on a busy machine too.
const GENEROUS: Duration = Duration::from_secs(30);
/// How long a look that should find nothing waits for something to come, where it may come late.
const SHORT: Duration = Duration::from_millis(100);
const NANO: Duration = Duration::from_nanos(1);

fn config(ack_wait: Duration) -> QueueConfig {
    QueueConfig { ack_wait, replicas: 1 }
}

/// Takes what must be there, or about to come where that may take a while.
async fn taken<S: Subject>(queue: &Arc<dyn Queue>) -> Result<Box<dyn Taken>> {
    let within = if S::EXACT { Duration::ZERO } else { GENEROUS };
    queue.take(within).await?.context("nothing was given")
}

/// That nothing is given now.
async fn nothing<S: Subject>(queue: &Arc<dyn Queue>) -> Result<()> {
    let given = queue.take(if S::EXACT { Duration::ZERO } else { SHORT }).await?;
    ensure!(given.is_none(), "given: {given:?}");
    Ok(())
}

/// That nothing is given until `wait` after `sent`, when what it counts from was sent, and something then.
async fn comes_after<S: Subject>(
    subject: &S,
    queue: &Arc<dyn Queue>,
    sent: Instant,
    wait: Duration,
) -> Result<Box<dyn Taken>> {
    if S::EXACT {
        subject.pass(wait - NANO).await;
        nothing::<S>(queue).await.context("a nanosecond too early")?;
        subject.pass(NANO).await;
    }
    let again = taken::<S>(queue).await?;
    // The queue counts from a moment after it was sent.
    ensure!(S::EXACT || sent.elapsed() >= wait, "{wait:?} were asked, {:?} passed", sent.elapsed());
    Ok(again)
}

/// That so many asks were never taken, and so many are taken and not done; where the count may come late, soon.
async fn counted<S: Subject>(queue: &Arc<dyn Queue>, waiting: u64, taken: u64) -> Result<()> {
    let give_up = Instant::now() + if S::EXACT { Duration::ZERO } else { GENEROUS };
    loop {
        let info = queue.info().await?;
        if info.waiting == waiting && info.taken == taken {
            return Ok(());
        }
        ensure!(Instant::now() < give_up, "{waiting} should wait and {taken} be taken: {info:?}");
        tokio::time::sleep(SHORT).await;
    }
}

/// That the taker is told that the ask is its no more, where the store knows.
fn is_told<S: Subject>(answer: Result<(), Fault>) -> Result<()> {
    match answer {
        Err(Fault::Denied(told)) if told.contains("is this taker's no more") => Ok(()),
        other => {
            ensure!(!S::EXACT, "{other:?}");
            Ok(())
        }
    }
}
