//! A store for many machines: a bucket is a NATS JetStream key-value bucket.
//!
//! It is one that the `nats` command and every other client read: the stream `KV_<bucket>`, a key on
//! `$KV.<bucket>.<token>`, the token as in [`name`](super::name). What JetStream adds to the contract:
//!
//! * Writes carry the expected revision, all of them, because any write may be sent late: what is queued in
//!   the client, or already in the kernel, is applied when a frozen or restarted server wakes, long after the
//!   caller was told that it failed.
//! * A deletion names the stream that it is meant for, by its creation in nanoseconds since 1970, in the header
//!   `Incumbent-Meant-For`. Without it one is taken at its word when it was made at a revision, as other programs do.
//! * Ages are kept by the server's wall clock: never early by that clock, up to a second late.
//! * A server that is wiped, or loses power without `sync_interval: always`, forgets what it acknowledged.
//!
//! # Permissions
//!
//! | for | publish | subscribe |
//! |---|---|---|
//! | everything | `$JS.API.STREAM.INFO.KV_B` | `_INBOX.>` |
//! | reading | `$JS.API.STREAM.MSG.GET.KV_B` | |
//! | holding the key K | `$KV.B.K` | |
//! | watching the key K | `$JS.API.CONSUMER.CREATE.KV_B.*.$KV.B.K` | |
//! | watching many keys by one consumer | `$JS.API.CONSUMER.CREATE.KV_B.*.$KV.B.>` | |
//! | listing keys | `$JS.API.CONSUMER.CREATE.KV_B.*.$KV.B.>` | |
//! | raising the floor | `$JS.API.STREAM.PURGE.KV_B` | |
//! | making the bucket | `$JS.API.STREAM.CREATE.KV_B` | |
//! | looking at the queue of stream S and consumer C | `$JS.API.CONSUMER.INFO.S.C`, `$JS.API.STREAM.MSG.GET.S` | |
//! | taking from it | `$JS.API.CONSUMER.MSG.NEXT.S.C`, `$JS.ACK.S.C.>` | |
//! | putting into it | its subject: `incumbent.queue.S` where it was made here | |
//! | making it | `$JS.API.STREAM.CREATE.S`, `$JS.API.CONSUMER.CREATE.S.S` | |
//! | following a policy in the object bucket B | `$JS.API.STREAM.MSG.GET.OBJ_B` | |
//! | publishing one | that, `$O.B.>`, `$JS.API.STREAM.INFO.OBJ_B`, `$JS.API.STREAM.PURGE.OBJ_B` | |
//! | making that bucket | `$JS.API.STREAM.CREATE.OBJ_B` | |
//!
//! The watches of a bucket share one consumer of the first key watched and one of the whole bucket. Where the
//! latter is not granted, which is asked for once a connection, each further key has a consumer of its own.

mod bucket;
mod connect;
mod errors;
mod link;
mod listen;
mod objects;
mod queue;
mod watching;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, StorageType};
use async_trait::async_trait;
use semver::Version;

use self::bucket::NatsBucket;
pub use self::connect::{NatsOptions, OLDEST_SERVER, TIMEOUT};
use self::errors::{Call, Doing, Place};
use self::link::Link;
pub(crate) use self::objects::{Content, Object, Objects, Put};
use self::queue::NatsQueue;
use self::watching::Watching;
use super::queue::{Queue, QueueConfig, check_queue};
use super::{Bucket, BucketConfig, Fault, Store, check_config};
use crate::limits::TTL_SHORTEST;

/// The first server that leaves a marker where a key aged out.
const MARKERS_SINCE: Version = Version::new(2, 11, 0);

/// Servers take no shorter life of a marker than this, and count it in whole seconds.
const MARKER_SHORTEST: Duration = Duration::from_secs(1);

/// A connection to NATS.
#[derive(Debug)]
pub struct Nats {
    link: Arc<Link>,
    warned_of_memory: AtomicBool,
    /// By bucket; each lives as long as a handle or a watch of its bucket.
    watching: Mutex<HashMap<String, Weak<Watching>>>,
}

