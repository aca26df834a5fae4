//! A work queue on JetStream: a stream that keeps an ask until it is acknowledged, and a durable pull
//! consumer that gives each to one taker. One made elsewhere is named `STREAM/CONSUMER`.
//!
//! What the server does not tell is which of the asks taken before wait to be given again and which are being
//! worked on. So the oldest waiting is the first never taken; where there is none, now and then the first
//! that is not done: whoever tries to take it finds out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Message, StatusCode};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::bucket::{api_unanswered, make_stream, message};
use super::errors::{Call, Doing, Place};
use super::link::{self, Link, Trouble};
use crate::clock::nanos;
use crate::store::Fault;
use crate::store::queue::{Ask, Queue, QueueConfig, QueueInfo, Take, Taken, check_ask, take_to_the_end};

/// Where asks for a queue made here are published.
const SUBJECT: &str = "incumbent.queue";

/// How long one pull waits at the server. What still comes to one whose taker is gone is handed back.
const PULL_LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct NatsQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    /// As it is called by the user.
    name: String,
    stream: String,
    consumer: String,
    /// When the first ask that is not done was last offered as the oldest waiting.
    offered: Mutex<Option<Instant>>,
}

/// A consumer, as far as it matters here.
#[derive(Deserialize)]
struct Consumer {
    config: ConsumerConfig,
    delivered: Sequence,
    ack_floor: Sequence,
    num_ack_pending: u64,
    num_pending: u64,
}

#[derive(Deserialize)]
struct ConsumerConfig {
    ack_policy: AckPolicy,
    /// Nanoseconds.
    #[serde(default)]
    ack_wait: u64,
    #[serde(default)]
    deliver_subject: Option<String>,
    #[serde(default)]
    filter_subject: Option<String>,
    #[serde(default)]
    filter_subjects: Vec<String>,
}

#[derive(Deserialize)]
struct Sequence {
    #[serde(default)]
    stream_seq: u64,
}

impl ConsumerConfig {
    fn filters(&self) -> Vec<&str> {
        let one = self.filter_subject.iter();
        let filters: Vec<&str> = one
            .chain(&self.filter_subjects)
            .map(String::as_str)
            .filter(|filter| !filter.is_empty())
            .collect();
        if filters.is_empty() { vec![">"] } else { filters }
    }
}

impl NatsQueue {
    pub(super) async fn open(link: Arc<Link>, name: &str) -> Result<Self, Fault> {
        let queue = Self::named(link, name)?;
        queue.consumer(queue.0.link.deadline()).await?;
        Ok(queue)
    }

    pub(super) async fn create(link: Arc<Link>, name: &str, config: &QueueConfig) -> Result<Self, Fault> {
        let queue = Self::named(link, name)?;
        let deadline = queue.0.link.deadline();
        let replicas = queue.make_stream(config, deadline).await?;
        let ack_wait = Duration::from_nanos(queue.make_consumer(config, deadline).await?.config.ack_wait);
        if ack_wait != config.ack_wait || replicas != config.replicas {
            return Err(Fault::Denied(format!(
                "the queue {name:?} on {} has an ack wait of {ack_wait:?} and {replicas} replicas; {:?} and {} \
                 were asked for; use it as it is, or another name",
                queue.0.link.servers(),
                config.ack_wait,
                config.replicas
            )));
        }
        Ok(queue)
    }

