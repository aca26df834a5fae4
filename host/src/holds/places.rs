//! The two buckets, found when they are needed: a builder starts, and checks run, without them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::imports::{Role, denied};
use crate::store::{Bucket, Fault, Store};

/// The bucket of the plans that build, unless another is named. Other programs know it by this name.
pub const PLANS: &str = "mesh-controller_plans-building";

/// The bucket of the checks that run, unless another is named. Other programs know it by this name.
pub const RUNNING: &str = "mesh-controller_checks-running";

/// The ttl that both are made with: a plan whose controller stopped, and the key of a builder that stopped,
/// are gone after it.
pub const TTL: Duration = Duration::from_secs(120);

/// The names of the two buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Of the plans that build.
    pub plans: String,
    /// Of the checks that run, with the let-through key.
    pub running: String,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { plans: PLANS.into(), running: RUNNING.into() }
    }
}

pub(super) struct Places {
    store: Arc<dyn Store>,
    names: Buckets,
    plans: OnceCell<Arc<dyn Bucket>>,
    running: OnceCell<Arc<dyn Bucket>>,
}

impl Places {
    pub(super) fn new(store: &Arc<dyn Store>, names: &Buckets) -> Arc<Self> {
        let (store, names) = (store.clone(), names.clone());
        Arc::new(Self { store, names, plans: OnceCell::new(), running: OnceCell::new() })
    }

    /// The bucket of this role. One that is missing is looked for again at the next call.
    pub(super) async fn bucket(&self, role: Role) -> Result<&Arc<dyn Bucket>, Fault> {
        let (found, name) = match role {
            Role::Plans => (&self.plans, &self.names.plans),
            Role::Running => (&self.running, &self.names.running),
            Role::Lease => return Err(denied("for the bucket of the leases")),
        };
        let found = found.get_or_try_init(|| self.store.bucket(name)).await;
        found.map_err(|fault| match fault {
            // Its remedy ends with the command, which would make one with the ttl of a lease.
            Fault::MissingBucket(text) => Fault::MissingBucket(format!("{text} --ttl {}s", TTL.as_secs())),
            fault => fault,
        })
    }

    /// How long a key of this bucket lives unless written again, read fresh.
    pub(super) async fn ttl(&self, role: Role) -> Result<Duration, Fault> {
        let bucket = self.bucket(role).await?;
        let ttl = bucket.info().await?.ttl;
        if ttl.is_zero() {
            return Err(Fault::Denied(format!(
                "the bucket {} keeps its keys for ever, so what a program that died left there would hold for \
                 ever; give it a ttl",
                bucket.name()
            )));
        }
        Ok(ttl)
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Places({:?} of {:?})", self.names, self.store)
    }
}
