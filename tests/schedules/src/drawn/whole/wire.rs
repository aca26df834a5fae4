//! One instance's line to the store: a call is on its way by itself, lands whether it is still waited for or not, late if
//! the line is cut, and its answer may be lost.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use incumbent::clock::Steady;
use incumbent::store::memory::Memory;
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::{Bucket, BucketConfig, BucketInfo, Fault, Reading, Store, Watch, Write};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{self, Rng as _};
use tokio::sync::oneshot;

use super::{Acting, VALIDITY, time};

/// Of so many answers to a write, one is lost.
const LOST: u32 = 6;

#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) store: Memory,
    /// The acts under way of whoever is at this end.
    pub(super) acting: Arc<Acting>,
    /// Until when it is cut, nanoseconds.
    pub(super) cut: Arc<AtomicU64>,
    /// Until when a record that landed lets whoever is at this end act, nanoseconds.
    pub(super) allowed: Arc<AtomicU64>,
}

/// A bucket at the end of it.
#[derive(Debug)]
struct Far {
    bucket: Arc<dyn Bucket>,
    wire: Wire,
}

impl Wire {
    pub(super) fn cut(&self, time: Duration) {
        self.cut.store(time::clock().now().plus(time).0, Ordering::Relaxed);
    }

    async fn on_its_way<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let cut = self.cut.clone();
        drop(spawn(async move {
            yield_now().await;
            let healed = Steady(cut.load(Ordering::Relaxed));
            time::sleep(healed.since(time::clock().now())).await;
            let said = call.await;
            yield_now().await;
            let _ = answer.send(said);
        }));
        answered.await.ok()
    }

    async fn read<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        let lost = || Err(Fault::Unavailable("it did not come back".into()));
        self.on_its_way(call).await.unwrap_or_else(lost)
    }

    async fn write(
        &self,
        call: impl Future<Output = Result<Write, Fault>> + Send + 'static,
    ) -> Result<Write, Fault> {
        match self.on_its_way(call).await {
            Some(answer) if !rand::thread_rng().gen_ratio(1, LOST) => answer,
            _ => Err(Fault::Unknown("the answer was lost".into())),
        }
    }

    /// A record: where it lands it lets one act, for as long as it is good for from its sending.
    async fn record(
        &self,
        call: impl Future<Output = Result<Write, Fault>> + Send + 'static,
    ) -> Result<Write, Fault> {
        let (until, allowed) = (time::clock().now().plus(VALIDITY).0, self.allowed.clone());
        self.write(async move {
            let answer = call.await;
            if matches!(answer, Ok(Write::Written(_))) {
                allowed.fetch_max(until, Ordering::Relaxed);
            }
            answer
        })
        .await
    }
}

#[async_trait]
impl Store for Wire {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        Ok(Arc::new(Far { bucket: self.store.bucket(name).await?, wire: self.clone() }))
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        self.store.create_bucket(name, config).await
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        self.store.queue(name).await
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        self.store.create_queue(name, config).await
    }

    fn keeps_what_it_acknowledged(&self) -> bool {
        self.store.keeps_what_it_acknowledged()
    }
}

#[async_trait]
impl Bucket for Far {
    fn name(&self) -> &str {
        self.bucket.name()
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        self.wire.read(async move { bucket.get(&key).await }).await
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        let (bucket, key, value) = (self.bucket.clone(), key.to_owned(), value.to_vec());
        self.wire.record(async move { bucket.create(&key, &value).await }).await
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        let (bucket, key, value) = (self.bucket.clone(), key.to_owned(), value.to_vec());
        self.wire.record(async move { bucket.create_over(&key, &value, marker).await }).await
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        let (bucket, key, value) = (self.bucket.clone(), key.to_owned(), value.to_vec());
        self.wire.record(async move { bucket.update(&key, &value, expected).await }).await
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        self.wire.acting.none("a record is given back");
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        self.wire.write(async move { bucket.delete(&key, expected, meant_for).await }).await
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        self.bucket.keys(after, most).await
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        let bucket = self.bucket.clone();
        self.wire.read(async move { bucket.info().await }).await
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        let bucket = self.bucket.clone();
        self.wire.read(async move { bucket.last_revision().await }).await
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        let bucket = self.bucket.clone();
        self.wire.read(async move { bucket.purge_below(revision).await }).await
    }

    async fn watch(&self, _: &str) -> Result<Box<dyn Watch>, Fault> {
        Err(Fault::Denied("nobody is told here; look again".into()))
    }
}
