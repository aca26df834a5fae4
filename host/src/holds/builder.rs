//! The builder's side: the next job that may run.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::error::HoldsError;
use super::event::{Event, OnEvent, SayOnce};
use super::imports::{LettingThrough, Reader, let_through_key};
use super::job::{Job, Kind, Shared};
use super::keeper::{Keeper, Key, validity};
use super::places::{Buckets, Places};
use super::source::{Fetched, Source};
use crate::bindings::{Admitted, Verdict};
use crate::clock::{Clock, nanos};
use crate::imports::Role;
use crate::limits;
use crate::policy::Policy;
use crate::store::{Fault, Store, Write};

/// How a builder takes jobs.
#[derive(Clone)]
pub struct BuilderOptions {
    /// Names this builder, to people and in the let-through key; 1 to
    /// [`BUILDER_CHARS`](crate::limits::BUILDER_CHARS) characters.
    pub builder: String,
    /// The buckets of the plans that build and of the checks that run.
    pub buckets: Buckets,
    /// The queue of the deliveries, which have the right of way; a builder of checks alone has none.
    pub deliveries: Option<String>,
    /// The queues of the checks, at most [`CHECK_QUEUES`](crate::limits::CHECK_QUEUES).
    pub checks: Vec<String>,
    /// How long a check waits before it is let through. Default: 30 min.
    pub after: Duration,
    /// How often to look when there is nothing to do. Default: 1 s.
    pub poll: Duration,
    /// The clock. Default: the machine's.
    pub clock: Clock,
    /// Is told what happens, from inside the taking: it must not block.
    pub on_event: OnEvent,
}

impl BuilderOptions {
    /// The defaults, for a builder of this name without queues yet. What happens is logged.
    #[must_use]
    pub fn new(builder: &str) -> Self {
        Self {
            builder: builder.into(),
            buckets: Buckets::default(),
            deliveries: None,
            checks: Vec::new(),
            after: Duration::from_secs(30 * 60),
            poll: Duration::from_secs(1),
            clock: Clock::machine(),
            on_event: Arc::new(|event| tracing::info!("{event}")),
        }
    }
}

impl fmt::Debug for BuilderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { builder, buckets, deliveries, checks, after, poll, .. } = self;
        write!(f, "BuilderOptions({builder}, {buckets:?}, {deliveries:?}, {checks:?}, {after:?}, {poll:?})")
    }
}

/// Takes jobs: deliveries at once, checks while nothing builds, and now and then the one let through.
pub struct Builder {
    inner: Arc<Inner>,
    /// Ends when no look and no keeper of a job is left.
    alive: mpsc::Receiver<Infallible>,
}

struct Inner {
    options: BuilderOptions,
    policy: Policy,
    places: Arc<Places>,
    deliveries: Option<Arc<Source>>,
    checks: Arc<[Arc<Source>]>,
    /// Which queue of checks is asked first next time, so that none starves.
    turn: AtomicUsize,
    held: Mutex<bool>,
    said: Arc<SayOnce>,
    /// Held by each keeper of a job, and with this by each look.
    alive: mpsc::Sender<Infallible>,
}

impl Builder {
    /// A builder at work on these queues. The buckets are looked for when they are needed.
    ///
    /// # Errors
    /// The options do not fit, or a queue is not there.
    pub async fn open(
        policy: &Policy,
        store: &Arc<dyn Store>,
        options: BuilderOptions,
    ) -> Result<Self, HoldsError> {
        fits(&options)?;
        let deliveries = match &options.deliveries {
            Some(name) => Some(Source::open(store, name).await?),
            None => None,
        };
        let mut checks = Vec::new();
        for name in &options.checks {
            checks.push(Source::open(store, name).await?);
        }
        let (alive, ends) = mpsc::channel(1);
        let inner = Inner {
            policy: policy.clone(),
            places: Places::new(store, &options.buckets),
            deliveries,
            checks: checks.into(),
            turn: AtomicUsize::new(0),
            held: Mutex::new(false),
            said: Arc::new(SayOnce::new(options.on_event.clone())),
            alive,
            options,
        };
        Ok(Self { inner: Arc::new(inner), alive: ends })
    }

    /// The next job that may run; waits for one.
    ///
    /// What cannot be read or written is said once, to `on_event`, and tried again: a builder goes on as soon
    /// as it can. Cancel-safe: what is taken when nobody waits for it any more is handed back.
    pub async fn next(&self) -> Job {
        let Inner { options, deliveries, .. } = &*self.inner;
        loop {
            if let Some(job) = self.try_next().await {
                return job;
            }
            // Deliveries are waited for at their queue; whatever else changed is seen at the next look.
            match deliveries {
                Some(source) => {
                    let within = options.poll.min(source.ack_wait / 4);
                    match self.inner.fetch(source, within).await {
                        Ok(Some(fetched)) => return self.inner.begin(Kind::Delivery, fetched, None),
                        Ok(None) => {}
                        Err(()) => sleep(options.poll).await,
                    }
                }
                None => sleep(options.poll).await,
            }
        }
    }

