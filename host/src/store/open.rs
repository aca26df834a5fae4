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
        let no_store = || NoStore(without_users(text).chars().take(100).collect());
        let (scheme, rest) = text.split_once(':').ok_or_else(no_store)?;
        // A scheme is the same in capitals (RFC 3986, 3.1).
        let scheme = scheme.to_ascii_lowercase();
        match (scheme.as_str(), rest) {
            ("memory", "") => Ok(Self::Memory),
            // `sqlite:///path` is the same file as `sqlite:/path`.
            ("sqlite", path) => match path.strip_prefix("//").unwrap_or(path) {
                "" => Err(no_store()),
                path => Ok(Self::Sqlite(path.into())),
            },
            ("nats" | "tls", servers) if servers.starts_with("//") => {
                Ok(Self::Nats(format!("{scheme}:{servers}")))
            }
            _ => Err(no_store()),
        }
    }
}

/// What a URL says but for its users, who stand before the last `@` of the host's part.
fn without_users(url: &str) -> String {
    let Some((before, hosts)) = url.rsplit_once('@') else { return url.into() };
    before.split_once("://").map_or_else(|| hosts.into(), |(scheme, _)| format!("{scheme}://{hosts}"))
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
            Self::Nats(servers) => f.write_str(&without_users(servers)),
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
