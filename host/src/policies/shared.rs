//! What the registry's handles share: the steps of a version, and the books.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use super::event::Event;
use super::refused::{Refused, Step};
use super::registry::{Checked, OpenError, PoliciesOptions, RollBackError};
use super::source::Offer;
use super::state::{self, Entry, Known, Quarantined, Serving, State, StateDir, StateError};
use crate::digest;
use crate::limits;
use crate::policy::{BUILT_IN, LoadError, Policy, Runtime, Verdict, Version, rehearsal};

pub(super) struct Shared {
    runtime: Runtime,
    /// What is left when nothing else is.
    pub(super) built_in: Version,
    pub(super) policy: Policy,
    pub(super) options: PoliciesOptions,
    /// One version is tried at a time.
    pub(super) offering: tokio::sync::Mutex<()>,
    /// In quarantine, and not yet, or never, in the state: why, by digest.
    quarantined: Mutex<HashMap<String, String>>,
    refused: Mutex<Option<Refused>>,
    /// What is to be written to the state, and told then.
    notes: mpsc::UnboundedSender<Note>,
}

/// For the one that writes the state.
enum Note {
    /// A change of it, and what is told once it is written.
    Change(Box<dyn FnOnce(&mut State) + Send>, Event),
    /// Who waits until what was noted before is written and told.
    Until(oneshot::Sender<()>),
}

