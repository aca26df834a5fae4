//! One bucket: reads by its leader, writes by compare-and-set.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::HeaderMap;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, Info, PurgeResponse, RawMessage};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::errors::{self, Call, Doing, Place};
use super::link::{self, Link, Trouble};
use super::watching::Watching;
use super::{EXPECTED, Last, MEANT_FOR, kind_of, listen};
use crate::limits::VALUE_BYTES;
use crate::store::{
    Bucket, BucketInfo, Entry, Fault, Reading, Watch, Write, check_key, check_purge, check_value, name,
};

/// Revisions remembered as those of a value. A miss costs one more read.
const VALUES_REMEMBERED: usize = 1024;

#[derive(Debug)]
pub(super) struct NatsBucket {
    link: Arc<Link>,
    name: String,
    /// Revisions at which a value stands or stood. The server lets a marker be updated at its revision like
    /// any value; what a revision holds never changes, so one that was a value still is.
    values: Mutex<VecDeque<u64>>,
    watching: Arc<Watching>,
}

/// What a key's last message is, markers told apart.
enum Stands {
    Value(Entry),
    Marker(Last, u64),
    Nothing,
}

enum Cas {
    Won(u64),
    Lost,
}

impl NatsBucket {
    pub(super) fn new(link: Arc<Link>, name: &str, watching: Arc<Watching>) -> Self {
        Self { link, name: name.into(), values: Mutex::default(), watching }
    }

    fn call<'a>(&'a self, doing: Doing, key: Option<&'a str>) -> Call<'a> {
        Call { doing, key, place: Place::Bucket(&self.name), servers: self.link.servers() }
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{}", self.name, name::encode(key))
    }

    /// The last message of a key, asked of the stream's leader: a replica's may be older, and even the leader's
    /// proves nothing.
    async fn look(&self, key: &str, deadline: Instant) -> Result<Stands, Fault> {
        let call = self.call(Doing::Read("read"), Some(key));
        let asked = json!({ "last_by_subj": self.subject(key) });
        let Some(message) = message(&self.link, &call, &asked, deadline).await? else {
            return Ok(Stands::Nothing);
        };
        let revision = message.sequence;
        match kind_of(&message.headers) {
            Last::Value if message.payload.len() > VALUE_BYTES => Err(Fault::TooLarge(format!(
                "cannot {call}: its value has {} bytes; the limit is {VALUE_BYTES}",
                message.payload.len()
            ))),
            Last::Value => {
                if !self.remembers(revision) {
                    self.remember(revision);
                }
                Ok(Stands::Value(Entry { revision, value: message.payload.into() }))
            }
            marker => Ok(Stands::Marker(marker, revision)),
        }
    }

    /// Publish on the key's subject, if its last revision is still the expected one.
    async fn cas(
        &self,
        call: &Call<'_>,
        key: &str,
        mut headers: HeaderMap,
        value: &[u8],
        expected: u64,
        deadline: Instant,
    ) -> Result<Cas, Fault> {
        headers.insert(EXPECTED, expected.to_string());
        let subject = self.subject(key);
        let mut tried = false;
        loop {
            let answer = self.link.ask(&subject, Some(headers.clone()), value.to_vec(), deadline).await;
            match answer.and_then(|answer| link::read_answer::<PublishAck>(&answer)) {
                Ok(Ok(ack)) => return Ok(Cas::Won(ack.sequence)),
                Ok(Err(refusal)) if errors::lost_race(&refusal) => return Ok(Cas::Lost),
                // A replicated stream says so once after a purge; it stored nothing.
                Ok(Err(refusal)) if refusal.error_code() == errors::STORE_FAILED && !tried => tried = true,
                Ok(Err(refusal)) => return Err(call.refused(&refusal)),
                Err(trouble) => return Err(unanswered(&self.link, call, trouble, deadline).await),
            }
        }
    }

