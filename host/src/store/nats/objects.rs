//! Objects, as every NATS client's object store keeps them: the stream `OBJ_<bucket>`, an object's pieces on
//! `$O.<bucket>.C.<its mark>`, and on `$O.<bucket>.M.<its name in base64>` what it is.
//!
//! Plain requests to the stream's leader, as for keys: no consumer, so little to permit, and nothing that has
//! to be mended after a restart. An object is replaced by compare-and-set, which the client's own `put` is not.

mod object;

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, PurgeResponse, StorageType};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde::Deserialize;
use serde_json::json;

pub(crate) use self::object::{Content, Object, Put};
use self::object::{digest_of, mark};
use super::bucket::{api_unanswered, make_stream, message, unanswered};
use super::errors::{self, Call, Doing, Place};
use super::link::{self, Link};
use crate::store::{BucketConfig, Fault, check_config};

/// One piece, bytes: what the other clients use.
const PIECE: usize = 128 << 10;

/// Pieces of one object that is read. At the others' size that is far above what may be read anyway.
const PIECES: usize = 1024;

/// The objects of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    link: Arc<Link>,
    bucket: String,
}

impl Objects {
    /// The objects of this bucket, which is not looked up yet.
    pub(super) fn new(link: &Arc<Link>, bucket: &str) -> Result<Self, Fault> {
        // Its name is part of a subject; the settings given here always fit.
        check_config(bucket, &BucketConfig { ttl: crate::limits::TTL_SHORTEST, replicas: 1 })?;
        Ok(Self { link: Arc::clone(link), bucket: bucket.into() })
    }

    /// Make the bucket. One that is there is left as it is.
    pub(crate) async fn create(&self, replicas: usize) -> Result<(), Fault> {
        let wanted = Config {
            name: self.stream(),
            subjects: vec![format!("$O.{}.C.>", self.bucket), format!("$O.{}.M.>", self.bucket)],
            max_messages: -1,
            max_bytes: -1,
            max_message_size: -1,
            storage: StorageType::File,
            num_replicas: replicas,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            allow_direct: true,
            ..Config::default()
        };
        let call = self.call(Doing::Write("create"), None);
        let _: Info = make_stream(&self.link, &call, &wanted, self.link.deadline()).await?;
        Ok(())
    }

    /// What stands under this name now, deleted ones too.
    pub(crate) async fn look(&self, name: &str) -> Result<Option<Object>, Fault> {
        let call = self.call(Doing::Read("read"), Some(name));
        let asked = json!({ "last_by_subj": self.subject(name) });
        let Some(message) = message(&self.link, &call, &asked, self.link.deadline()).await? else {
            return Ok(None);
        };
        let read = serde_json::from_slice(&message.payload);
        let object: Object =
            read.map_err(|why| Fault::Denied(format!("cannot {call}: it is no object: {why}")))?;
        Ok(Some(Object { revision: message.sequence, ..object }))
    }

    /// Its bytes. The caller has seen that its size is one to be read.
    pub(crate) async fn read(&self, object: &Object) -> Result<Content, Fault> {
        let call = self.call(Doing::Read("read"), Some(&object.name));
        let damaged = |why: &str| Ok(Content::Damaged(why.into()));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if object.nuid.is_empty() || !object.nuid.chars().all(plain) {
            return damaged("it names no pieces; a link to another object is not followed");
        }
        if object.chunks > PIECES {
            return damaged("it is in too many pieces; write it again with larger ones");
        }
        let subject = self.pieces(&object.nuid);
        let mut bytes = Vec::new();
        let mut next = 1;
        for _ in 0..object.chunks {
            let asked = json!({ "seq": next, "next_by_subj": subject });
            let Some(piece) = message(&self.link, &call, &asked, self.link.deadline()).await? else {
                return Ok(Content::Replaced);
            };
            next = piece.sequence + 1;
            bytes.extend_from_slice(&piece.payload);
            if bytes.len() > object.size {
                return damaged("it has more bytes than it says");
            }
        }
        if bytes.len() != object.size {
            return damaged("it has fewer bytes than it says");
        }
        if object.digest.as_deref() != Some(&digest_of(&bytes)) {
            return damaged("its bytes do not have the digest that it says");
        }
        Ok(Content::Whole(bytes))
    }

    /// Write an object where its last revision, zero for none, is still this one. The pieces of what it replaces
    /// are removed.
    pub(crate) async fn put(
        &self,
        name: &str,
        bytes: &[u8],
        metadata: HashMap<String, String>,
        replaces: Option<&Object>,
    ) -> Result<Put, Fault> {
        let call = self.call(Doing::Write("write"), Some(name));
        let object = Object {
            name: name.into(),
            bucket: self.bucket.clone(),
            nuid: mark()?,
            size: bytes.len(),
            chunks: bytes.len().div_ceil(PIECE),
            mtime: Some(humantime::format_rfc3339_nanos(std::time::SystemTime::now()).to_string()),
            digest: Some(digest_of(bytes)),
            deleted: false,
            metadata,
            revision: 0,
        };
        let written = self.put_all(&call, &object, bytes, replaces.map_or(0, |old| old.revision)).await;
        match &written {
            Ok(Put::Written) => {
                if let Some(old) = replaces {
                    self.forget_pieces(old).await;
                }
            }
            // What it is may be in the stream for all that is known; its pieces then have to stay.
            Err(Fault::Unknown(_)) => {}
            Ok(Put::Lost) | Err(_) => self.forget_pieces(&object).await,
        }
        written
    }

