//! One instance's line to the store, and what befalls the operations on it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use tokio::time::{Instant, sleep, sleep_until};

use super::Mishap;
use super::ground::{BUCKET, Ground, Op, Writer};
use super::oracle::Oracle;
use super::weather::Weather;
use crate::store::queue::{Queue, QueueConfig};
use crate::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write};

/// Of the purges, which are few, so many in a thousand meet each of their mishaps.
const PURGES_PER_MILLE: u32 = 250;

/// The line.
pub(super) struct Line {
    ground: Arc<Ground>,
    oracle: Arc<Oracle>,
    weather: Arc<Weather>,
    instance: usize,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    /// Whether operations meet their mishaps.
    stormy: bool,
    is_cut: bool,
    /// Requests arrive, answers do not.
    is_cut_one_way: bool,
    asleep_until: Option<Instant>,
    /// How often it died.
    life: u64,
}

impl Line {
    pub(super) fn new(
        ground: Arc<Ground>,
        oracle: Arc<Oracle>,
        weather: Arc<Weather>,
        instance: usize,
        rng: Rng,
    ) -> Self {
        let state =
            State { rng, stormy: false, is_cut: false, is_cut_one_way: false, asleep_until: None, life: 0 };
        Self { ground, oracle, weather, instance, state: Mutex::new(state) }
    }

    /// Until the instance is awake: everything that it does waits for that. What died does nothing any more.
    pub(super) async fn awake(&self, life: u64) {
        loop {
            let (until, lives) = {
                let state = self.state();
                (state.asleep_until, state.life)
            };
            if lives != life {
                return std::future::pending().await;
            }
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Which of its lives this is.
    pub(super) fn life(&self) -> u64 {
        self.state().life
    }

    pub(super) fn dies(&self) {
        self.state().life += 1;
    }

    pub(super) fn sleeps_for(&self, time: Duration) {
        self.state().asleep_until = Some(Instant::now() + time);
    }

    pub(super) fn cut(&self, is_cut: bool, one_way: bool) {
        let mut state = self.state();
        if one_way { state.is_cut_one_way = is_cut } else { state.is_cut = is_cut }
    }

    /// Operations meet their mishaps from now on, or nothing befalls the line any more.
    pub(super) fn set_stormy(&self, stormy: bool) {
        let mut state = self.state();
        state.stormy = stormy;
        if !stormy {
            (state.is_cut, state.is_cut_one_way, state.asleep_until) = (false, false, None);
        }
    }

    /// How long one waits for an answer.
    fn bound(&self) -> Duration {
        self.weather.ttl / 5
    }

    /// The way to the store, or back.
    async fn way(&self) {
        let longest = u64::try_from(self.weather.latency.as_millis()).unwrap_or(0);
        if longest == 0 {
            tokio::task::yield_now().await;
        } else {
            let way = self.state().rng.u64(..=longest);
            sleep(Duration::from_millis(way)).await;
        }
    }

    /// Which of these befalls the operation.
    fn befalls(&self, candidates: &[Mishap], per_mille: u32) -> Option<Mishap> {
        let mut state = self.state();
        if !state.stormy {
            return None;
        }
        let mut of = candidates.iter().copied().filter(|mishap| self.weather.has(*mishap));
        let met = of.find(|_| state.rng.u32(..1000) < per_mille)?;
        drop(state);
        self.oracle.mishap(met, Some(self.instance));
        Some(met)
    }

    async fn unanswered(&self, life: u64) {
        sleep(self.bound()).await;
        self.awake(life).await;
    }

    async fn read<T>(&self, life: u64, look: impl Fn(Option<usize>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.awake(life).await;
        let met = self.befalls(
            &[Mishap::ReadLost, Mishap::ReadStale, Mishap::Busy, Mishap::Slow],
            self.weather.per_mille,
        );
        let (cut, one_way) = self.is_cut();
        if cut || one_way || met == Some(Mishap::ReadLost) {
            self.unanswered(life).await;
            return Err(Fault::Unavailable("no answer to a read".into()));
        }
        self.way().await;
        let answer = match met {
            Some(Mishap::Busy) => Err(Fault::Unavailable("the store is busy".into())),
            Some(Mishap::ReadStale) => {
                let back = self.state().rng.usize(..);
                look(Some(back))
            }
            _ => look(None),
        };
        if met == Some(Mishap::Slow) {
            sleep(self.bound() * 9 / 10).await;
        }
        self.way().await;
        self.awake(life).await;
        answer
    }

    async fn write(&self, life: u64, op: Op, by: Writer) -> Result<Write, Fault> {
        self.awake(life).await;
        let of_kind = op.mishaps();
        let per_mille = if matches!(op, Op::Purge(_)) { PURGES_PER_MILLE } else { self.weather.per_mille };
        let own: Vec<Mishap> = of_kind.into_iter().flatten().collect();
        let met = self
            .befalls(&own, per_mille)
            .or_else(|| self.befalls(&[Mishap::Busy, Mishap::Denied, Mishap::Slow], self.weather.per_mille));
        let unknown = || Err(Fault::Unknown(format!("no answer to a {}", op.words())));
        let [unsent, unheard, late, repeated] = of_kind.map(|of| of.is_some() && of == met);
        let (cut, one_way) = self.is_cut();
        if cut || unsent {
            self.unanswered(life).await;
            return unknown();
        }
        if late {
            self.later(op.clone(), by);
            self.unanswered(life).await;
            return unknown();
        }
        self.way().await;
        let answer = match met {
            Some(Mishap::Busy) => Err(Fault::Unavailable("the store is busy".into())),
            Some(Mishap::Denied) => Err(Fault::Denied("not allowed at the moment".into())),
            _ => self.ground.apply(&op, by),
        };
        // What was surely refused is not sent again.
        if repeated && answer.is_ok() {
            self.later(op.clone(), by);
        }
        if one_way || unheard {
            self.unanswered(life).await;
            return unknown();
        }
        if met == Some(Mishap::Slow) {
            sleep(self.bound() * 9 / 10).await;
        }
        self.way().await;
        self.awake(life).await;
        answer
    }

    /// It arrives when nobody waits for it any more, up to two ttls later, also when its sender is dead.
    fn later(&self, op: Op, by: Writer) {
        let longest = u64::try_from((self.weather.ttl * 2).as_millis()).unwrap_or(0);
        let delay = self.bound() + Duration::from_millis(self.state().rng.u64(..=longest));
        let ground = self.ground.clone();
        tokio::spawn(async move {
            sleep(delay).await;
            // Whatever comes of it, nobody hears it.
            let _ = ground.apply(&op, by);
        });
    }

    fn is_cut(&self) -> (bool, bool) {
        let state = self.state();
        (state.is_cut, state.is_cut_one_way)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store as one lease object reaches it.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) line: Arc<Line>,
    pub(super) by: Writer,
    /// The life of the instance that it belongs to.
    pub(super) life: u64,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?})", self.by)
    }
}