    /// Update or delete, which need a value at the expected revision.
    async fn replace(
        &self,
        call: &Call<'_>,
        key: &str,
        headers: HeaderMap,
        value: &[u8],
        expected: u64,
    ) -> Result<Write, Fault> {
        // Revision zero is the server's way to say "no message", and would create.
        if expected == 0 {
            return Ok(Write::Stale(None));
        }
        let deadline = self.link.deadline();
        if !self.remembers(expected) {
            match self.look(key, deadline).await {
                Ok(Stands::Marker(_, revision)) if revision == expected => return Ok(Write::Stale(None)),
                // Any other reading may be stale, so it is left to the server.
                Ok(_) | Err(Fault::TooLarge(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        match self.cas(call, key, headers, value, expected, deadline).await? {
            Cas::Won(revision) => Ok(Write::Written(revision)),
            Cas::Lost => Ok(Write::Stale(None)),
        }
    }

    /// The bucket as it is now, by its creation.
    async fn created(&self, key: &str, deadline: Instant) -> Result<u64, Fault> {
        let call = self.call(Doing::Read("read"), Some(key));
        Ok(created(&stream(&self.link, &call, deadline).await?))
    }

    fn remember(&self, revision: u64) {
        let mut values = self.values();
        if values.len() == VALUES_REMEMBERED {
            values.pop_front();
        }
        values.push_back(revision);
    }

    fn remembers(&self, revision: u64) -> bool {
        self.values().iter().rev().any(|&value| value == revision)
    }

    fn values(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Bucket for NatsBucket {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, key: &str) -> Result<Reading, Fault> {
        check_key(key)?;
        let deadline = self.link.deadline();
        Ok(match self.look(key, deadline).await? {
            Stands::Value(entry) => Reading::Found(entry),
            // The server let it pass, as it knows of no such condition: so it is told from a meant one here.
            Stands::Marker(Last::Deleted { meant_for: Some(meant_for) }, revision)
                if self.created(key, deadline).await? != meant_for =>
            {
                Reading::Erased(revision)
            }
            Stands::Marker(Last::Deleted { .. }, revision) => Reading::Deleted(revision),
            Stands::Marker(Last::Aged, revision) => Reading::Aged(revision),
            Stands::Marker(Last::Erased, revision) => Reading::Erased(revision),
            Stands::Marker(Last::Value, _) | Stands::Nothing => Reading::Absent,
        })
    }

    async fn create(&self, key: &str, value: &[u8]) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        let deadline = self.link.deadline();
        let call = self.call(Doing::Write("create"), Some(key));
        let mut expected = 0;
        for last_try in [false, true] {
            match self.cas(&call, key, HeaderMap::new(), value, expected, deadline).await? {
                Cas::Won(revision) => {
                    self.remember(revision);
                    return Ok(Write::Written(revision));
                }
                Cas::Lost if last_try => break,
                // The key had a message. Under a marker it is free, at the marker's revision.
                Cas::Lost => match self.look(key, deadline).await? {
                    Stands::Value(entry) => return Ok(Write::Stale(Some(entry))),
                    Stands::Marker(_, revision) => expected = revision,
                    Stands::Nothing => {}
                },
            }
        }
        Ok(Write::Stale(None))
    }

    async fn create_over(&self, key: &str, value: &[u8], marker: u64) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        let call = self.call(Doing::Write("create"), Some(key));
        match self.cas(&call, key, HeaderMap::new(), value, marker, self.link.deadline()).await? {
            Cas::Won(revision) => {
                self.remember(revision);
                Ok(Write::Written(revision))
            }
            Cas::Lost => Ok(Write::Stale(None)),
        }
    }

    async fn update(&self, key: &str, value: &[u8], expected: u64) -> Result<Write, Fault> {
        check_key(key)?;
        check_value(key, value)?;
        let call = self.call(Doing::Write("update"), Some(key));
        let write = self.replace(&call, key, HeaderMap::new(), value, expected).await?;
        if let Write::Written(revision) = write {
            self.remember(revision);
        }
        Ok(write)
    }

    async fn delete(&self, key: &str, expected: u64, meant_for: Option<u64>) -> Result<Write, Fault> {
        check_key(key)?;
        let call = self.call(Doing::Write("delete"), Some(key));
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        if let Some(created) = meant_for {
            headers.insert(MEANT_FOR, created.to_string());
        }
        self.replace(&call, key, headers, &[], expected).await
    }

    async fn keys(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, Fault> {
        let all = listen::keys(&self.link, &self.name, self.link.deadline()).await?;
        let asked = all.into_iter().filter(|key| after.is_none_or(|after| key.as_str() > after));
        Ok(asked.take(most).collect())
    }

    async fn info(&self) -> Result<BucketInfo, Fault> {
        let call = self.call(Doing::Read("read the state of"), None);
        let info = stream(&self.link, &call, self.link.deadline()).await?;
        Ok(BucketInfo {
            created: created(&info),
            ttl: info.config.max_age,
            markers: info.config.subject_delete_marker_ttl.is_some_and(|ttl| !ttl.is_zero()),
        })
    }

    async fn last_revision(&self) -> Result<u64, Fault> {
        let call = self.call(Doing::Read("read the last revision of"), None);
        Ok(stream(&self.link, &call, self.link.deadline()).await?.state.last_sequence)
    }

    async fn purge_below(&self, revision: u64) -> Result<u64, Fault> {
        check_purge(&self.name, revision)?;
        let call = self.call(Doing::Write("purge"), None);
        let deadline = self.link.deadline();
        let ask = format!("STREAM.PURGE.KV_{}", self.name);
        match self.link.api::<PurgeResponse>(&ask, &json!({ "seq": revision }), deadline).await {
            Ok(Ok(answer)) => Ok(answer.purged),
            Ok(Err(refusal)) => Err(call.refused(&refusal)),
            Err(trouble) => Err(unanswered(&self.link, &call, trouble, deadline).await),
        }
    }

    async fn watch(&self, key: &str) -> Result<Box<dyn Watch>, Fault> {
        check_key(key)?;
        self.watching.watch(key, self.subject(key)).await
    }
}

/// A message of the stream, asked of its leader; `None` when there is no such one.
pub(super) async fn message(
    link: &Link,
    call: &Call<'_>,
    asked: &Value,
    deadline: Instant,
) -> Result<Option<StreamMessage>, Fault> {
    #[derive(Deserialize)]
    struct Got {
        message: RawMessage,
    }

    let got = match link.api::<Got>(&format!("STREAM.MSG.GET.{}", call.place.stream()), asked, deadline).await
    {
        Ok(Ok(got)) => got,
        Ok(Err(refusal)) if refusal.error_code() == ErrorCode::NO_MESSAGE_FOUND => return Ok(None),
        Ok(Err(refusal)) => return Err(call.refused(&refusal)),
        Err(trouble) => return Err(unanswered(link, call, trouble, deadline).await),
    };
    let message = got.message.try_into().map_err(|error| {
        Fault::Unavailable(format!("cannot {call}: what stands there is no message: {error}"))
    })?;
    Ok(Some(message))
}

/// The stream, made; or as it is where it is there with settings that differ somewhere. Those that matter are
/// compared by the caller.
pub(super) async fn make_stream(
    link: &Link,
    call: &Call<'_>,
    wanted: &Config,
    deadline: Instant,
) -> Result<Info, Fault> {
    match link.api(&format!("STREAM.CREATE.{}", call.place.stream()), wanted, deadline).await {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(refusal)) if refusal.error_code() == ErrorCode::STREAM_NAME_EXIST => {
            stream(link, &Call { doing: Doing::Read("open"), ..*call }, deadline).await
        }
        Ok(Err(refusal)) => Err(call.refused(&refusal)),
        Err(trouble) => Err(api_unanswered(link, call, trouble)),
    }
}

/// Tells this bucket from one of the same name raised again, nanoseconds since 1970.
fn created(info: &Info) -> u64 {
    u64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(0)
}

/// The bucket's stream as it is now.
pub(super) async fn stream(link: &Link, call: &Call<'_>, deadline: Instant) -> Result<Info, Fault> {
    match link.api(&format!("STREAM.INFO.{}", call.place.stream()), &json!({}), deadline).await {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(refusal)) => Err(call.refused(&refusal)),
        Err(trouble) => Err(api_unanswered(link, call, trouble)),
    }
}

/// The fault of a request on `$JS.API.>` without an answer: every server that has JetStream serves that.
pub(super) fn api_unanswered(link: &Link, call: &Call<'_>, trouble: Trouble) -> Fault {
    match trouble {
        Trouble::NobodyThere if !link.client().server_info().jetstream => call.jetstream_off(),
        trouble => call.unanswered(trouble),
    }
}

/// The fault of a request without an answer. Where nobody serves its subject, the stream is looked up: it may
/// be gone, or without a leader for a moment.
pub(super) async fn unanswered(link: &Link, call: &Call<'_>, trouble: Trouble, deadline: Instant) -> Fault {
    if !matches!(trouble, Trouble::NobodyThere) {
        return call.unanswered(trouble);
    }
    // Nothing was applied, so the look is a read whatever the call was.
    let look = Call { doing: Doing::Read("find"), ..*call };
    match stream(link, &look, deadline).await {
        Err(fault @ (Fault::MissingBucket(_) | Fault::Denied(_))) => fault,
        _ => call.unanswered(Trouble::NobodyThere),
    }
}
