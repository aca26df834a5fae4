//! A consumer of one's own that pushes what changes in a bucket, after what stands there where that is asked
//! for. Keys are listed and [watched](super::watching) through it.
//!
//! Its name and filter are in the subject that creates it, so that a permission can be given for one key:
//! `$JS.API.CONSUMER.CREATE.KV_bucket.*.$KV.bucket.key`. The client's own ordered consumer asks for the whole
//! bucket, and mends itself from the last revision it saw, which lies ahead in a bucket raised anew.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::errors::{Call, Doing, Place};
use super::link::{Events, Heard, Link};
use super::{Last, kind_of};
use crate::limits::KEYS;
use crate::store::{Fault, name};

/// Heartbeats missed in a row after which a consumer is taken for dead.
const MISSED: u32 = 3;

/// How long the server keeps a consumer that nobody listens to any more. It is not deleted by request, which
/// would take a permission more and would not come from a client that died.
const UNHEARD: Duration = Duration::from_secs(1);

/// What is listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// What stands there, and then what changes.
    Listing,
    /// What changes from now on: whoever watches looks once the watch has begun.
    Watching,
}

impl For {
    fn deliver_policy(self) -> &'static str {
        match self {
            Self::Listing => "last_per_subject",
            Self::Watching => "new",
        }
    }

    /// How often the server says that it is still there, and a lister thereby "that was all". It refuses less
    /// than 100 ms.
    fn heartbeat(self) -> Duration {
        match self {
            Self::Listing => Duration::from_millis(200),
            Self::Watching => Duration::from_secs(1),
        }
    }
}

pub(super) struct Listener {
    subscriber: Subscriber,
    events: Events,
    connection: u64,
    /// Messages received, by which a lost one is noticed.
    received: u64,
    last_sign: Instant,
    heartbeat: Duration,
}

pub(super) enum Sign {
    Message(Message),
    /// Nothing is waiting to be sent.
    Idle,
    /// Messages may have been lost.
    Broken,
}

