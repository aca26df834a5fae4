//! How the connection is made: whose servers, as whom, how fast it comes back.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};
use semver::Version;

use super::link::{Ear, Link};
use crate::store::Fault;

/// The oldest server that is talked to. 2.10.20 to 2.10.22 lose whole streams when they are killed, and
/// 2.9 accepts two concurrent writes at one revision.
pub const OLDEST_SERVER: Version = Version::new(2, 10, 23);

/// How long a call may take unless said otherwise: with a lease of 15 s renewed every 5 s, three tries
/// fit before the gate shuts.
pub const TIMEOUT: Duration = Duration::from_millis(1500);

/// Two unanswered pings end a connection, so a silent peer is noticed within three of these. The
/// client's own default is a minute.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The longest wait between two tries to connect again.
const RECONNECT_SLOWEST: Duration = Duration::from_millis(250);

/// Server addresses in one URL. A cluster tells its other members by itself.
const SERVERS: usize = 16;

/// Messages that one subscription holds back. A bucket's keys are listed through one, so all of them fit.
const SUBSCRIPTION_CAPACITY: usize = crate::limits::KEYS + 1024;

/// Which servers, and how to be let in.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://[user:password@]host[:port][,host2[:port]…]`, or `tls://…`, which insists on TLS. A user
    /// without a password is a token.
    pub servers: String,
    /// A credentials file (a JWT and its key).
    pub credentials: Option<PathBuf>,
    /// The seed of an nkey.
    pub nkey_seed: Option<String>,
    /// A token, where it is not in the URL.
    pub token: Option<String>,
    /// The certificates to trust, in PEM, in place of the system's.
    pub tls_root: Option<PathBuf>,
    /// One's own certificate and its key, in PEM.
    pub tls_identity: Option<(PathBuf, PathBuf)>,
    /// How long a call may take, everything in it included.
    pub timeout: Duration,
    /// What the server's lists call this connection.
    pub name: String,
}

impl NatsOptions {
    /// These servers, with nothing else said.
    #[must_use]
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            credentials: None,
            nkey_seed: None,
            token: None,
            tls_root: None,
            tls_identity: None,
            timeout: TIMEOUT,
            name: "incumbent".into(),
        }
    }
}

// By hand, so that no password, token or seed ends up in a log.
impl std::fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers = Servers::parse(&self.servers).map_or_else(|_| "unreadable".into(), |s| s.shown);
        f.debug_struct("NatsOptions")
            .field("servers", &servers)
            .field("credentials", &self.credentials)
            .field("tls_root", &self.tls_root)
            .field("tls_identity", &self.tls_identity)
            .field("timeout", &self.timeout)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Connect, and refuse a server that is too old.
pub(super) async fn connect(options: &NatsOptions) -> Result<Link, Fault> {
    let servers = Servers::parse(&options.servers)?;
    let ear = Ear::new();
    let hears = Arc::clone(&ear);
    let settings = settings(options, &servers).await?.event_callback(move |event| {
        hears.hear(event);
        async {}
    });
    // Each address may use up its own time; the list is tried once.
    let attempts = u32::try_from(servers.addresses.len()).unwrap_or(u32::MAX);
    let bound = options.timeout.saturating_mul(attempts).saturating_add(options.timeout);
    let client = match tokio::time::timeout(bound, settings.connect(servers.addresses)).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return Err(not_connected(&servers.shown, &error)),
        Err(_) => {
            return Err(Fault::Unavailable(format!("{} did not answer within {bound:?}", servers.shown)));
        }
    };
    let link = Link::new(client, ear, options.timeout, servers.shown);
    link.server_version().map_err(Fault::Denied)?;
    Ok(link)
}

