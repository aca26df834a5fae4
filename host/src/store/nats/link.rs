//! One request and its answer, or why there is none.
//!
//! The client's own key-value calls are not used: they read from replicas, remember a bucket's settings
//! from when it was opened, know one of the two codes of a lost race, answer "exists" for one's own write
//! whose answer was lost, and turn a forbidden subject into a time-out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::response::Response;
use async_nats::{
    Client, ClientError, Event, HeaderMap, Message, Request, RequestErrorKind, ServerError, StatusCode,
};
use futures_util::StreamExt as _;
use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::connect::OLDEST_SERVER;

/// What the server says about a request, when it is not its answer.
pub(super) type Refusal = async_nats::jetstream::Error;

/// A connection, and what was heard on it beside the answers.
pub(super) struct Link {
    client: Client,
    ear: Arc<Ear>,
    timeout: Duration,
    servers: String,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It was not sent.
    Down(String),
    /// The server does not let this user send it.
    Forbidden(String),
    /// Nobody serves the subject, so nobody has the request.
    NobodyThere,
    /// It is larger than the server takes; it was not sent.
    TooLarge(String),
    /// It may have been sent, or may be yet: what is queued or already in the kernel cannot be recalled.
    Silence(String),
}

impl Link {
    pub(super) fn new(client: Client, ear: Arc<Ear>, timeout: Duration, servers: String) -> Self {
        Self { client, ear, timeout, servers }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The servers as the user named them, without passwords.
    pub(super) fn servers(&self) -> &str {
        &self.servers
    }

    /// When a call that begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The version of the server at the other end now, or why it is not talked to.
    pub(super) fn server_version(&self) -> Result<Version, String> {
        let said = self.client.server_info().version;
        match Version::parse(said.trim_start_matches('v')) {
            Ok(version) if version >= OLDEST_SERVER => Ok(version),
            _ => Err(format!(
                "the NATS server at {} has version {said:?}; {OLDEST_SERVER} or newer is needed, older ones \
                 lose streams or let two writers win",
                self.servers
            )),
        }
    }

    /// Ask JetStream's own interface, `$JS.API.…`.
    pub(super) async fn api<V: DeserializeOwned>(
        &self,
        call: &str,
        body: &impl Serialize,
        deadline: Instant,
    ) -> Result<Result<V, Refusal>, Trouble> {
        let payload = serde_json::to_vec(body).map_err(|error| Trouble::Down(error.to_string()))?;
        let answer = self.ask(&format!("$JS.API.{call}"), None, payload, deadline).await?;
        read_answer(&answer)
    }

    /// Send a request and wait for its answer until `deadline`.
    pub(super) async fn ask(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Vec<u8>,
        deadline: Instant,
    ) -> Result<Message, Trouble> {
        // Listening begins before the request is sent, so that no event about it is missed.
        let mut events = self.events();
        let connection = self.ready()?;
        let mut request = Request::new().payload(payload.into()).timeout(None);
        request.headers = headers;
        tokio::select! {
            biased;
            answer = tokio::time::timeout_at(deadline, self.client.send_request(subject.to_owned(), request)) => {
                match answer {
                    Ok(Ok(answer)) => Ok(answer),
                    Ok(Err(error)) => Err(match error.kind() {
                        RequestErrorKind::NoResponders => Trouble::NobodyThere,
                        RequestErrorKind::MaxPayloadExceeded => Trouble::TooLarge(error.to_string()),
                        RequestErrorKind::InvalidSubject => Trouble::Down(error.to_string()),
                        _ => Trouble::Silence(error.to_string()),
                    }),
                    Err(_) => Err(Trouble::Silence(format!("no answer within {:?}", self.timeout))),
                }
            }
            trouble = self.disturbed(&mut events, subject, connection) => Err(trouble),
        }
    }

    /// As [`ask`](Self::ask), by a subscription of its own: what a consumer gives comes under the subject that
    /// it was published on, by which the client's shared inbox cannot tell whose it is.
    pub(super) async fn ask_alone(
        &self,
        subject: &str,
        payload: Vec<u8>,
        deadline: Instant,
    ) -> Result<Message, Trouble> {
        let mut events = self.events();
        let connection = self.ready()?;
        let answered = async {
            let down = |error: &dyn std::fmt::Display| Trouble::Down(error.to_string());
            let inbox = self.client.new_inbox();
            let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|error| down(&error))?;
            let sent = self.client.publish_with_reply(subject.to_owned(), inbox, payload.into()).await;
            sent.map_err(|error| down(&error))?;
            match answers.next().await {
                Some(answer) if answer.status == Some(StatusCode::NO_RESPONDERS) => Err(Trouble::NobodyThere),
                Some(answer) => Ok(answer),
                None => Err(Trouble::Silence("the client was closed".into())),
            }
        };
        tokio::select! {
            biased;
            answer = tokio::time::timeout_at(deadline, answered) => {
                answer.unwrap_or_else(|_| Err(Trouble::Silence(format!("no answer within {:?}", self.timeout))))
            }
            trouble = self.disturbed(&mut events, subject, connection) => Err(trouble),
        }
    }