impl Nats {
    /// Connect. A connection that is lost later comes back by itself; calls made without one are
    /// [`Fault::Unavailable`].
    ///
    /// # Errors
    /// [`Fault::Denied`] for an address that cannot be read, wrong credentials or a server older than
    /// [`OLDEST_SERVER`]; [`Fault::Unavailable`] when no server answers.
    pub async fn connect(options: NatsOptions) -> Result<Self, Fault> {
        let link = connect::connect(&options).await?;
        Ok(Self {
            link: Arc::new(link),
            warned_of_memory: AtomicBool::new(false),
            watching: Mutex::default(),
        })
    }

    /// What the handles of this bucket watch by, together.
    fn watching(&self, bucket: &str) -> Arc<Watching> {
        let mut all = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = all.get(bucket).and_then(Weak::upgrade) {
            return there;
        }
        all.retain(|_, watching| watching.strong_count() > 0);
        let new = Arc::new(Watching::new(Arc::clone(&self.link), bucket));
        all.insert(bucket.into(), Arc::downgrade(&new));
        new
    }

    /// The objects of this bucket, which is not looked up yet.
    pub(crate) fn objects(&self, bucket: &str) -> Result<Objects, Fault> {
        Objects::new(&self.link, bucket)
    }

    fn opened(&self, name: &str, info: &Info) -> Result<Arc<dyn Bucket>, Fault> {
        let config = &info.config;
        let own_subject = format!("$KV.{name}.>");
        if config.mirror.is_some() || !config.subjects.contains(&own_subject) {
            return Err(Fault::Denied(format!(
                "the stream KV_{name} on {} is no bucket that can be written: it does not take {own_subject} \
                 itself; use the bucket that it mirrors",
                self.link.servers()
            )));
        }
        if config.storage == StorageType::Memory
            && config.num_replicas == 1
            && !self.warned_of_memory.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                bucket = name,
                "kept in one server's memory: gone, with every lease, when it restarts"
            );
        }
        Ok(Arc::new(NatsBucket::new(Arc::clone(&self.link), name, self.watching(name))))
    }
}

#[async_trait]
impl Store for Nats {
    async fn bucket(&self, name: &str) -> Result<Arc<dyn Bucket>, Fault> {
        // Its name is part of a subject; the settings given here always fit.
        check_config(name, &BucketConfig { ttl: TTL_SHORTEST, replicas: 1 })?;
        let call = Call {
            doing: Doing::Read("open"),
            key: None,
            place: Place::Bucket(name),
            servers: self.link.servers(),
        };
        let info = bucket::stream(&self.link, &call, self.link.deadline()).await?;
        self.opened(name, &info)
    }

    async fn create_bucket(&self, name: &str, config: &BucketConfig) -> Result<Arc<dyn Bucket>, Fault> {
        check_config(name, config)?;
        let deadline = self.link.deadline();
        let call = Call {
            doing: Doing::Write("create"),
            key: None,
            place: Place::Bucket(name),
            servers: self.link.servers(),
        };
        let markers = self.link.server_version().map_err(Fault::Denied)? >= MARKERS_SINCE;
        let wanted = stream_config(name, config, markers);
        let info = bucket::make_stream(&self.link, &call, &wanted, deadline).await?;
        let (ttl, replicas) = (info.config.max_age, info.config.num_replicas);
        if ttl != config.ttl || replicas != config.replicas {
            return Err(Fault::Denied(format!(
                "the bucket {name:?} on {} has a ttl of {ttl:?} and {replicas} replicas; {:?} and {} were asked \
                 for; use it as it is, or another name",
                self.link.servers(),
                config.ttl,
                config.replicas
            )));
        }
        self.opened(name, &info)
    }

    async fn queue(&self, name: &str) -> Result<Arc<dyn Queue>, Fault> {
        Ok(Arc::new(NatsQueue::open(Arc::clone(&self.link), name).await?))
    }

    async fn create_queue(&self, name: &str, config: &QueueConfig) -> Result<Arc<dyn Queue>, Fault> {
        check_queue(name, config)?;
        Ok(Arc::new(NatsQueue::create(Arc::clone(&self.link), name, config).await?))
    }

