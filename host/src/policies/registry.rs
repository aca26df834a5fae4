//! The versions of one process's policy: offered, tried step by step, published, proven or rolled back.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use super::refused::Refused;
use super::shared::Shared;
use super::signature::PublicKey;
use super::source::Offer;
use super::state::{StateDir, StateError};
use crate::digest;
use crate::limits;
use crate::policy::{LoadError, Policy, Probation, Runtime, Trial, Version};

/// Told of every event, in order; must not block.
pub type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// How versions are taken.
#[derive(Clone)]
pub struct PoliciesOptions {
    /// Where the last proven version and the quarantine outlive the process. Default: nowhere.
    pub state: Option<StateDir>,
    /// The key that versions must be signed by. Default: none, and signatures are not looked at. What was proven before
    /// is not asked for one again.
    pub key: Option<PublicKey>,
    /// What proves a version. Default: 20 clean calls and a minute.
    pub probation: Probation,
    /// For how long a version may rehearse. Default: [`REHEARSAL`](limits::REHEARSAL).
    pub rehearsal: Duration,
    /// Told of every event, in order; must not block. Default: a line in the log.
    pub on_event: OnEvent,
}

impl Default for PoliciesOptions {
    fn default() -> Self {
        Self {
            state: None,
            key: None,
            probation: Probation::default(),
            rehearsal: limits::REHEARSAL,
            on_event: Arc::new(|event| match event {
                Event::Published { .. } | Event::Proven { .. } => tracing::info!("{event}"),
                Event::RolledBack { .. } => tracing::error!("{event}"),
                _ => tracing::warn!("{event}"),
            }),
        }
    }
}

/// For who follows a source.
impl Policies {
    /// A source that cannot be read.
    pub(super) fn unreadable(&self, why: &str) {
        self.shared.tell(&Event::Unreadable { why: why.into() });
    }

    /// The digests in quarantine; `None` when that cannot be read now.
    pub(super) async fn quarantine(&self) -> Option<BTreeSet<String>> {
        self.shared.quarantine().await.ok()
    }

    /// Roll back the version that serves, when an operator put it into quarantine.
    pub(super) async fn leave_quarantined(&self, quarantine: &BTreeSet<String>) -> Result<(), RollBackError> {
        let serving = self.shared.policy.version();
        if !quarantine.contains(serving.digest()) {
            return Ok(());
        }
        let Some(why) = self.shared.quarantine_of(serving.digest()).await? else { return Ok(()) };
        self.roll_back_from(&serving, &why).await.map(drop)
    }
}

impl fmt::Debug for PoliciesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliciesOptions")
            .field("state", &self.state)
            .field("key", &self.key)
            .field("probation", &self.probation)
            .field("rehearsal", &self.rehearsal)
            .finish_non_exhaustive()
    }
}

/// The versions of one process's policy. Clones are the same. Keep one for as long as the policy is used: it is what
/// puts into quarantine what was rolled back.
#[derive(Clone)]
pub struct Policies {
    shared: Arc<Shared>,
}

/// A version that passed every step.
#[derive(Clone, Debug)]
pub struct Checked {
    /// It.
    pub version: Version,
    /// How many scenes it rehearsed.
    pub scenes: usize,
}

/// A version that serves.
#[derive(Clone, Debug)]
pub struct Offered {
    /// It.
    pub version: Version,
    /// Whether it must prove itself.
    pub on_probation: bool,
    /// Whether it served before, and nothing was changed.
    pub before: bool,
}

/// Which version serves, and what happened last.
#[derive(Clone, Debug)]
pub struct Status {
    /// The version that serves.
    pub serving: Version,
    /// How far it is, while it is on probation, and which one would serve again.
    pub trial: Option<(Trial, Version)>,
    /// The version that was refused last.
    pub refused: Option<Refused>,
}

/// Why there is no policy to begin with.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The built-in version does not load, which would be a fault of this build.
    #[error("the built-in policy does not load: {0}")]
    BuiltIn(#[from] LoadError),
    /// What outlives the process cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Why a version cannot be rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RollBackError {
    /// It serves, and nothing did before it.
    #[error("there is no version before the one that serves")]
    NothingBefore,
    /// What outlives the process cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Policies {
    /// The last proven version serves, or the one built in where none is known.
    ///
    /// # Errors
    /// The built-in version does not load, or the state cannot be read: the quarantine is in it.
    pub async fn open(runtime: &Runtime, options: PoliciesOptions) -> Result<Self, OpenError> {
        let shared = Shared::open(runtime, options).await?;
        Ok(Self { shared })
    }

    /// The policy, which follows every change of the version that serves.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.shared.policy.clone()
    }

    /// Which version serves, and what happened last.
    #[must_use]
    pub fn status(&self) -> Status {
        let policy = &self.shared.policy;
        Status { serving: policy.version(), trial: policy.trial(), refused: self.shared.refused().clone() }
    }

    /// Whether another version than the built-in one serves since the start, because it was proven before.
    #[must_use]
    pub fn has_proven(&self) -> bool {
        self.shared.policy.version().digest() != self.shared.built_in.digest()
    }

    /// Until what became of versions so far is written to the state and told. Wait for it before the process ends: a
    /// version that was rolled back a moment before is offered again otherwise.
    pub async fn written(&self) {
        self.shared.written().await;
    }

    /// Every step but the last: nothing is changed.
    ///
    /// # Errors
    /// At which step it is refused, and why.
    pub async fn check(&self, offer: &Offer) -> Result<Checked, Refused> {
        self.shared.check(offer).await
    }

    /// Try a version, and let it serve: on probation, unless it was proven before.
    ///
    /// # Errors
    /// At which step it is refused, and why. Whatever served before serves on.
    pub async fn offer(&self, offer: &Offer) -> Result<Offered, Refused> {
        let shared = &self.shared;
        let _turn = shared.offering.lock().await;
        let serving = shared.policy.version();
        if digest::of(&offer.bytes) == serving.digest() {
            let on_probation = shared.policy.trial().is_some();
            return Ok(Offered { version: serving, on_probation, before: true });
        }
        let checked = shared.check(offer).await;
        let version = match checked {
            Ok(checked) => checked.version,
            Err(refused) => {
                shared.refuse(&refused);
                return Err(refused);
            }
        };
        let on_probation = shared.publish(&version, &offer.bytes).await;
        Ok(Offered { version, on_probation, before: false })
    }

    /// Go back to the version before the one that serves, which is in quarantine from then on. One that is rolled back by
    /// itself meanwhile is rolled back once.
    ///
    /// # Errors
    /// [`RollBackError`]; nothing was changed.
    pub async fn roll_back(&self, why: &str) -> Result<Version, RollBackError> {
        self.roll_back_from(&self.shared.policy.version(), why).await
    }

    /// As [`roll_back`](Self::roll_back), from this version: where it serves no more, by a rollback of its own or
    /// another's order, nothing is changed, and the answer is what serves.
    async fn roll_back_from(&self, from: &Version, why: &str) -> Result<Version, RollBackError> {
        let shared = &self.shared;
        let _turn = shared.offering.lock().await;
        let to = shared.before(from).await?;
        if !shared.policy.swap_from(from, to.clone()) {
            return Ok(shared.policy.version());
        }
        shared.rolled_back(from, &to, why);
        Ok(to)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policies({:?})", self.shared.policy.version())
    }
}