    /// A job that may run now, if there is one. Cancel-safe as [`next`](Self::next) is.
    pub async fn try_next(&self) -> Option<Job> {
        let inner = self.inner.clone();
        let (tell, told) = oneshot::channel();
        // To the end, whoever still waits for it: a look cut short would leave a check taken, or the key behind.
        // A job that nobody waits for is dropped here, and so handed back.
        tokio::spawn(async move { drop(tell.send(inner.look().await)) });
        told.await.ok().flatten()
    }

    /// Until no look is under way and every job is over: before the runtime ends, so that what a look took, whose
    /// waiter is gone, was handed back.
    ///
    /// Looks and queues are bounded in time, so that this is too once no job is held.
    pub async fn close(self) {
        let Self { inner, mut alive } = self;
        drop(inner);
        let _: Option<Infallible> = alive.recv().await;
    }
}

impl Inner {
    async fn look(&self) -> Option<Job> {
        if let Some(source) = &self.deliveries
            && let Ok(Some(fetched)) = self.fetch(source, Duration::ZERO).await
        {
            return Some(self.begin(Kind::Delivery, fetched, None));
        }
        if self.is_held().await { self.let_one_through().await } else { self.take_check().await }
    }

    /// Whether checks wait. A bucket that cannot be read holds none.
    async fn is_held(&self) -> bool {
        let reader = Reader::new(&self.options.clock, &self.places);
        let verdict = match self.policy.assess(reader).await {
            Ok(answer) => answer.map_err(|fault| Fault::from(fault).to_string()),
            Err(why) => Err(why.to_string()),
        };
        let about = "the plans that build cannot be read, and are read as none: no check waits for them";
        let plans = match self.said.value(about, verdict) {
            Some(Verdict::Held(plans)) => plans,
            Some(Verdict::Free) | None => Vec::new(),
        };
        let held = !plans.is_empty();
        let was = std::mem::replace(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner), held);
        if held != was {
            (self.options.on_event)(&if held { Event::Held { plans } } else { Event::Free });
        }
        held
    }

    /// A check, taken as usual: from each queue in turn.
    async fn take_check(&self) -> Option<Job> {
        let first = self.turn.load(Ordering::Relaxed);
        for step in 0..self.checks.len() {
            let at = (first + step) % self.checks.len();
            let Some(source) = self.checks.get(at) else { continue };
            let Ok(Some(fetched)) = self.fetch(source, Duration::ZERO).await else { continue };
            // A plan may have begun to build between the look and the taking.
            if self.is_held().await {
                let back = fetched.hand_back(&self.options.clock, Duration::ZERO).await;
                self.said.value("a check cannot be handed back, and is given again later", back);
                return None;
            }
            self.turn.store(at + 1, Ordering::Relaxed);
            return Some(self.begin(Kind::Check, fetched, None));
        }
        None
    }

    /// Take one from this queue. A queue that cannot be taken from is said once and passed over.
    async fn fetch(&self, source: &Arc<Source>, within: Duration) -> Result<Option<Fetched>, ()> {
        let about = format!("the queue {} cannot be taken from, and is passed over", source.name());
        self.said.value(&about, source.fetch(&self.options.clock, within).await).ok_or(())
    }

    /// While a delivery builds: the oldest check, once it has waited long enough and no other one is let through.
    async fn let_one_through(&self) -> Option<Job> {
        if self.checks.is_empty() {
            return None;
        }
        let about = "no check can be let through";
        match self.try_let_through().await {
            Ok(job) => {
                self.said.value(about, Ok::<(), HoldsError>(()));
                job
            }
            Err(why) => {
                self.said.value(about, Err::<(), _>(why));
                None
            }
        }
    }

    async fn try_let_through(&self) -> Result<Option<Job>, HoldsError> {
        let ttl = self.places.ttl(Role::Running).await?;
        let bucket = self.places.bucket(Role::Running).await?;
        let imports = LettingThrough {
            key: let_through_key(&self.options.clock, bucket, validity(ttl)),
            sources: self.checks.clone(),
            taken: Arc::default(),
            said: self.said.clone(),
        };
        let (queues, within) = (&self.options.checks, self.fetch_within());
        let (builder, after) = (&self.options.builder, nanos(self.options.after));
        let call = self.policy.let_one_through(imports.clone(), queues, builder, after, nanos(within)).await;
        let admitted = match call {
            Ok(Ok(Some(admitted))) => self.believe(&imports, admitted, ttl),
            Ok(Ok(None)) => Ok(None),
            Ok(Err(fault)) => Err(Fault::from(fault).into()),
            Err(why) => Err(why.into()),
        };
        if !matches!(admitted, Ok(Some(_))) {
            clear(&imports).await;
        }
        admitted
    }

    /// What the policy admitted, as far as the guard rails let it be believed.
    fn believe(
        &self,
        imports: &LettingThrough,
        admitted: Admitted,
        ttl: Duration,
    ) -> Result<Option<Job>, HoldsError> {
        let Admitted { queue, ticket, since, revision, .. } = admitted;
        let until = imports.key.rails().until(revision).map_err(HoldsError::Lied)?;
        let misled = || {
            let told =
                format!("the policy admitted the ask {ticket} of the queue {queue:?}, which it did not take");
            HoldsError::Misfit(told)
        };
        let fetched = {
            let mut taken = imports.taken();
            taken.get(&ticket).filter(|fetched| fetched.source.name() == queue).ok_or_else(misled)?;
            taken.remove(&ticket).ok_or_else(misled)?
        };
        let key = Key {
            policy: self.policy.clone(),
            imports: imports.clone(),
            builder: self.options.builder.clone(),
            since: since.clone(),
            revision,
            until,
            ttl,
        };
        Ok(Some(self.begin(Kind::LetThrough { since }, fetched, Some(key))))
    }

    /// How long a fetch may take: a part of the time for which what it brings stays the taker's.
    fn fetch_within(&self) -> Duration {
        let shortest = self.checks.iter().map(|source| source.ack_wait).min().unwrap_or_default();
        limits::LET_THROUGH_FETCH.min(shortest / 4)
    }

    /// From an ask that was taken to a job that is kept.
    fn begin(&self, kind: Kind, fetched: Fetched, key: Option<Key>) -> Job {
        let ask_until = fetched.until();
        let Fetched { source, taken, .. } = fetched;
        let until = key.as_ref().map_or(ask_until, |key| key.until.min(ask_until));
        let (tell, until) = watch::channel(until);
        let (orders, ordered) = mpsc::channel(1);
        let shared = Arc::new(Shared::default());
        let keeper = Keeper {
            clock: self.options.clock.clone(),
            taken: taken.clone(),
            ack_wait: source.ack_wait,
            ask_until,
            key,
            until: tell,
            shared: shared.clone(),
            said: self.said.clone(),
        };
        let alive = self.alive.clone();
        tokio::spawn(async move {
            keeper.run(ordered).await;
            drop(alive);
        });
        Job { kind, queue: source.name().into(), taken, shared, orders, until }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Builder({:?}, {:?})", self.inner.options, self.inner.places)
    }
}

