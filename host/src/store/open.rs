//! A store from its URL: `sqlite:PATH`, `nats://…` or `tls://…`, `memory:`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::store::memory::Memory;
use crate::store::nats::{Nats, NatsOptions};
use crate::store::sqlite::Sqlite;
use crate::store::{Fault, Store};

/// How long a call to a SQLite file may wait for other processes.
const SQLITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Which store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file that the processes of one machine share.
    Sqlite(PathBuf),
    /// NATS JetStream servers, with what the URL says of users.
    Nats(String),
    /// This process's memory: for a try.
    Memory,
}

/// A URL of no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no store; give sqlite:PATH, nats://HOST:PORT or memory:")]
pub struct NoStore(String);

impl FromStr for StoreUrl {
    type Err = NoStore;

    fn from_str(text: &str) -> Result<Self, NoStore> {
        let shown = || NoStore(text.chars().take(100).collect());
        if let Some(path) = text.strip_prefix("sqlite:") {
            // `sqlite:///path` is the same file as `sqlite:/path`.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(shown()) } else { Ok(Self::Sqlite(path.into())) };
        }
        if text.starts_with("nats://") || text.starts_with("tls://") {
            return Ok(Self::Nats(text.into()));
        }
        if text == "memory:" { Ok(Self::Memory) } else { Err(shown()) }
    }
}

/// Without what a URL says of users.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Two slashes in front are part of the URL, where it has them: not of this path then.
            Self::Sqlite(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "sqlite://{}", path.display())
            }
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Nats(servers) => {
                let (scheme, rest) = servers.split_once("://").unwrap_or(("nats", servers));
                write!(f, "{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts))
            }
            Self::Memory => f.write_str("memory:"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// How to be let into a store of servers.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// A credentials file.
    pub credentials: Option<PathBuf>,
    /// The certificates to trust, PEM.
    pub tls_root: Option<PathBuf>,
    /// One's own certificate and key, PEM.
    pub tls_identity: Option<(PathBuf, PathBuf)>,
}

/// Open a store.
///
/// # Errors
/// What the store said, with the file or the servers named.
pub async fn open(url: &StoreUrl, access: &Access, clock: &Clock) -> Result<Arc<dyn Store>, Fault> {
    Ok(match url {
        StoreUrl::Memory => Arc::new(Memory::new(clock.clone())),
        StoreUrl::Sqlite(path) => Arc::new(Sqlite::open(path, clock.clone(), SQLITE_TIMEOUT).await?),
        StoreUrl::Nats(servers) => Arc::new(open_nats(servers, access).await?),
    })
}

/// Connect to the servers of this URL.
///
/// # Errors
/// As [`Nats::connect`].
pub async fn open_nats(servers: &str, access: &Access) -> Result<Nats, Fault> {
    let mut options = NatsOptions::new(servers);
    options.credentials.clone_from(&access.credentials);
    options.tls_root.clone_from(&access.tls_root);
    options.tls_identity.clone_from(&access.tls_identity);
    Nats::connect(options).await
}
