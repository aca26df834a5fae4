//! From what the server or the connection said to a [`Fault`]: above all, certain or unknown.

use std::fmt;

use async_nats::jetstream::ErrorCode;

use super::link::{Refusal, Trouble};
use crate::store::Fault;

/// A lost race on a stream of one replica, and on a replicated one. Both are certain.
const LOST_RACE: [ErrorCode; 2] = [ErrorCode::STREAM_WRONG_LAST_SEQUENCE, ErrorCode(10164)];

/// The server is short of something, or has no leader just now. It stored nothing.
const SHORT_OF_SOMETHING: [ErrorCode; 10] = [
    ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ErrorCode::CLUSTER_NO_PEERS,
    ErrorCode::CLUSTER_NOT_ACTIVE,
    ErrorCode::CLUSTER_NOT_AVAILABLE,
    ErrorCode::CLUSTER_NOT_LEADER,
    ErrorCode::INSUFFICIENT_RESOURCES,
    ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    STORE_FAILED,
    ErrorCode(10118), // The stream is offline.
];

/// "maximum bytes exceeded", or "expected sequence does not match store" right after a purge.
pub(super) const STORE_FAILED: ErrorCode = ErrorCode::STREAM_STORE_FAILED;

/// What was being done and where, for the words of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) doing: Doing,
    pub(super) key: Option<&'a str>,
    pub(super) place: Place<'a>,
    pub(super) servers: &'a str,
}

/// Where it was being done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Bucket(&'a str),
    /// As the user names it: `STREAM/CONSUMER`, or one name for both.
    Queue(&'a str),
    /// A bucket of objects.
    Objects(&'a str),
}

impl Place<'_> {
    /// The stream behind it.
    pub(super) fn stream(self) -> String {
        match self {
            Self::Bucket(name) => format!("KV_{name}"),
            Self::Objects(name) => format!("OBJ_{name}"),
            Self::Queue(name) => name.split_once('/').map_or(name, |(stream, _)| stream).into(),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(name) => write!(f, "the bucket {name:?}"),
            Self::Queue(name) => write!(f, "the queue {name:?}"),
            Self::Objects(name) => write!(f, "the object bucket {name:?}"),
        }
    }
}

/// A write that is not answered may have been applied; a read changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    Read(&'static str),
    Write(&'static str),
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Doing::Read(what) | Doing::Write(what)) = self.doing;
        write!(f, "{what} ")?;
        if let Some(key) = self.key {
            write!(f, "{key:?} in ")?;
        }
        write!(f, "{} on {}", self.place, self.servers)
    }
}

impl Call<'_> {
    /// There is no answer. [`Trouble::NobodyThere`] is better told after a look at the stream.
    pub(super) fn unanswered(&self, trouble: Trouble) -> Fault {
        match trouble {
            Trouble::Down(why) => Fault::Unavailable(format!("cannot {self}: {why}")),
            Trouble::Forbidden(why) => Fault::Denied(format!(
                "not allowed to {self}: the server said {why}; have this user granted that subject"
            )),
            Trouble::NobodyThere => Fault::Unavailable(format!(
                "cannot {self}: no server answers for it just now, it may be choosing a leader; try again"
            )),
            Trouble::TooLarge(why) => Fault::TooLarge(format!("cannot {self}: {why}")),
            Trouble::Silence(why) => match self.doing {
                Doing::Read(_) => Fault::Unavailable(format!("cannot {self}: {why}")),
                Doing::Write(_) => Fault::Unknown(format!(
                    "no telling whether this was applied, or will be: {self}: {why}; look what stands there"
                )),
            },
        }
    }

    /// The server answered, with an error.
    pub(super) fn refused(&self, refusal: &Refusal) -> Fault {
        match refusal.error_code() {
            ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND => self.missing(),
            ErrorCode::JETSTREAM_NOT_ENABLED => self.jetstream_off(),
            ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => Fault::Denied(format!(
                "JetStream is not enabled for this account on {}; give the account \"jetstream: enabled\"",
                self.servers
            )),
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => {
                Fault::TooLarge(format!("cannot {self}: {refusal}; its own limit is lower"))
            }
            code if SHORT_OF_SOMETHING.contains(&code) || refusal.code() == 429 => {
                Fault::Unavailable(format!("cannot {self}: {refusal}"))
            }
            code if code == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED
                || (400..500).contains(&refusal.code()) =>
            {
                Fault::Denied(format!("the server refuses to {self}: {refusal}"))
            }
            // An error that is not known here says nothing of what it left behind.
            _ => self.unanswered(Trouble::Silence(refusal.to_string())),
        }
    }

    /// The bucket, or the queue, is not there.
    pub(super) fn missing(&self) -> Fault {
        let Self { place, servers, .. } = self;
        let remedy = match place {
            // Last, so that who knows which ttl fits may add it.
            Place::Bucket(name) => format!("create it: incumbent bucket create {name} --store {servers}"),
            Place::Queue(name) if name.contains('/') => {
                "create its stream and its consumer, or use a queue of incumbent queue create".into()
            }
            Place::Queue(name) => format!("create it: incumbent queue create {name} --store {servers}"),
            Place::Objects(_) => "publish a policy to it with incumbent policy publish --create".into(),
        };
        Fault::MissingBucket(format!("{place} does not exist on {servers}; {remedy}"))
    }

    /// The server runs without JetStream.
    pub(super) fn jetstream_off(&self) -> Fault {
        Fault::Denied(format!(
            "JetStream is off on {}; start nats-server with -js, or with \"jetstream {{}}\" in its \
             configuration",
            self.servers
        ))
    }
}

/// Whether the server said that another write came first.
pub(super) fn lost_race(refusal: &Refusal) -> bool {
    LOST_RACE.contains(&refusal.error_code())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
    use super::*;

    fn refusal(code: u64, err_code: u64) -> Refusal {
        let text = format!(r#"{{"code":{code},"err_code":{err_code},"description":"so it is"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn call(doing: Doing) -> Call<'static> {
        Call { doing, key: Some("controller"), place: Place::Bucket("leases"), servers: "nats://one:4222" }
    }

    #[test]
    fn both_codes_of_a_lost_race_are_known() {
        assert!(lost_race(&refusal(400, 10071)));
        assert!(lost_race(&refusal(400, 10164)));
        assert!(!lost_race(&refusal(503, 10077)));
    }

    #[test]
    fn a_full_store_surely_stored_nothing() {
        let fault = call(Doing::Write("update")).refused(&refusal(503, 10077));
        assert!(matches!(fault, Fault::Unavailable(_)), "{fault:?}");
    }

    #[test]
    fn an_error_nobody_knows_is_unknown_for_a_write_only() {
        let (write, read) = (call(Doing::Write("update")), call(Doing::Read("read")));
        assert!(matches!(write.refused(&refusal(500, 19999)), Fault::Unknown(_)));
        assert!(matches!(read.refused(&refusal(500, 19999)), Fault::Unavailable(_)));
        assert!(matches!(write.refused(&refusal(400, 19999)), Fault::Denied(_)));
    }

    #[test]
    fn a_missing_bucket_comes_with_the_command_that_makes_it() {
        let fault = call(Doing::Read("read")).refused(&refusal(404, 10059));
        assert!(matches!(&fault, Fault::MissingBucket(text)
            if text.ends_with("incumbent bucket create leases --store nats://one:4222")));
    }
}