    fn named(link: Arc<Link>, name: &str) -> Result<Self, Fault> {
        let (stream, consumer) = name.split_once('/').unwrap_or((name, name));
        let fits = |part: &str| {
            let refused =
                |c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '*' | '>' | '/' | '\\');
            !part.is_empty() && part.len() <= 200 && !part.contains(refused)
        };
        if !fits(stream) || !fits(consumer) {
            return Err(Fault::Denied(format!(
                "{:?} names no queue; give STREAM/CONSUMER, or one name for both, each of 1 to 200 bytes \
                 without spaces and . * > / \\",
                name.chars().take(200).collect::<String>()
            )));
        }
        Ok(Self(Arc::new(Shared {
            link,
            name: name.into(),
            stream: stream.into(),
            consumer: consumer.into(),
            offered: Mutex::default(),
        })))
    }

    fn call(&self, doing: Doing) -> Call<'_> {
        let Shared { link, name, .. } = &*self.0;
        Call { doing, key: None, place: Place::Queue(name), servers: link.servers() }
    }

    async fn make_stream(&self, config: &QueueConfig, deadline: Instant) -> Result<usize, Fault> {
        let Shared { link, stream: name, .. } = &*self.0;
        let call = self.call(Doing::Write("create"));
        let wanted = Config {
            name: name.clone(),
            subjects: vec![format!("{SUBJECT}.{name}")],
            max_messages: -1,
            max_bytes: -1,
            max_message_size: -1,
            max_messages_per_subject: -1,
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: config.replicas,
            discard: DiscardPolicy::New,
            allow_direct: true,
            ..Config::default()
        };
        let info = make_stream(link, &call, &wanted, deadline).await?;
        if info.config.retention != RetentionPolicy::WorkQueue {
            return Err(Fault::Denied(format!(
                "the stream {name} on {} is no work queue: it does not drop what was acknowledged; use another \
                 name",
                link.servers()
            )));
        }
        Ok(info.config.num_replicas)
    }

    async fn make_consumer(&self, config: &QueueConfig, deadline: Instant) -> Result<Consumer, Fault> {
        let Shared { link, stream, consumer, .. } = &*self.0;
        let call = self.call(Doing::Write("create"));
        let wanted = json!({
            "stream_name": stream,
            "action": "create",
            "config": {
                "name": consumer,
                "durable_name": consumer,
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": nanos(config.ack_wait),
                "max_deliver": -1,
                // As many takers as there may be, each with asks of its own.
                "max_ack_pending": -1,
            },
        });
        match link.api::<Consumer>(&format!("CONSUMER.CREATE.{stream}.{consumer}"), &wanted, deadline).await {
            Ok(Ok(made)) => Ok(made),
            // It is there with settings that differ somewhere; those that matter are compared by the caller.
            Ok(Err(refusal))
                if [ErrorCode::CONSUMER_ALREADY_EXISTS, ErrorCode::CONSUMER_NAME_EXIST]
                    .contains(&refusal.error_code()) =>
            {
                self.consumer(deadline).await
            }
            Ok(Err(refusal)) => Err(call.refused(&refusal)),
            Err(trouble) => Err(api_unanswered(link, &call, trouble)),
        }
    }

    /// The consumer as it is now.
    async fn consumer(&self, deadline: Instant) -> Result<Consumer, Fault> {
        let Shared { link, stream, consumer, .. } = &*self.0;
        let call = self.call(Doing::Read("open"));
        let found: Consumer =
            match link.api(&format!("CONSUMER.INFO.{stream}.{consumer}"), &json!({}), deadline).await {
                Ok(Ok(found)) => found,
                Ok(Err(refusal)) => return Err(call.refused(&refusal)),
                Err(trouble) => return Err(api_unanswered(link, &call, trouble)),
            };
        if found.config.deliver_subject.is_some() || found.config.ack_policy != AckPolicy::Explicit {
            return Err(Fault::Denied(format!(
                "the consumer {consumer} of the stream {stream} on {} gives no work: it must be a pull consumer \
                 with explicit acknowledgements",
                link.servers()
            )));
        }
        Ok(found)
    }

    /// The first ask from this sequence on, of those that the consumer gives. Asked of the stream's leader.
    async fn first_from(
        &self,
        consumer: &Consumer,
        sequence: u64,
        deadline: Instant,
    ) -> Result<Option<Ask>, Fault> {
        let link = &self.0.link;
        let call = self.call(Doing::Read("read the oldest ask of"));
        let mut first: Option<Ask> = None;
        for filter in consumer.config.filters() {
            let asked = json!({ "seq": sequence, "next_by_subj": filter });
            let Some(message) = message(link, &call, &asked, deadline).await? else { continue };
            if first.as_ref().is_none_or(|first| message.sequence < first.sequence) {
                first = Some(Ask {
                    sequence: message.sequence,
                    stored: since_1970(message.time.unix_timestamp_nanos()),
                    body: message.payload.into(),
                });
            }
        }
        Ok(first)
    }

    /// Whether to offer the first ask that is not done: once an ack wait.
    fn may_offer(&self, ack_wait: Duration) -> bool {
        let mut offered = self.0.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let due = offered.is_none_or(|last| last.elapsed() >= ack_wait);
        if due {
            *offered = Some(Instant::now());
        }
        due
    }

    async fn pull(self, within: Duration) -> Take {
        let Shared { link, stream, consumer, .. } = &*self.0;
        let call = self.call(Doing::Read("take from"));
        let body = if within.is_zero() {
            json!({ "batch": 1, "no_wait": true })
        } else {
            json!({ "batch": 1, "expires": nanos(within) })
        };
        // The server ends it first, so that nothing comes when nobody listens any more.
        let deadline = link.deadline() + within;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let payload = body.to_string().into_bytes();
        let message = match link.ask_alone(&subject, payload, deadline).await {
            Ok(message) => message,
            Err(Trouble::NobodyThere) => {
                // Either it is gone, which is then told, or it has no leader just now.
                self.consumer(deadline).await?;
                return Err(call.unanswered(Trouble::NobodyThere));
            }
            Err(trouble) => return Err(call.unanswered(trouble)),
        };
        match message.status {
            None => {}
            Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => return Ok(None),
            Some(status) => {
                let why = message.description.unwrap_or_default();
                return Err(Fault::Unavailable(format!("cannot {call}: {status} {why}")));
            }
        }
        let taken = NatsTaken::new(self.clone(), message)
            .map_err(|why| Fault::Unavailable(format!("cannot {call}: what came is no ask: {why}")))?;
        Ok(Some(Box::new(taken)))
    }
}