    async fn put_all(
        &self,
        call: &Call<'_>,
        object: &Object,
        bytes: &[u8],
        expected: u64,
    ) -> Result<Put, Fault> {
        for piece in bytes.chunks(PIECE) {
            // Without the last message a piece is nothing: whether it came or not need not be known.
            self.say(call, &self.pieces(&object.nuid), None, piece.to_vec()).await?;
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "sub");
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        let text =
            serde_json::to_vec(object).map_err(|why| Fault::Denied(format!("cannot {call}: {why}")))?;
        match self.say(call, &self.subject(&object.name), Some(headers), text).await {
            Ok(Some(_)) => Ok(Put::Written),
            Ok(None) => Ok(Put::Lost),
            // The answer was lost: look once.
            Err(Fault::Unknown(why)) => match self.look(&object.name).await {
                Ok(Some(found)) if found.nuid == object.nuid => Ok(Put::Written),
                _ => Err(Fault::Unknown(why)),
            },
            Err(fault) => Err(fault),
        }
    }

    /// Publishes; answers at which revision, or `None` for a lost race.
    async fn say(
        &self,
        call: &Call<'_>,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Vec<u8>,
    ) -> Result<Option<u64>, Fault> {
        let deadline = self.link.deadline();
        let answer = self.link.ask(subject, headers, payload, deadline).await;
        match answer.and_then(|answer| link::read_answer::<PublishAck>(&answer)) {
            Ok(Ok(ack)) => Ok(Some(ack.sequence)),
            Ok(Err(refusal)) if errors::lost_race(&refusal) => Ok(None),
            Ok(Err(refusal)) => Err(call.refused(&refusal)),
            Err(trouble) => Err(unanswered(&self.link, call, trouble, deadline).await),
        }
    }

    /// The names of all objects, deleted ones too, in no order.
    pub(crate) async fn names(&self) -> Result<Vec<String>, Fault> {
        #[derive(Deserialize)]
        struct Answer {
            state: Subjects,
        }
        #[derive(Deserialize)]
        struct Subjects {
            #[serde(default)]
            subjects: HashMap<String, u64>,
        }

        let call = self.call(Doing::Read("list"), None);
        let prefix = format!("$O.{}.M.", self.bucket);
        let asked = json!({ "subjects_filter": format!("{prefix}>") });
        let ask = format!("STREAM.INFO.{}", self.stream());
        let subjects = match self.link.api::<Answer>(&ask, &asked, self.link.deadline()).await {
            Ok(Ok(answer)) => answer.state.subjects,
            Ok(Err(refusal)) => return Err(call.refused(&refusal)),
            Err(trouble) => return Err(api_unanswered(&self.link, &call, trouble)),
        };
        let names = subjects.keys().filter_map(|subject| {
            String::from_utf8(URL_SAFE.decode(subject.strip_prefix(&prefix)?).ok()?).ok()
        });
        Ok(names.collect())
    }

    /// Remove an object, as if it had never been.
    pub(crate) async fn remove(&self, object: &Object) -> Result<(), Fault> {
        self.purge(&self.subject(&object.name)).await?;
        self.purge(&self.pieces(&object.nuid)).await
    }

    /// Pieces that nothing speaks of take room and do no harm.
    async fn forget_pieces(&self, object: &Object) {
        if let Err(why) = self.purge(&self.pieces(&object.nuid)).await {
            tracing::debug!(bucket = self.bucket, %why, "pieces of an old object stay");
        }
    }

    async fn purge(&self, subject: &str) -> Result<(), Fault> {
        let call = self.call(Doing::Write("purge"), None);
        let ask = format!("STREAM.PURGE.{}", self.stream());
        match self.link.api::<PurgeResponse>(&ask, &json!({ "filter": subject }), self.link.deadline()).await
        {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(call.refused(&refusal)),
            Err(trouble) => Err(api_unanswered(&self.link, &call, trouble)),
        }
    }

    fn call<'a>(&'a self, doing: Doing, key: Option<&'a str>) -> Call<'a> {
        Call { doing, key, place: Place::Objects(&self.bucket), servers: self.link.servers() }
    }

    fn stream(&self) -> String {
        Place::Objects(&self.bucket).stream()
    }

    fn subject(&self, name: &str) -> String {
        format!("$O.{}.M.{}", self.bucket, URL_SAFE.encode(name))
    }

    fn pieces(&self, nuid: &str) -> String {
        format!("$O.{}.C.{nuid}", self.bucket)
    }
}