impl Shared {
    pub(super) async fn open(runtime: &Runtime, options: PoliciesOptions) -> Result<Arc<Self>, OpenError> {
        let state = read(options.state.as_ref()).await?;
        let built_in = Version::load(runtime, BUILT_IN).await?;
        // An operator may have put it into quarantine since.
        let mut proven = state.proven.iter().chain(state.previous());
        let proven = proven.find(|known| state.quarantine_of(&known.digest).is_none());
        let proven = proven.filter(|known| known.digest != built_in.digest());
        let restored = match (proven, &options.state) {
            (Some(known), Some(folder)) => restore(runtime, folder, known).await,
            _ => Ok(None),
        };
        let (tell, told) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            policy: Policy::of(built_in.clone()),
            built_in,
            options,
            offering: tokio::sync::Mutex::default(),
            quarantined: Mutex::default(),
            refused: Mutex::default(),
            notes: tell,
        });
        match restored {
            Ok(Some(version)) => shared.policy.swap(version, None),
            Ok(None) => {}
            Err(why) => shared.tell(&Event::Unreadable { why }),
        }
        // Weak: the policy is the registry's, and tells it.
        let registry = Arc::downgrade(&shared);
        shared.policy.on_verdict(move |verdict| {
            if let Some(shared) = registry.upgrade() {
                shared.judged(verdict);
            }
        });
        tokio::spawn(write(shared.options.clone(), Arc::downgrade(&shared), told));
        Ok(shared)
    }

    pub(super) async fn check(&self, offer: &Offer) -> Result<Checked, Refused> {
        let Offer { bytes, signature, from } = offer;
        if bytes.len() > limits::COMPONENT_BYTES {
            return Err(Refused::load(from, "", &LoadError::TooLarge(bytes.len())));
        }
        let digest = digest::of(bytes);
        if let Some(why) = self.quarantine_of(&digest).await.map_err(|why| {
            Refused::new(
                from,
                &digest,
                Step::Digest,
                format!("whether it is in quarantine cannot be read: {why}"),
            )
        })? {
            let why = format!("it is in quarantine until an operator clears it: {why}");
            return Err(Refused::new(from, &digest, Step::Digest, why));
        }
        if let Some(key) = &self.options.key {
            key.verify(bytes, signature.as_deref()).map_err(|why| Refused::signature(from, &digest, &why))?;
        }
        let version =
            Version::load(&self.runtime, bytes).await.map_err(|why| Refused::load(from, &digest, &why))?;
        // A policy of its own, so that nothing it does there counts for the one that serves.
        let candidate = Policy::of(version.clone());
        let report = rehearsal::rehearse(&candidate, self.options.rehearsal)
            .await
            .map_err(|why| Refused::rehearsal(from, &digest, &why))?;
        Ok(Checked { version, scenes: report.scenes })
    }

    /// The digests in quarantine.
    pub(super) async fn quarantine(&self) -> Result<BTreeSet<String>, StateError> {
        let state = read(self.options.state.as_ref()).await?;
        let mut all: BTreeSet<String> = state.quarantined.into_iter().map(|one| one.digest).collect();
        all.extend(self.quarantined().keys().cloned());
        Ok(all)
    }

    pub(super) async fn quarantine_of(&self, digest: &str) -> Result<Option<String>, StateError> {
        if let Some(why) = self.quarantined().get(digest) {
            return Ok(Some(why.clone()));
        }
        let state = read(self.options.state.as_ref()).await?;
        Ok(state.quarantine_of(digest).map(|one| one.why.clone()))
    }

    /// The version to go back to from this one.
    pub(super) async fn before(&self, from: &Version) -> Result<Version, RollBackError> {
        if let Some((_, fallback)) = self.policy.trial() {
            return Ok(fallback);
        }
        if let Some(folder) = &self.options.state {
            let state = read(Some(folder)).await?;
            let sound = |known: &&Known| {
                known.digest != from.digest() && state.quarantine_of(&known.digest).is_none()
            };
            let known = state.proven.iter().chain(state.previous()).find(sound);
            if let Some(known) = known
                && let Ok(Some(version)) = restore(&self.runtime, folder, known).await
            {
                return Ok(version);
            }
        }
        if from.digest() == self.built_in.digest() {
            return Err(RollBackError::NothingBefore);
        }
        Ok(self.built_in.clone())
    }

    /// What became of a version on probation. Told from within a policy call: it only notes.
    fn judged(&self, verdict: Verdict) {
        match verdict {
            Verdict::Proven(version) => self.proven(&version),
            Verdict::RolledBack { from, to, why } => self.rolled_back(&from, &to, &why.to_string()),
        }
    }

    /// Let a version that passed every step serve. Whether it is on probation.
    pub(super) async fn publish(&self, version: &Version, bytes: &[u8]) -> bool {
        let digest = version.digest();
        let state = read(self.options.state.as_ref()).await.unwrap_or_default();
        let mut proven = state.proven.iter().chain(state.previous());
        let is_known = digest == self.built_in.digest() || proven.any(|known| known.digest == digest);
        if let Some(folder) = self.options.state.clone() {
            let (digest, bytes) = (digest.to_owned(), bytes.to_vec());
            if let Ok(Err(why)) = spawn_blocking(move || folder.keep(&digest, &bytes)).await {
                self.tell(&Event::Forgetful { why: why.to_string() });
            }
        }
        *self.refused() = None;
        // Noted first: it may be rolled back by the first call that it answers.
        self.published(version, !is_known);
        self.policy.swap(version.clone(), (!is_known).then_some(self.options.probation));
        !is_known
    }

    fn published(&self, version: &Version, on_probation: bool) {
        let (known, now) = (known(version), state::now());
        self.note(
            Event::Published { version: full_name(version), digest: known.digest.clone(), on_probation },
            move |state| {
                state.history.push(entry(&now, state::Event::Published, &known, String::new()));
                if !on_probation {
                    state.proven = Some(known.clone());
                }
                state.serving = Some(serving(&known, now, on_probation));
            },
        );
    }

    fn proven(&self, version: &Version) {
        let (known, now) = (known(version), state::now());
        self.note(
            Event::Proven { version: full_name(version), digest: known.digest.clone() },
            move |state| {
                state.history.push(entry(&now, state::Event::Proven, &known, String::new()));
                state.serving = Some(serving(&known, now, false));
                state.proven = Some(known);
            },
        );
    }

    pub(super) fn rolled_back(&self, from: &Version, to: &Version, why: &str) {
        let (failed, serves, now, why) = (known(from), known(to), state::now(), why.to_owned());
        // At once: the source may offer it again before the state is written.
        self.quarantined().insert(failed.digest.clone(), why.clone());
        let event =
            Event::RolledBack { version: full_name(from), digest: failed.digest.clone(), why: why.clone() };
        self.note(event, move |state| {
            state.history.push(entry(&now, state::Event::RolledBack, &failed, why.clone()));
            // An operator may have put it there before.
            state.quarantined.retain(|one| one.digest != failed.digest);
            state.quarantined.push(Quarantined {
                digest: failed.digest.clone(),
                name: failed.name,
                version: failed.version,
                why,
                when: now.clone(),
            });
            // One that an operator rolled back was proven, and is so no more.
            state.proven = state.proven.take().filter(|known| known.digest != failed.digest);
            state.serving = Some(serving(&serves, now, false));
        });
    }

    /// Remembers and tells a refusal, once for the same bytes at the same step.
    pub(super) fn refuse(&self, refused: &Refused) {
        let before = self.refused().replace(refused.clone());
        if before.is_some_and(|before| before.digest == refused.digest && before.step == refused.step) {
            return;
        }
        let known = Known { digest: refused.digest.clone(), name: String::new(), version: String::new() };
        let (now, why) = (state::now(), format!("{}: {}", refused.step, refused.why));
        self.note(Event::Refused(refused.clone()), move |state| {
            state.history.push(entry(&now, state::Event::Refused, &known, why));
        });
    }

    fn note(&self, event: Event, change: impl FnOnce(&mut State) + Send + 'static) {
        // The writer lives as long as this.
        let _ = self.notes.send(Note::Change(Box::new(change), event));
    }

    /// Until what was noted so far is written and told.
    pub(super) async fn written(&self) {
        let (tell, told) = oneshot::channel();
        let _ = self.notes.send(Note::Until(tell));
        // Unanswered when the writer's runtime ended.
        let _ = told.await;
    }

    pub(super) fn tell(&self, event: &Event) {
        (self.options.on_event)(event);
    }

    fn quarantined(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.quarantined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refused(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what is noted, in order, and tells it then.
async fn write(options: PoliciesOptions, shared: Weak<Shared>, mut notes: mpsc::UnboundedReceiver<Note>) {
    while let Some(note) = notes.recv().await {
        let (change, event) = match note {
            Note::Change(change, event) => (change, event),
            Note::Until(waiting) => {
                // It may wait no more.
                let _ = waiting.send(());
                continue;
            }
        };
        let written = match options.state.clone() {
            Some(folder) => {
                spawn_blocking(move || folder.update(change)).await.map_err(|why| why.to_string())
            }
            None => Ok(Ok(())),
        };
        match (written.and_then(|written| written.map_err(|why| why.to_string())), &event) {
            // It is in the state now, where an operator may clear it.
            (Ok(()), Event::RolledBack { digest, .. }) if options.state.is_some() => {
                if let Some(shared) = shared.upgrade() {
                    shared.quarantined().remove(digest);
                }
            }
            (Ok(()), _) => {}
            (Err(why), _) => (options.on_event)(&Event::Forgetful { why }),
        }
        (options.on_event)(&event);
    }
}

/// The state as it is now.
async fn read(folder: Option<&StateDir>) -> Result<State, StateError> {
    let Some(folder) = folder.cloned() else { return Ok(State::default()) };
    // A blocking task ends otherwise only when the runtime does, or it panicked.
    spawn_blocking(move || folder.read()).await.unwrap_or_else(|_| Ok(State::default()))
}

/// A version that was kept; `None` when its bytes are gone.
async fn restore(runtime: &Runtime, folder: &StateDir, known: &Known) -> Result<Option<Version>, String> {
    let (folder, digest) = (folder.clone(), known.digest.clone());
    let bytes = spawn_blocking(move || folder.kept(&digest)).await.map_err(|why| why.to_string())?;
    let Some(bytes) = bytes else {
        return Err(format!("the policy {} {} that was proven is gone", known.name, known.version));
    };
    Version::load(runtime, &bytes).await.map(Some).map_err(|why| {
        format!("the policy {} {} that was proven does not load any more: {why}", known.name, known.version)
    })
}

fn known(version: &Version) -> Known {
    let about = version.about();
    Known { digest: version.digest().into(), name: about.name.clone(), version: about.version.clone() }
}

fn full_name(version: &Version) -> String {
    format!("{} {}", version.about().name, version.about().version)
}

fn serving(known: &Known, since: String, on_probation: bool) -> Serving {
    let Known { digest, name, version } = known.clone();
    Serving { digest, name, version, since, on_probation }
}

fn entry(when: &str, what: state::Event, known: &Known, why: String) -> Entry {
    let Known { digest, name, version } = known.clone();
    Entry { when: when.into(), what, digest, name, version, why }
}