/// What a policy call that admitted nothing left behind: whatever was taken goes back, and the key goes.
async fn clear(imports: &LettingThrough) {
    let left = std::mem::take(&mut *imports.taken());
    for fetched in left.into_values() {
        // What cannot be handed back is given again after the ack wait.
        let _ = fetched.hand_back(&imports.key.clock, Duration::ZERO).await;
    }
    let key = imports.key.rails().latest();
    if let Some(revision) = key {
        // What cannot be deleted ages out.
        let _: Result<Write, Fault> = imports.key.delete(revision, || ()).await;
    }
}

fn fits(options: &BuilderOptions) -> Result<(), HoldsError> {
    let misfit = |text: String| Err(HoldsError::Misfit(text));
    let BuilderOptions { builder, deliveries, checks, poll, .. } = options;
    let most = limits::BUILDER_CHARS;
    if builder.is_empty() || builder.chars().count() > most || builder.contains(char::is_control) {
        return misfit(format!(
            "the builder's name {:?} does not fit; give it 1 to {most} printable characters",
            builder.chars().take(24).collect::<String>()
        ));
    }
    if deliveries.is_none() && checks.is_empty() {
        return misfit(
            "a builder without queues has nothing to do; name one of deliveries or of checks".into(),
        );
    }
    if checks.len() > limits::CHECK_QUEUES {
        return misfit(format!("{} queues of checks; the limit is {}", checks.len(), limits::CHECK_QUEUES));
    }
    let mut names: Vec<&String> = deliveries.iter().chain(checks).collect();
    names.sort_unstable();
    if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
        return misfit(format!("the queue {twice} is named twice"));
    }
    if poll.is_zero() {
        return misfit("a poll of zero would look without a pause; give it 1s or so".into());
    }
    Ok(())
}
