//! Two instances that move a bucket's revisions past the floor at the same time, or raise the floor.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use incumbent::floor::{Floor, MemoryFloor};
use incumbent::lease::{Event, LeaseError};
use incumbent::policy::{BUILT_IN, Probation};
use incumbent::store::{Bucket, Fault, Reading};
use incumbent::{Policy, Runtime};
use incumbent_tests::faulty::Kind;
use incumbent_tests::world::{LEASE, TTL, World};

const BOBS: &[u8] = br#"{"instance":"bob","nonce":"b1"}"#;

/// Where the revisions are moved from a small floor.
const PLACE: u64 = 2 << 32;

/// A floor beside which somebody else does something, once.
struct Raced {
    kept: MemoryFloor,
    /// Bob's move comes first, as the floor is raised for alice's.
    bob_moves: Option<Arc<dyn Bucket>>,
    /// Somebody else raises it to this, as soon as it was read.
    then: Option<u64>,
    done: AtomicBool,
}

impl fmt::Debug for Raced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raced")
    }
}

impl Raced {
    async fn new(floor: u64, bob_moves: Option<Arc<dyn Bucket>>, then: Option<u64>) -> Arc<Self> {
        let raced = Self { kept: MemoryFloor::default(), bob_moves, then, done: AtomicBool::new(false) };
        raced.kept.raise(floor).await.expect("memory");
        Arc::new(raced)
    }

    fn once(&self) -> bool {
        !self.done.swap(true, Ordering::SeqCst)
    }
}

#[async_trait]
impl Floor for Raced {
    async fn highest(&self) -> io::Result<u64> {
        let highest = self.kept.highest().await?;
        if let Some(then) = self.then.filter(|_| self.once()) {
            self.kept.raise(then).await?;
        }
        Ok(highest)
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        self.kept.raise(epoch).await?;
        if let Some(bucket) = self.bob_moves.as_ref().filter(|_| self.once()) {
            bucket.purge_below(PLACE / 2).await.map_err(io::Error::other)?;
            bucket.create(LEASE, BOBS).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_his_record_to_another_move_purges_nobody() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Raced::new(57, Some(world.faulty.bare().await?), None).await;
    let alice = world.stand_with("alice", |options| options.floor = floor).await?;

    let tried = alice.lease.try_take().await;

    let gone = |fault: &Fault| matches!(fault, Fault::Unavailable(why) if why.contains("not there any more"));
    assert!(matches!(&tried, Err(LeaseError::FloorUnmoved(fault)) if gone(fault)), "{tried:?}");
    assert_eq!(alice.line.ops_of(Kind::Purge), []);
    assert!(matches!(world.record().await, Reading::Found(entry) if entry.value == BOBS), "untouched");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_another_raised_meanwhile_is_no_lie_and_is_tried_again() -> anyhow::Result<()> {
    let world = World::new().await;
    let twin = Policy::load(&Runtime::new()?, &[BUILT_IN, &[0, 2, 1, b't']].concat()).await?;
    world.policy.swap(twin.version(), Some(Probation { calls: u32::MAX, ..Probation::default() }));
    let floor = Raced::new(0, None, Some(57)).await;
    let alice = world.stand_with("alice", |options| options.floor = floor).await?;

    let (epoch, _) = world.until(TTL, alice.lease.take()).await;

    assert_eq!(epoch?, PLACE, "above what the other raised it to");
    let told = |event: &Event| matches!(event, Event::Retrying { why } if why.contains("is not above 57"));
    assert_eq!(alice.events.count(told), 1, "{:?}", alice.events.all());
    assert!(world.policy.trial().is_some(), "the version on probation is not blamed");
    Ok(())
}
