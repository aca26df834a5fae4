//! One instance: made before it is needed where that can be, entered for a call, and dropped behind its answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use wasmtime::Store;

use crate::bindings::{Exports, ExportsPre};
use crate::clock::Clock;
use crate::imports::{ClockOnly, Imports};
use crate::policy::runtime::Turn;
use crate::policy::version::Ended;
use crate::policy::{Call, Misdeed, Runtime};

/// What an instance is made of. Some kilobytes, so it is boxed and never moved.
pub(super) struct Made {
    pub(super) exports: Exports,
    pub(super) store: Store<Call>,
    /// Whether another version failed the same call before.
    pub(super) again: bool,
    of: Arc<ExportsPre<Call>>,
}

/// An instance that was entered: for one call, or for one and the one that follows from it.
pub(crate) struct Instance {
    pub(super) made: Box<Made>,
    runtime: Runtime,
    // Last: its place in the pool is free once the store is gone.
    turn: Turn,
}

impl Made {
    /// A new one. Nothing is granted to it yet.
    async fn new(runtime: &Runtime, of: &Arc<ExportsPre<Call>>) -> wasmtime::Result<Box<Self>> {
        let mut store = runtime.store(nothing());
        let exports = of.instantiate_async(&mut store).await?;
        Ok(Box::new(Self { exports, store, again: false, of: of.clone() }))
    }

    /// Whether it is of this version.
    pub(super) fn is_of(&self, of: &Arc<ExportsPre<Call>>) -> bool {
        Arc::ptr_eq(&self.of, of)
    }
}

impl Instance {
    /// One for a call: the one that was made ahead, or a new one.
    pub(super) async fn enter(
        runtime: &Runtime,
        of: &Arc<ExportsPre<Call>>,
        imports: Box<dyn Imports>,
        again: bool,
    ) -> Result<Self, (wasmtime::Error, Box<dyn Imports>)> {
        let turn = runtime.turn().await;
        let made = match runtime.made_ahead(of) {
            Some(made) => made,
            None => match Made::new(runtime, of).await {
                Ok(made) => made,
                Err(why) => return Err((why, imports)),
            },
        };
        let mut entered = Self { made, runtime: runtime.clone(), turn };
        entered.grant(imports, again);
        Ok(entered)
    }

    /// The same one, for the call that follows.
    pub(super) fn follow(mut self, imports: Box<dyn Imports>, again: bool) -> Self {
        self.grant(imports, again);
        self
    }

    fn grant(&mut self, imports: Box<dyn Imports>, again: bool) {
        self.made.again = again;
        let call = self.made.store.data_mut();
        (call.imports, call.waited, call.asked) = (imports, Duration::ZERO, 0);
        self.runtime.charge(&mut self.made.store);
    }

    /// The call's end: nothing is granted any more.
    pub(super) fn end<T>(&mut self, answer: wasmtime::Result<T>) -> Ended<T> {
        let call = self.made.store.data_mut();
        let imports = std::mem::replace(&mut call.imports, nothing());
        let overstepped = call.overstepped.take();
        Ended { answer: answer.map_err(|why| Misdeed::of(&why)), imports, overstepped }
    }

    /// Drops it and makes one ahead for the next call, both behind whoever waits for the answer.
    pub(super) fn retire(ended: Option<Self>) {
        // Without a runtime it is just dropped.
        let (Some(ended), Ok(handle)) = (ended, Handle::try_current()) else { return };
        let Self { made, runtime, turn } = ended;
        let of = made.of.clone();
        // The task holds neither its turn nor its place: it runs late where the program has stopped driving its tasks.
        runtime.lay_aside(made);
        drop(turn);
        handle.spawn(async move {
            tokio::task::yield_now().await;
            runtime.drop_aside();
            let Some(_turn) = runtime.turn_at_once() else { return };
            // What asks for anything while it is made is made when it is needed: the answer would be old.
            if let Ok(made) = Made::new(&runtime, &of).await
                && made.store.data().asked == 0
            {
                runtime.keep(made);
            }
        });
    }
}

fn nothing() -> Box<dyn Imports> {
    Box::new(ClockOnly(Clock::machine()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::BUILT_IN;
    use crate::policy::version::{Begun, By, Version};

    async fn entered(version: &Version, after: Option<Instance>) -> Instance {
        match version.begin::<()>(nothing(), false, after).await {
            Ok(Begun::Instance(instance)) => instance,
            _ => panic!("the built-in policy has an instance for each call"),
        }
    }

    fn exports(version: &Version) -> Arc<ExportsPre<Call>> {
        match &version.by {
            By::Component(_, exports) => exports.clone(),
            By::Native(_) => panic!("it is a component"),
        }
    }

    fn at(instance: &Instance) -> *const Made {
        &raw const *instance.made
    }

    #[tokio::test]
    async fn a_call_that_follows_enters_the_same_instance_unless_another_version_serves() -> anyhow::Result<()>
    {
        let runtime = Runtime::new()?;
        let version = Version::load(&runtime, BUILT_IN).await?;
        let other = Version::load(&runtime, BUILT_IN).await?;
        let first = entered(&version, None).await;
        let first_at = at(&first);
        let second = entered(&version, Some(first)).await;
        assert_eq!(at(&second), first_at);
        assert!(entered(&other, Some(second)).await.made.is_of(&exports(&other)));
        Ok(())
    }

    #[tokio::test]
    async fn the_next_one_is_made_behind_the_answer_and_is_of_one_version() -> anyhow::Result<()> {
        let runtime = Runtime::new()?;
        let version = Version::load(&runtime, BUILT_IN).await?;
        let other = Version::load(&runtime, BUILT_IN).await?;
        let is_ahead = |version: &Version| runtime.made_ahead(&exports(version)).is_some();
        others_run().await;
        assert!(is_ahead(&other), "after it was asked who it is");
        Instance::retire(Some(entered(&version, None).await));
        assert!(!is_ahead(&version), "nobody has waited yet");
        others_run().await;
        assert!(!is_ahead(&other));
        assert!(is_ahead(&version));
        assert!(!is_ahead(&version), "it was taken");
        Ok(())
    }

    /// A runtime for each thread of a program, and one of them has stopped.
    #[test]
    fn what_calls_leave_to_do_takes_no_turn_from_others() -> anyhow::Result<()> {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build();
        let (stopped, other) = (runtime()?, runtime()?);
        let version = stopped.block_on(async {
            let version = Version::load(&Runtime::new()?, BUILT_IN).await?;
            let mut calls = Vec::new();
            for _ in 0..crate::limits::CALLS {
                calls.push(entered(&version, None).await);
            }
            calls.into_iter().for_each(|call| Instance::retire(Some(call)));
            anyhow::Ok(version)
        })?;
        let next = async { tokio::time::timeout(Duration::from_secs(20), entered(&version, None)).await };
        other.block_on(next)?;
        Ok(())
    }

    async fn others_run() {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }
}
