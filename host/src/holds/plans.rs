//! The delivery's side: saying that a plan builds, for as long as it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::authority::{Authority, NotInOffice};
use super::error::HoldsError;
use super::event::{OnEvent, SayOnce};
use super::imports::Planning;
use super::places::{Buckets, Places};
use crate::bindings::{Building as Known, Kept};
use crate::clock::Clock;
use crate::imports::Role;
use crate::limits;
use crate::policy::Policy;
use crate::store::{Fault, Reading, Store, check_key};

/// How often it is said that a plan builds, at the most.
const SEEN_EVERY: Duration = Duration::from_secs(30);

/// It is said this many times before it would age out.
const TIMES: u32 = 4;

/// How soon it is said again when it could not be: this share of the time between.
const RETRY_SHARE: u32 = 5;

/// Says which plans build. The lease's holder alone may: every write asks whether it is in office.
#[derive(Clone)]
pub struct Plans {
    policy: Policy,
    places: Arc<Places>,
    clock: Clock,
    authority: Arc<dyn Authority>,
    said: Arc<SayOnce>,
}

impl Plans {
    /// For whoever is in office by this authority: a [`Lease`](crate::Lease), for one.
    #[must_use]
    pub fn new(
        policy: &Policy,
        store: &Arc<dyn Store>,
        buckets: &Buckets,
        clock: &Clock,
        authority: Arc<dyn Authority>,
        on_event: OnEvent,
    ) -> Self {
        Self {
            policy: policy.clone(),
            places: Places::new(store, buckets),
            clock: clock.clone(),
            authority,
            said: Arc::new(SayOnce::new(on_event)),
        }
    }

    /// A plan's build phase begins, or goes on under this controller. It is said again in the background until
    /// the answer is ended or dropped, or the office is lost.
    ///
    /// # Errors
    /// Not in office, the name is no plan id, or the bucket cannot be written.
    pub async fn begin(&self, plan: &str) -> Result<Building, HoldsError> {
        let ttl = self.places.ttl(Role::Plans).await?;
        let known = self.say(plan).await?;
        let since = known.since.clone();
        let (orders, ordered) = mpsc::channel(1);
        let every = SEEN_EVERY.min(ttl / TIMES);
        tokio::spawn(keep(self.clone(), plan.to_owned(), known, every, ordered));
        Ok(Building { plan: plan.into(), since, orders })
    }

    /// Say once that a plan builds. It ages out unless it is said again.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn say(&self, plan: &str) -> Result<Known, HoldsError> {
        self.in_office().await?;
        Ok(self.policy.begin_plan(self.planning(plan), plan).await?.map_err(Fault::from)?)
    }

    /// A plan's build phase ended, whoever began it. Whether it was there.
    ///
    /// # Errors
    /// Not in office, or the bucket cannot be written.
    pub async fn end(&self, plan: &str) -> Result<bool, HoldsError> {
        check_key(plan)?;
        self.in_office().await?;
        let reading = self.places.bucket(Role::Plans).await?.get(plan).await?;
        let Reading::Found(entry) = reading else { return Ok(false) };
        self.end_at(plan, entry.revision).await?;
        Ok(true)
    }

    async fn end_at(&self, plan: &str, revision: u64) -> Result<(), HoldsError> {
        let ended = self.policy.end_plan(self.planning(plan), plan, revision).await?;
        Ok(ended.map_err(Fault::from)?)
    }

    /// Say that it builds still; what is known of it then. `None`: somebody in office ended it, which stays so.
    async fn again(&self, plan: &str, known: &Known) -> Result<Option<Known>, HoldsError> {
        match self.policy.plan_seen(self.planning(plan), plan, known).await?.map_err(Fault::from)? {
            Kept::Kept(revision) => Ok(Some(Known { revision, ..known.clone() })),
            Kept::Lost => match self.places.bucket(Role::Plans).await?.get(plan).await? {
                Reading::Deleted(_) | Reading::Erased(_) => Ok(None),
                // An answer was lost, or another controller wrote it. In office it is this one's to say.
                Reading::Found(_) | Reading::Aged(_) | Reading::Absent => self.say(plan).await.map(Some),
            },
        }
    }

    /// It ended. One whose last saying was not answered may stand at a newer revision: saying it finds that.
    async fn end_known(&self, plan: &str, known: &Known, is_unsettled: bool) -> Result<(), HoldsError> {
        let known = if is_unsettled { self.again(plan, known).await? } else { Some(known.clone()) };
        match known {
            Some(known) => self.end_at(plan, known.revision).await,
            None => Ok(()),
        }
    }

    async fn in_office(&self) -> Result<u64, HoldsError> {
        self.authority.in_office().await.map_err(HoldsError::NotInOffice)
    }

    fn planning(&self, plan: &str) -> Planning {
        Planning {
            clock: self.clock.clone(),
            places: self.places.clone(),
            authority: self.authority.clone(),
            plan: plan.into(),
        }
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plans({:?})", self.places)
    }
}

/// A plan that builds, said again and again while this lives. Dropped, its build phase ends too.
#[derive(Debug)]
pub struct Building {
    plan: String,
    since: String,
    orders: mpsc::Sender<oneshot::Sender<Result<(), HoldsError>>>,
}

impl Building {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &str {
        &self.plan
    }

    /// Since when it builds, RFC 3339; under an earlier controller already, maybe.
    #[must_use]
    pub fn since(&self) -> &str {
        &self.since
    }

    /// It builds no more.
    ///
    /// # Errors
    /// It could not be said, and ages out; or the office was lost, and it is the next holder's to say.
    pub async fn end(self) -> Result<(), HoldsError> {
        let over = || NotInOffice::Over("the lease was lost while it built".into());
        let gone = || HoldsError::NotInOffice(over());
        let (answer, answered) = oneshot::channel();
        self.orders.send(answer).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Says it again until it ends, or the office is lost.
async fn keep(
    plans: Plans,
    plan: String,
    mut known: Known,
    every: Duration,
    mut orders: mpsc::Receiver<oneshot::Sender<Result<(), HoldsError>>>,
) {
    let (mut next, mut is_unsettled) = (every, false);
    loop {
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            () = sleep(next) => {
                let said = match timeout(every, plans.again(&plan, &known)).await {
                    Ok(said) => said,
                    Err(_) => Err(Fault::Unknown("no answer in time".into()).into()),
                };
                let said = plans.said.value(&format!("that {plan} builds cannot be said"), said);
                is_unsettled = said.is_none();
                next = if is_unsettled { every / RETRY_SHARE } else { every };
                match said {
                    Some(Some(again)) => known = again,
                    Some(None) => {
                        if let Some(answer) = orders.recv().await {
                            drop(answer.send(Ok(())));
                        }
                        return;
                    }
                    None => {}
                }
                // The next holder says what builds. While that is not known it is said on: each write asks again.
                if matches!(plans.authority.in_office().await, Err(NotInOffice::Over(_))) {
                    return;
                }
                continue;
            }
        };
        let ended = timeout(limits::RELEASE, plans.end_known(&plan, &known, is_unsettled)).await;
        let ended = ended.unwrap_or_else(|_| Err(Fault::Unknown("no answer in time".into()).into()));
        match order {
            Some(answer) => drop(answer.send(ended)),
            None => {
                plans.said.value(&format!("that {plan} has built cannot be said, it ages out"), ended);
            }
        }
        return;
    }
}