async fn settings(options: &NatsOptions, servers: &Servers) -> Result<ConnectOptions, Fault> {
    let mut settings = ConnectOptions::new()
        .name(&options.name)
        .connection_timeout(options.timeout)
        .request_timeout(Some(options.timeout))
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(reconnect_delay)
        .subscription_capacity(SUBSCRIPTION_CAPACITY);
    match (&servers.user, &servers.password) {
        (Some(user), Some(password)) => settings = settings.user_and_password(user.clone(), password.clone()),
        (Some(token), None) => settings = settings.token(token.clone()),
        _ => {}
    }
    if let Some(token) = &options.token {
        settings = settings.token(token.clone());
    }
    if let Some(seed) = &options.nkey_seed {
        settings = settings.nkey(seed.clone());
    }
    if let Some(path) = &options.credentials {
        settings = settings.credentials_file(path).await.map_err(|error| {
            Fault::Denied(format!("the credentials file {} cannot be used: {error}", path.display()))
        })?;
    }
    let identity = options.tls_identity.iter().flat_map(|(certificate, key)| [certificate, key]);
    for path in options.tls_root.iter().chain(identity) {
        // The client reads them at every connection, and its error names none.
        File::open(path).map_err(|error| {
            Fault::Denied(format!("the TLS file {} cannot be read: {error}", path.display()))
        })?;
    }
    if let Some(path) = &options.tls_root {
        settings = settings.add_root_certificates(path.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &options.tls_identity {
        settings = settings.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    Ok(settings)
}

/// At once, then 10, 20, 40 … 250 ms, less up to half: many clients of one server that went away come
/// back spread out. It goes on for ever; whether a lease still stands is not decided here.
fn reconnect_delay(attempt: usize) -> Duration {
    let Some(doublings) = attempt.checked_sub(2) else { return Duration::ZERO };
    let factor = 1_u32 << doublings.min(5);
    let longest = (Duration::from_millis(10) * factor).min(RECONNECT_SLOWEST);
    let less = getrandom::u32().unwrap_or(0) % 128;
    longest - longest * less / 256
}

fn not_connected(servers: &str, error: &ConnectError) -> Fault {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            Fault::Denied(format!(
                "{servers} does not let this user in ({error}); check the user and password in the URL, or the \
             credentials file"
            ))
        }
        _ => Fault::Unavailable(format!("{servers} cannot be reached: {error}")),
    }
}

/// A server list taken apart. The addresses and `shown` are without user and password: the client logs
/// addresses, and ignores a user that stands in one.
#[derive(Debug)]
struct Servers {
    addresses: Vec<ServerAddr>,
    user: Option<String>,
    password: Option<String>,
    shown: String,
}

impl Servers {
    fn parse(list: &str) -> Result<Self, Fault> {
        let refuse = |why: &str| {
            Fault::Denied(format!(
                "the NATS address {why}; write nats://[user:password@]host[:port][,host2…]"
            ))
        };
        let (scheme, rest) = list.split_once("://").unwrap_or(("nats", list));
        if scheme != "nats" && scheme != "tls" {
            return Err(refuse("begins with neither nats:// nor tls://"));
        }
        let mut servers = Self { addresses: Vec::new(), user: None, password: None, shown: String::new() };
        for (index, part) in rest.split(',').enumerate() {
            if index == SERVERS {
                return Err(refuse(&format!("lists more than {SERVERS} servers")));
            }
            let part = part.trim().trim_start_matches("nats://").trim_start_matches("tls://");
            let address: ServerAddr =
                format!("{scheme}://{part}").parse().map_err(|_| refuse("cannot be read"))?;
            if address.host().is_empty() {
                return Err(refuse("names no host"));
            }
            let path = address.clone().into_inner();
            if !matches!(path.path(), "" | "/") || path.query().is_some() || path.fragment().is_some() {
                return Err(refuse("has something after the port"));
            }
            if let (None, Some(user)) = (&servers.user, address.username()) {
                servers.user = Some(percent_decoded(user));
                servers.password = address.password().map(percent_decoded);
            }
            let host = address.host();
            let place = if host.contains(':') {
                format!("[{host}]:{}", address.port())
            } else {
                format!("{host}:{}", address.port())
            };
            servers.shown += &if index == 0 { format!("{scheme}://{place}") } else { format!(",{place}") };
            servers
                .addresses
                .push(format!("{scheme}://{place}").parse().map_err(|_| refuse("cannot be read"))?);
        }
        Ok(servers)
    }
}

/// A URL's user and password may hold `%40` for `@`.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match tail {
            [a, b, ..] if *first == b'%' => {
                std::str::from_utf8(&[*a, *b]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
    use super::*;

    #[test]
    fn a_password_is_used_and_never_shown() {
        let options = NatsOptions::new("nats://alice:s%40cret@one:4223,two,[::1]:4224");
        let servers = Servers::parse(&options.servers).unwrap();
        assert_eq!(servers.user.as_deref(), Some("alice"));
        assert_eq!(servers.password.as_deref(), Some("s@cret"));
        assert_eq!(servers.shown, "nats://one:4223,two:4222,[::1]:4224");
        assert_eq!(servers.addresses.len(), 3);
        assert!(!format!("{options:?} {servers:?}", servers = servers.addresses).contains("cret"));
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused() {
        for list in ["http://one", "nats://", "nats://one,", "nats://one/bucket", "nats://one:99999"] {
            let refused = Servers::parse(list).unwrap_err();
            assert!(matches!(&refused, Fault::Denied(text) if text.contains("nats://[user")), "{list}");
        }
        let many = format!("nats://{}", ["one"; SERVERS + 1].join(","));
        assert!(matches!(Servers::parse(&many), Err(Fault::Denied(_))));
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named() {
        let servers = Servers::parse("tls://one").unwrap();
        let with = |change: fn(&mut NatsOptions)| {
            let mut options = NatsOptions::new("tls://one");
            change(&mut options);
            options
        };
        for options in [
            with(|options| options.tls_root = Some("/nowhere/x.pem".into())),
            with(|options| options.tls_identity = Some(("/nowhere/x.pem".into(), "/nowhere/x.key".into()))),
            with(|options| options.credentials = Some("/nowhere/x.pem".into())),
        ] {
            let refused = settings(&options, &servers).await.unwrap_err();
            assert!(matches!(&refused, Fault::Denied(text) if text.contains("/nowhere/x.pem")), "{refused}");
        }
    }

    #[test]
    fn it_tries_again_at_once_and_then_ever_slower_up_to_a_bound() {
        assert_eq!(reconnect_delay(1), Duration::ZERO);
        for attempt in 2..100 {
            let delay = reconnect_delay(attempt);
            assert!(delay >= Duration::from_millis(5) && delay <= RECONNECT_SLOWEST, "{attempt}: {delay:?}");
        }
    }
}