#[async_trait]
impl Store for Wire {
    async fn bucket(&self, _name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        Ok(Arc::new(self.clone()))
    }

    async fn create_bucket(&self, name: &str, _: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        self.bucket(name).await
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        Err(Fault::MissingBucket(format!("there is no queue {name:?} in a simulation")))
    }

    async fn create_queue(&self, name: &str, _: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        self.queue(name).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        false
    }
}

#[async_trait]
impl Bucket for Wire {
    fn name(&self) -> &str {
        BUCKET
    }

    async fn get(&self, _key: &str) -> Result<Reading, Fault> {
        let ground = &self.line.ground;
        let look = |back: Option<usize>| match back.and_then(|back| ground.read_past(back)) {
            Some(past) => Ok(past),
            None => ground.read(),
        };
        self.line.read(self.life, look).await
    }

    async fn create(&self, _key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.line.write(self.life, Op::Create(value.to_vec(), None), self.by).await
    }

    async fn create_over(&self, _key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        self.line.write(self.life, Op::Create(value.to_vec(), Some(marker)), self.by).await
    }

    async fn update(&self, _key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        self.line.write(self.life, Op::Update(value.to_vec(), expected), self.by).await
    }

    async fn delete(&self, _key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        self.line.write(self.life, Op::Delete(expected, meant_for), self.by).await
    }

    async fn keys(&self, _after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        self.line.read(self.life, |_| self.line.ground.keys(most)).await
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        self.line.read(self.life, |_| self.line.ground.info()).await
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        self.line.read(self.life, |_| self.line.ground.last_revision()).await
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        match self.line.write(self.life, Op::Purge(revision), self.by).await? {
            Write::Written(went) => Ok(went),
            Write::Stale(_) => Ok(0),
        }
    }

    async fn watch(&self, _key: &str) -> Result<Box<dyn Watch>, Fault> {
        self.line.awake(self.life).await;
        let met =
            self.line.befalls(&[Mishap::WatchDeaf, Mishap::WatchEnded], self.line.weather.per_mille * 4);
        let (cut, one_way) = self.line.is_cut();
        match met {
            Some(Mishap::WatchEnded) => Ok(Box::new(Ended)),
            Some(_) => Ok(Box::new(Deaf)),
            None if cut || one_way => Ok(Box::new(Deaf)),
            None => self.line.ground.watch(),
        }
    }
}

/// A watch that hears nothing.
struct Deaf;

#[async_trait]
impl Watch for Deaf {
    async fn changed(&mut self) -> bool {
        std::future::pending().await
    }
}

/// A watch that ended as it began.
struct Ended;

#[async_trait]
impl Watch for Ended {
    async fn changed(&mut self) -> bool {
        false
    }
}
