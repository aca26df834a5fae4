//! Two instances that move a bucket's revisions past the floor at the same time, or raise the floor.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use incumbent::floor::{Floor, MemoryFloor};
use incumbent::lease::{Event, LeaseError};
use incumbent::store::{Bucket, Fault, Reading};
use incumbent_tests::faulty::Kind;
use incumbent_tests::world::{LEASE, TTL, World};

const BOBS: &[u8] = br#"{"instance":"bob","nonce":"b1"}"#;

/// Where the revisions are moved from a small floor.
const PLACE: u64 = 2 << 32;

/// A floor at 57, and whoever raises it comes second: bob's move was first.
struct Raced {
    kept: MemoryFloor,
    bucket: Arc<dyn Bucket>,
    done: AtomicBool,
}

impl fmt::Debug for Raced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raced")
    }
}

#[async_trait]
impl Floor for Raced {
    async fn highest(&self) -> io::Result<u64> {
        self.kept.highest().await
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        self.kept.raise(epoch).await?;
        if !self.done.swap(true, Ordering::SeqCst) {
            self.bucket.purge_below(PLACE / 2).await.map_err(io::Error::other)?;
            self.bucket.create(LEASE, BOBS).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_his_record_to_another_move_purges_nobody() -> anyhow::Result<()> {
    let world = World::new().await;
    let kept = MemoryFloor::default();
    kept.raise(57).await?;
    let floor = Arc::new(Raced { kept, bucket: world.faulty.bare().await?, done: false.into() });
    let alice = world.stand_with("alice", |options| options.floor = floor).await?;

    let tried = alice.lease.try_take().await;

    let gone = |fault: &Fault| matches!(fault, Fault::Unavailable(why) if why.contains("not there any more"));
    assert!(matches!(&tried, Err(LeaseError::FloorUnmoved(fault)) if gone(fault)), "{tried:?}");
    assert_eq!(alice.line.ops_of(Kind::Purge), []);
    assert!(matches!(world.record().await, Reading::Found(entry) if entry.value == BOBS), "untouched");
    Ok(())
}

/// A floor that somebody else raises to 57 as soon as it was read.
#[derive(Debug, Default)]
struct RaisedMeanwhile {
    kept: MemoryFloor,
    done: AtomicBool,
}

#[async_trait]
impl Floor for RaisedMeanwhile {
    async fn highest(&self) -> io::Result<u64> {
        let highest = self.kept.highest().await?;
        if !self.done.swap(true, Ordering::SeqCst) {
            self.kept.raise(57).await?;
        }
        Ok(highest)
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        self.kept.raise(epoch).await
    }
}

/// Alice's take ends well, though the floor that her policy was told was raised before she had the lease.
pub(crate) async fn alice_tries_again(world: &World) -> anyhow::Result<()> {
    let floor = Arc::new(RaisedMeanwhile::default());
    let alice = world.stand_with("alice", |options| options.floor = floor).await?;

    let (epoch, _) = world.until(TTL, alice.lease.take()).await;

    assert_eq!(epoch?, PLACE, "above what the other raised it to");
    let told = |event: &Event| matches!(event, Event::Retrying { why } if why.contains("is not above 57"));
    assert_eq!(alice.events.count(told), 1, "{:?}", alice.events.all());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_another_raised_meanwhile_is_tried_again() -> anyhow::Result<()> {
    alice_tries_again(&World::new().await).await
}