impl Listener {
    /// Listen to what matches `filter`. Answers how much stands there that is to come first.
    pub(super) async fn begin(
        link: &Link,
        bucket: &str,
        filter: &str,
        what: For,
        call: &Call<'_>,
        deadline: Instant,
    ) -> Result<(Self, u64), Fault> {
        #[derive(Deserialize)]
        struct Created {
            #[serde(default)]
            num_pending: u64,
        }

        let events = link.events();
        let connection = link.ready().map_err(|trouble| call.unanswered(trouble))?;
        let inbox = link.client().new_inbox();
        let subscriber = tokio::time::timeout_at(deadline, link.client().subscribe(inbox.clone())).await;
        let subscriber = match subscriber {
            Ok(Ok(subscriber)) => subscriber,
            Ok(Err(error)) => return Err(Fault::Unavailable(format!("cannot {call}: {error}"))),
            Err(_) => return Err(Fault::Unavailable(format!("cannot {call}: no answer in time"))),
        };
        let (_, name) = inbox.rsplit_once('.').unwrap_or(("", &inbox));
        let stream = format!("KV_{bucket}");
        let body = json!({
            "stream_name": stream,
            "action": "create",
            "config": {
                "name": name,
                "deliver_subject": inbox,
                "deliver_policy": what.deliver_policy(),
                "filter_subject": filter,
                "ack_policy": "none",
                "max_deliver": 1,
                "headers_only": true,
                "idle_heartbeat": crate::clock::nanos(what.heartbeat()),
                "inactive_threshold": crate::clock::nanos(UNHEARD),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let create = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        match link.api::<Created>(&create, &body, deadline).await {
            Ok(Ok(created)) => {
                let last_sign = Instant::now();
                let heartbeat = what.heartbeat();
                let listener = Self { subscriber, events, connection, received: 0, last_sign, heartbeat };
                Ok((listener, created.num_pending))
            }
            Ok(Err(refusal)) => Err(call.refused(&refusal)),
            Err(trouble) => Err(super::bucket::unanswered(link, call, trouble, deadline).await),
        }
    }

    /// The next sign of life. Cancel-safe.
    pub(super) async fn next(&mut self, link: &Link) -> Sign {
        let silent_since = self.last_sign + self.heartbeat * MISSED;
        loop {
            let message = tokio::select! {
                biased;
                message = tokio::time::timeout_at(silent_since, self.subscriber.next()) => message,
                heard = link.heard(&mut self.events, self.connection) => match heard {
                    Heard::Lost => return Sign::Broken,
                    Heard::Forbidden(_) => continue,
                },
            };
            let Ok(Some(message)) = message else { return Sign::Broken };
            self.last_sign = Instant::now();
            if message.status != Some(StatusCode::IDLE_HEARTBEAT) {
                self.received += 1;
                return Sign::Message(message);
            }
            let sent = message.headers.as_ref().and_then(|headers| headers.get("Nats-Last-Consumer"));
            let sent: Option<u64> = sent.and_then(|sent| sent.as_str().parse().ok());
            return if sent.is_none_or(|sent| sent == self.received) { Sign::Idle } else { Sign::Broken };
        }
    }
}

/// The names of the keys that have a value, in byte order.
pub(super) async fn keys(link: &Link, bucket: &str, deadline: Instant) -> Result<Vec<String>, Fault> {
    let call =
        Call { doing: Doing::Read("list"), key: None, place: Place::Bucket(bucket), servers: link.servers() };
    let unavailable = |why: &str| Fault::Unavailable(format!("cannot {call}: {why}"));
    let prefix = format!("$KV.{bucket}.");
    let (mut listener, pending) =
        Listener::begin(link, bucket, &format!("{prefix}>"), For::Listing, &call, deadline).await?;
    let mut has_value = BTreeMap::new();
    let mut all = pending == 0;
    while !all {
        let sign = tokio::time::timeout_at(deadline, listener.next(link)).await;
        match sign.map_err(|_| unavailable("it was not all there in time"))? {
            Sign::Message(message) => {
                let token = message.subject.as_str().strip_prefix(&prefix).unwrap_or_default();
                let value = message.headers.as_ref().is_none_or(|headers| kind_of(headers) == Last::Value);
                // A key written while listing comes again; the later one counts.
                has_value.insert(token.to_owned(), value);
                all = still_to_come(message.reply.as_deref()) == Some(0);
            }
            // What aged out since the start is never sent, so the count alone does not end it.
            Sign::Idle => all = true,
            Sign::Broken => return Err(unavailable("the connection was lost on the way; try again")),
        }
        if has_value.len() > KEYS {
            return Err(Fault::TooLarge(format!(
                "cannot {call}: it holds more than {KEYS} keys, deleted ones included"
            )));
        }
    }
    // A token that no name encodes to was written by somebody else; it is shown as it stands.
    let named = |token: String| name::decode(&token).unwrap_or(token);
    let mut names: Vec<String> =
        has_value.into_iter().filter_map(|(token, value)| value.then(|| named(token))).collect();
    names.sort_unstable();
    Ok(names)
}

/// How many messages follow, from the subject that acknowledges a message. Its older form has nine tokens,
/// the newer one eleven and more.
fn still_to_come(ack: Option<&str>) -> Option<u64> {
    let tokens: Vec<&str> = ack?.strip_prefix("$JS.ACK.")?.split('.').collect();
    let pending = if tokens.len() < 9 { tokens.get(6) } else { tokens.get(8) };
    pending?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_acknowledging_subject_are_read() {
        let older = "$JS.ACK.KV_b.c.1.57.2.1700000000000000000.3";
        let newer = "$JS.ACK._.hash.KV_b.c.1.57.2.1700000000000000000.3.random";
        assert_eq!(still_to_come(Some(older)), Some(3));
        assert_eq!(still_to_come(Some(newer)), Some(3));
        assert_eq!(still_to_come(Some("$JS.ACK.KV_b")), None);
        assert_eq!(still_to_come(None), None);
    }
}
