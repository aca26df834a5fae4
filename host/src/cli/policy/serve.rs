//! The policy that a command is decided by, followed as its source changes.

use std::sync::Arc;

use incumbent::limits;
use incumbent::policies::source::{FileSource, NatsSource, Offers, Source};
use incumbent::policies::{Cache, Following, Policies, PoliciesOptions};
use incumbent::policy::{Policy, Probation, Runtime};
use tokio::time::timeout;

use super::super::args::{PolicyArgs, StoreArgs};
use super::super::{say, state};
use super::{here, key, published};

/// The policy that serves, for as long as this is kept.
pub(crate) struct Serves {
    /// It.
    pub(crate) policy: Policy,
    followed: Option<Followed>,
}

struct Followed {
    following: Following,
    policies: Policies,
}

impl Serves {
    /// Read the source again, where there is one.
    pub(crate) fn reread(&self) -> bool {
        let following = self.followed.as_ref().map(|followed| &followed.following);
        following.inspect(|following| following.reread()).is_some()
    }

    /// Follow the source no more, and have what happened written down: a version that was rolled back last thing
    /// would be offered again otherwise.
    pub(crate) async fn close(self) {
        let Some(Followed { following, policies }) = self.followed else { return };
        drop(following);
        written(&policies).await;
    }
}

async fn written(policies: &Policies) {
    if timeout(limits::RELEASE, policies.written()).await.is_err() {
        say::error("what became of the policy's versions was not written down in time");
    }
}

/// The policy of these arguments. One that is refused is an error, unless another one was proven before, which
/// serves then.
pub(crate) async fn serves(args: &PolicyArgs, store: &StoreArgs) -> anyhow::Result<Serves> {
    let Some(source) = &args.policy else {
        return Ok(Serves { policy: built_in().await?, followed: None });
    };
    let mut offers = match source {
        Source::File(path) => Offers::File(FileSource::new(path)),
        Source::Nats { bucket, name } => {
            Offers::Nats(NatsSource::new(&published::connect(store).await?, bucket, name)?)
        }
    };
    let options = PoliciesOptions {
        state: Some(here::folder(&args.state)?),
        key: key(&args.key)?,
        probation: Probation { calls: args.probation_calls, time: args.probation },
        on_event: Arc::new(say::policies),
        ..PoliciesOptions::default()
    };
    let policies = Policies::open(&runtime()?, options).await?;
    let is_proven = policies.has_proven();
    let first = match offers.next().await {
        Ok(offer) => policies.offer(&offer).await.map(drop).map_err(anyhow::Error::from),
        Err(why) => Err(why.into()),
    };
    match first {
        Err(why) if !is_proven => {
            written(&policies).await;
            return Err(why);
        }
        Err(why) => say::error(&format!("{}; the last proven policy serves", say::chain(&why))),
        Ok(()) => {}
    }
    let following = policies.follow(offers);
    Ok(Serves { policy: policies.policy(), followed: Some(Followed { following, policies }) })
}

/// The policy that is built in.
pub(crate) async fn built_in() -> anyhow::Result<Policy> {
    Ok(Policy::built_in(&runtime()?).await?)
}

/// Compiled policies are kept, where there is a place for them.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let cache =
        state::folder("--policy-state").ok().and_then(|folder| Cache::open(folder.join("compiled")).ok());
    Ok(match cache {
        Some(cache) => Runtime::with_cache(cache)?,
        None => Runtime::new()?,
    })
}