    /// A NATS server can be wiped, and by default syncs to its disk every two minutes.
    fn keeps_what_it_acknowledged(&self) -> bool {
        false
    }
}

/// The stream of a key-value bucket, as every NATS client makes it.
fn stream_config(name: &str, config: &BucketConfig, markers: bool) -> Config {
    Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages: -1,
        max_bytes: -1,
        max_message_size: -1,
        max_messages_per_subject: 1,
        max_age: config.ttl,
        // The server wants it no longer than the age.
        duplicate_window: config.ttl.min(Duration::from_secs(120)),
        storage: StorageType::File,
        num_replicas: config.replicas,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        allow_message_ttl: markers,
        // As long as the key lived, so that whoever looks again within a ttl learns that it aged out.
        subject_delete_marker_ttl: markers.then(|| whole_seconds(config.ttl).max(MARKER_SHORTEST)),
        ..Config::default()
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

/// The header of a write that is conditional on the last revision of its key.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// The header of a deletion that says by its `created` which bucket it is meant for: one that comes late, into a bucket
/// raised again, leaves a message there whatever its conditions say.
const MEANT_FOR: &str = "Incumbent-Meant-For";

/// What a key's last message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Value,
    Deleted {
        meant_for: Option<u64>,
    },
    Aged,
    /// Purged by somebody for a reason of their own, or deleted whatever stood there.
    Erased,
}

fn kind_of(headers: &HeaderMap) -> Last {
    let header = |name: &str| headers.get(name).map(|value| value.as_str());
    match (header("KV-Operation"), header("Nats-Marker-Reason")) {
        // A deletion at a revision, which the server keeps, is of one who knew whose record it was: another program's
        // release.
        (Some("DEL"), _) => match (header(MEANT_FOR).map(str::parse), header(EXPECTED)) {
            (Some(Ok(created)), _) => Last::Deleted { meant_for: Some(created) },
            (None, Some(_)) => Last::Deleted { meant_for: None },
            _ => Last::Erased,
        },
        (_, Some("MaxAge")) => Last::Aged,
        (Some("PURGE"), _) | (_, Some("Purge" | "Remove")) => Last::Erased,
        _ => Last::Value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_stays_exact_and_a_marker_counts_whole_seconds() {
        let config = |ttl| stream_config("b", &BucketConfig { ttl, replicas: 1 }, true);
        let odd = config(Duration::from_millis(999));
        assert_eq!(odd.max_age, Duration::from_millis(999));
        assert_eq!(odd.duplicate_window, Duration::from_millis(999));
        assert_eq!(odd.subject_delete_marker_ttl, Some(Duration::from_secs(1)));
        let longer = config(Duration::from_millis(15_001));
        assert_eq!(longer.subject_delete_marker_ttl, Some(Duration::from_secs(16)));
    }

    #[test]
    fn markers_are_told_apart() {
        let kind = |pairs: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, *value);
            }
            kind_of(&headers)
        };
        assert_eq!(kind(&[]), Last::Value);
        assert_eq!(kind(&[("KV-Operation", "DEL")]), Last::Erased);
        assert_eq!(kind(&[("KV-Operation", "DEL"), (EXPECTED, "57")]), Last::Deleted { meant_for: None });
        let named = |bucket| kind(&[("KV-Operation", "DEL"), (MEANT_FOR, bucket)]);
        assert_eq!(named("57"), Last::Deleted { meant_for: Some(57) });
        assert_eq!(named("this one"), Last::Erased);
        assert_eq!(kind(&[("KV-Operation", "PURGE")]), Last::Erased);
        assert_eq!(kind(&[("KV-Operation", "PURGE"), ("Nats-Marker-Reason", "MaxAge")]), Last::Aged);
        assert_eq!(kind(&[("Nats-Marker-Reason", "MaxAge")]), Last::Aged);
        assert_eq!(kind(&[("Nats-Marker-Reason", "Remove")]), Last::Erased);
    }
}
