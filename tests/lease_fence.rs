//! The receiving side: who heard a later epoch refuses an earlier one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use incumbent::Policy;
use incumbent::fence::{Fence, Refused};
use incumbent::floor::{FileFloor, Floor, MemoryFloor};
use incumbent_policy::Decisions;
use incumbent_tests::world::policy;

async fn fence(memory: Arc<dyn Floor>) -> anyhow::Result<Fence> {
    Ok(Fence::open(policy().await, memory).await?)
}

fn is_stale(refused: &Refused, at: u64, after: u64) -> bool {
    matches!(refused, Refused::Stale { epoch, heard } if (*epoch, *heard) == (at, after))
}

#[tokio::test]
async fn what_is_older_than_the_highest_heard_is_refused() -> anyhow::Result<()> {
    let fence = fence(Arc::new(MemoryFloor::default())).await?;
    assert_eq!(fence.heard().await, 0);
    fence.admit(41).await?;
    fence.admit(41).await?;
    fence.admit(57).await?;
    let refused = fence.admit(41).await.expect_err("57 was heard");
    assert!(is_stale(&refused, 41, 57), "{refused}");
    fence.admit(57).await?;
    assert_eq!(fence.heard().await, 57);
    Ok(())
}

#[tokio::test]
async fn epoch_zero_is_never_admitted() -> anyhow::Result<()> {
    let fence = fence(Arc::new(MemoryFloor::default())).await?;
    let refused = fence.admit(0).await.expect_err("none was ever issued");
    assert!(is_stale(&refused, 0, 0), "{refused}");
    fence.admit(u64::MAX).await?;
    assert!(fence.admit(0).await.is_err());
    Ok(())
}

/// A policy that admits every act, or none.
macro_rules! admits {
    ($($name:ident: $answer:expr),*) => {
        $(
            struct $name;

            impl Decisions for $name {
                const NAME: &'static str = stringify!($name);
                const VERSION: &'static str = "0.0.0";

                fn admit(_: u64, epoch: u64) -> Result<u64, u64> {
                    $answer(epoch)
                }
            }
        )*
    };
}

admits!(AdmitsAll: Ok, AdmitsNone: Err);

async fn fence_of<P: Decisions + 'static>() -> anyhow::Result<Fence> {
    let policy = Policy::of(incumbent_native::version::<P>(P::NAME));
    Ok(Fence::open(&policy, Arc::new(MemoryFloor::default())).await?)
}

#[tokio::test]
async fn a_policy_that_is_laxer_is_not_believed() -> anyhow::Result<()> {
    let fence = fence_of::<AdmitsAll>().await?;
    assert!(is_stale(&fence.admit(0).await.expect_err("none was ever issued"), 0, 0));
    fence.admit(57).await?;
    assert!(is_stale(&fence.admit(41).await.expect_err("57 was heard"), 41, 57));
    assert!(is_stale(&fence.admit(0).await.expect_err("none was ever issued"), 0, 57));
    fence.admit(57).await?;
    Ok(())
}

#[tokio::test]
async fn a_policy_that_is_stricter_is_believed() -> anyhow::Result<()> {
    let fence = fence_of::<AdmitsNone>().await?;
    assert!(is_stale(&fence.admit(57).await.expect_err("so it decides"), 57, 0));
    assert_eq!(fence.heard().await, 0);
    Ok(())
}

#[tokio::test]
async fn what_was_heard_outlives_a_restart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let memory = Arc::new(FileFloor::new(folder.path().join("heard")));
    fence(memory.clone()).await?.admit(57).await?;

    let restarted = fence(memory).await?;

    assert_eq!(restarted.heard().await, 57);
    let refused = restarted.admit(41).await.expect_err("57 was heard");
    assert!(is_stale(&refused, 41, 57), "{refused}");
    Ok(())
}

#[derive(Debug, Default)]
struct Full(MemoryFloor, AtomicBool);

#[async_trait]
impl Floor for Full {
    async fn highest(&self) -> io::Result<u64> {
        self.0.highest().await
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        if self.1.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is full"));
        }
        self.0.raise(epoch).await
    }
}

#[tokio::test]
async fn what_cannot_be_remembered_is_not_admitted() -> anyhow::Result<()> {
    let memory = Arc::new(Full::default());
    let fence = fence(memory.clone()).await?;
    fence.admit(41).await?;
    memory.1.store(true, Ordering::Relaxed);

    let refused = fence.admit(57).await.expect_err("after a restart 41 would be admitted again");

    assert!(matches!(refused, Refused::Memory(_)), "{refused}");
    assert_eq!(fence.heard().await, 41);
    fence.admit(41).await?;
    memory.1.store(false, Ordering::Relaxed);
    fence.admit(57).await?;
    Ok(())
}

#[tokio::test]
async fn acts_that_come_together_are_judged_one_after_the_other() -> anyhow::Result<()> {
    let fence = Arc::new(fence(Arc::new(MemoryFloor::default())).await?);
    let mut acts = tokio::task::JoinSet::new();
    for epoch in (1..=40).rev() {
        let fence = fence.clone();
        acts.spawn(async move { (epoch, fence.admit(epoch).await, fence.heard().await) });
    }
    while let Some(act) = acts.join_next().await {
        let (epoch, admitted, heard) = act?;
        assert!(admitted.is_ok() || heard > epoch, "{epoch} was refused when {heard} was heard");
    }
    assert_eq!(fence.heard().await, 40);
    Ok(())
}