    /// Refuses to send while there is no connection: what is queued then is sent on the next one, long after
    /// the caller was told that it failed. Answers the number of the connection.
    pub(super) fn ready(&self) -> Result<u64, Trouble> {
        let connection = self.connection();
        if self.client.connection_state() != State::Connected {
            let why = self.ear.known().down.clone().map_or_else(String::new, |why| format!(" ({why})"));
            return Err(Trouble::Down(format!("not connected to {}{why}", self.servers)));
        }
        // Looked at each time: after a reconnect it may be another server.
        self.server_version().map_err(Trouble::Forbidden)?;
        if let Some(violation) = self.ear.known().inbox_refused.clone() {
            return Err(Trouble::Forbidden(violation));
        }
        Ok(connection)
    }

    /// The number of the connection, the same until it is lost.
    pub(super) fn connection(&self) -> u64 {
        self.client.statistics().connects.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Until something is heard that means the request on `subject` will not be answered. A violation, and
    /// the end of the connection, come as events only; without them the caller would wait for nothing.
    async fn disturbed(&self, events: &mut Events, subject: &str, connection: u64) -> Trouble {
        loop {
            match self.heard(events, connection).await {
                Heard::Forbidden(text) if is_about(&text, subject) => return Trouble::Forbidden(text),
                Heard::Forbidden(_) => {}
                Heard::Lost => {
                    return Trouble::Silence(format!("the connection to {} was lost", self.servers));
                }
            }
        }
    }

    /// What is heard from now on.
    pub(super) fn events(&self) -> Events {
        self.ear.wake.subscribe()
    }

    /// Until a violation is heard, or until the connection of this number has ended.
    pub(super) async fn heard(&self, events: &mut Events, connection: u64) -> Heard {
        loop {
            let event = events.recv().await;
            if let Ok(Some(violation)) = event {
                return Heard::Forbidden(violation.to_string());
            }
            // Events can be lost and come late, so they only say when to look.
            if self.client.connection_state() != State::Connected || self.connection() != connection {
                return Heard::Lost;
            }
            if let Err(broadcast::error::RecvError::Closed) = event {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("servers", &self.servers).field("timeout", &self.timeout).finish()
    }
}

/// An answer of JetStream: what was asked for, or a refusal.
pub(super) fn read_answer<V: DeserializeOwned>(answer: &Message) -> Result<Result<V, Refusal>, Trouble> {
    match serde_json::from_slice(&answer.payload) {
        Ok(Response::Ok(value)) => Ok(Ok(value)),
        Ok(Response::Err { error }) => Ok(Err(error)),
        Err(error) => Err(Trouble::Silence(format!("the answer cannot be read: {error}"))),
    }
}

/// Whether a violation is about this subject, or about the inbox that every answer comes to.
fn is_about(violation: &str, subject: &str) -> bool {
    is_about_inbox(violation) || violation.contains(&format!("\"{subject}\""))
}

fn is_about_inbox(violation: &str) -> bool {
    violation.contains("Subscription to \"_INBOX.")
}

/// The events of one listener: the text of a violation, or `None` for "the connection changed".
pub(super) type Events = broadcast::Receiver<Option<Arc<str>>>;

/// What a listener learns from its [`Events`].
pub(super) enum Heard {
    /// The server refused a subject; its words.
    Forbidden(String),
    /// The connection has ended.
    Lost,
}

/// Takes what the client reports beside the answers, and wakes whoever waits for one.
#[derive(Debug)]
pub(super) struct Ear {
    wake: broadcast::Sender<Option<Arc<str>>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Why there is no connection.
    down: Option<String>,
    /// The violation of the subscription that all answers come to. It is said once a connection.
    inbox_refused: Option<String>,
}

impl Ear {
    pub(super) fn new() -> Arc<Self> {
        // Violations are rare; a listener that misses one waits out its time instead.
        let (wake, _) = broadcast::channel(64);
        Arc::new(Self { wake, known: Mutex::default() })
    }

    pub(super) fn hear(&self, event: Event) {
        let mut known = self.known();
        let violation = match event {
            Event::Connected => {
                *known = Known::default();
                None
            }
            Event::Disconnected => None,
            Event::ClientError(ClientError::Other(why)) => {
                known.down = Some(why);
                return;
            }
            Event::ServerError(ServerError::Other(text)) if text.starts_with("Permissions Violation") => {
                if is_about_inbox(&text) {
                    known.inbox_refused = Some(text.clone());
                }
                Some(text.into())
            }
            Event::ServerError(error) => {
                known.down = Some(error.to_string());
                return;
            }
            _ => return,
        };
        drop(known);
        // Nobody may be waiting.
        let _ = self.wake.send(violation);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