#[async_trait]
impl Queue for NatsQueue {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn put(&self, body: &[u8]) -> Result<u64, Fault> {
        check_ask(&self.0.name, body)?;
        let Shared { link, stream, .. } = &*self.0;
        let call = self.call(Doing::Write("put into"));
        let deadline = link.deadline();
        let subject = format!("{SUBJECT}.{stream}");
        match link.ask(&subject, None, body.to_vec(), deadline).await {
            Ok(answer) => match link::read_answer::<PublishAck>(&answer) {
                Ok(Ok(ack)) if ack.stream == *stream => Ok(ack.sequence),
                Ok(Ok(ack)) => Err(Fault::Unknown(format!(
                    "cannot {call}: the stream {} took it, which has the same subject {subject}",
                    ack.stream
                ))),
                Ok(Err(refusal)) => Err(call.refused(&refusal)),
                Err(trouble) => Err(call.unanswered(trouble)),
            },
            Err(Trouble::NobodyThere) => {
                let info = super::bucket::stream(link, &call, deadline).await?;
                if info.config.subjects.contains(&subject) {
                    return Err(call.unanswered(Trouble::NobodyThere));
                }
                Err(Fault::Denied(format!(
                    "the queue {} was made elsewhere; publish to {} yourself",
                    self.0.name,
                    info.config.subjects.join(" or ")
                )))
            }
            Err(trouble) => Err(call.unanswered(trouble)),
        }
    }

    async fn oldest_waiting(&self) -> Result<Option<Ask>, Fault> {
        let deadline = self.0.link.deadline();
        let consumer = self.consumer(deadline).await?;
        // Not by the count of those pending, which comes a moment after what was put.
        let never_taken = consumer.delivered.stream_seq.saturating_add(1);
        if let Some(ask) = self.first_from(&consumer, never_taken, deadline).await? {
            return Ok(Some(ask));
        }
        if consumer.num_ack_pending == 0 || !self.may_offer(Duration::from_nanos(consumer.config.ack_wait)) {
            return Ok(None);
        }
        self.first_from(&consumer, consumer.ack_floor.stream_seq.saturating_add(1), deadline).await
    }

    async fn take(&self, within: Duration) -> Take {
        let start = Instant::now();
        loop {
            let left = within.saturating_sub(start.elapsed());
            let taken = take_to_the_end(self.clone().pull(left.min(PULL_LONGEST))).await?;
            if taken.is_some() || left <= PULL_LONGEST {
                return Ok(taken);
            }
        }
    }

    async fn info(&self) -> Result<QueueInfo, Fault> {
        let found = self.consumer(self.0.link.deadline()).await?;
        Ok(QueueInfo {
            ack_wait: Duration::from_nanos(found.config.ack_wait),
            waiting: found.num_pending,
            taken: found.num_ack_pending,
        })
    }
}

#[derive(Debug)]
struct NatsTaken {
    queue: NatsQueue,
    ask: Ask,
    deliveries: u64,
    /// Where the server hears of it.
    ack: String,
}

impl NatsTaken {
    fn new(queue: NatsQueue, message: Message) -> Result<Self, async_nats::Error> {
        let context = jetstream::new(queue.0.link.client().clone());
        let message = jetstream::Message { message, context };
        let info = message.info()?;
        let (sequence, deliveries) = (info.stream_sequence, u64::try_from(info.delivered)?);
        let stored = since_1970(info.published.unix_timestamp_nanos());
        let ack = message.reply.as_ref().map(ToString::to_string).unwrap_or_default();
        let body = message.message.payload.into();
        Ok(Self { queue, ask: Ask { sequence, stored, body }, deliveries, ack })
    }

    /// Tell the server, and hear that it heard.
    async fn tell(&self, word: &str, what: &'static str) -> Result<(), Fault> {
        let link = &self.queue.0.link;
        let told = link.ask(&self.ack, None, word.into(), link.deadline()).await;
        told.map(drop).map_err(|trouble| self.queue.call(Doing::Write(what)).unanswered(trouble))
    }
}

#[async_trait]
impl Taken for NatsTaken {
    fn ask(&self) -> &Ask {
        &self.ask
    }

    fn deliveries(&self) -> u64 {
        self.deliveries
    }

    async fn working(&self) -> Result<(), Fault> {
        self.tell("+WPI", "keep an ask of").await
    }

    async fn done(&self) -> Result<(), Fault> {
        self.tell("+ACK", "acknowledge an ask of").await
    }

    async fn hand_back(&self, delay: Duration) -> Result<(), Fault> {
        let word = if delay.is_zero() {
            "-NAK".into()
        } else {
            format!("-NAK {}", json!({ "delay": nanos(delay) }))
        };
        self.tell(&word, "hand back an ask of").await
    }
}

fn since_1970(nanos: i128) -> Option<Duration> {
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}
