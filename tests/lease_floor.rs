//! No epoch is issued twice: the floor under a lease, and the file that keeps it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use incumbent::Lease;
use incumbent::floor::{FileFloor, Floor, MemoryFloor};
use incumbent::lease::{Event, LeaseError};
use incumbent::store::{Fault, Reading, Write};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{LEASE, MARGIN, POLL, TTL, World};
use tokio::task::JoinHandle;

/// Where the revisions are moved from a small floor: the second multiple of the stride, 2³².
const PLACE: u64 = 2 << 32;

/// A floor that fails when told to, and sees whether the gate was open as it was raised.
#[derive(Debug, Default)]
struct Watchful {
    kept: MemoryFloor,
    unreadable: AtomicBool,
    unwritable: AtomicBool,
    /// How long the next raise takes.
    stalls: Mutex<Duration>,
    lease: Mutex<Weak<Lease>>,
    /// Each epoch it was raised to, and whether the gate was open then.
    raised: Mutex<Vec<(u64, bool)>>,
}

#[async_trait]
impl Floor for Watchful {
    async fn highest(&self) -> io::Result<u64> {
        if self.unreadable.load(Ordering::Relaxed) {
            return Err(io::Error::other("a bad sector"));
        }
        self.kept.highest().await
    }

    async fn raise(&self, epoch: u64) -> io::Result<()> {
        let open = self.lease.lock().expect("free").upgrade().is_some_and(|lease| lease.held());
        self.raised.lock().expect("free").push((epoch, open));
        if self.unwritable.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is full"));
        }
        let stalls = std::mem::take(&mut *self.stalls.lock().expect("free"));
        tokio::time::sleep(stalls).await;
        self.kept.raise(epoch).await
    }
}

#[tokio::test(start_paused = true)]
async fn take_that_stood_still_past_its_time_opens_no_gate_and_is_tried_again() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Arc::new(Watchful { stalls: (TTL - MARGIN).into(), ..Watchful::default() });
    let alice = world.stand_with("alice", |options| options.floor = floor.clone()).await?;

    let (epoch, _) = world.until(TTL * 3, alice.lease.take()).await;

    let taken = epoch?;
    let raised = floor.raised.lock().expect("free").clone();
    assert!(matches!(raised.as_slice(), [(first, _), (second, _)] if first < second && *second == taken));
    assert!(alice.lease.held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_epoch_is_on_record_before_the_gate_first_passes() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Arc::new(Watchful::default());
    let alice = world.stand_with("alice", |options| options.floor = floor.clone()).await?;
    *floor.lease.lock().expect("free") = Arc::downgrade(&alice.lease);

    let epoch = alice.lease.try_take().await?;

    assert_eq!(*floor.raised.lock().expect("free"), [(epoch, false)]);
    assert_eq!(floor.highest().await?, epoch);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_cannot_be_kept_is_not_acted_on() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Arc::new(Watchful::default());
    floor.unwritable.store(true, Ordering::Relaxed);
    let (alice, bob) =
        (world.stand_with("alice", |options| options.floor = floor.clone()).await?, world.stand("bob").await);

    let tried = alice.lease.try_take().await;

    assert!(
        matches!(&tried, Err(LeaseError::FloorUnwritable(why)) if why.contains("the disk is full")),
        "{tried:?}"
    );
    assert!(!alice.lease.held());
    assert!(matches!(world.record().await, Reading::Deleted(_)), "nobody waits for it");
    assert_eq!(alice.events.all(), []);
    // The next may take it, and so may alice once there is room.
    bob.lease.try_take().await?;
    bob.lease.release().await;
    floor.unwritable.store(false, Ordering::Relaxed);
    alice.lease.try_take().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_cannot_be_read_is_an_error() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Arc::new(Watchful::default());
    floor.unreadable.store(true, Ordering::Relaxed);
    let alice = world.stand_with("alice", |options| options.floor = floor.clone()).await?;

    let tried = alice.lease.take().await;

    assert!(
        matches!(&tried, Err(LeaseError::FloorUnreadable(why)) if why.contains("a bad sector")),
        "{tried:?}"
    );
    assert!(!alice.lease.held());
    assert!(matches!(world.record().await, Reading::Deleted(_)), "nobody waits for it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_corrupted_floor_file_is_named_with_the_remedy() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("floor");
    // Cut off at 64 bytes, the last one would be a lower floor.
    let long = format!("{:>64}7", 5);
    for garbage in ["forty-one\n", "", "-1", "99999999999999999999999", "1 2", &long] {
        std::fs::write(&path, garbage)?;
        let world = World::new().await;
        let floor = Arc::new(FileFloor::new(&path));
        let alice = world.stand_with("alice", |options| options.floor = floor.clone()).await?;

        let Err(why) = alice.lease.take().await else { panic!("{garbage:?} is no floor") };

        let text = why.to_string();
        assert!(
            text.contains(&path.display().to_string()) && text.contains("write the highest epoch"),
            "{text}"
        );
        assert!(floor.raise(5).await.is_err(), "what cannot be read is not written over");
        assert_eq!(std::fs::read_to_string(&path)?, garbage);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_with_no_room_above_it_is_refused() -> anyhow::Result<()> {
    for floor in [u64::MAX, (1 << 53) + 1, 1 << 53, (1 << 53) - 2, (1 << 53) - (1 << 32)] {
        let world = World::new().await;
        world.floor.raise(floor).await?;
        let alice = world.stand("alice").await;

        let tried = alice.lease.take().await;

        assert!(matches!(tried, Err(LeaseError::FloorTooHigh(high)) if high == floor), "{floor}: {tried:?}");
        assert_eq!(alice.line.ops_of(Kind::Purge), []);
        assert!(matches!(world.record().await, Reading::Deleted(_)));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn other_live_keys_are_not_dropped_to_move_the_revisions() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let bucket = world.faulty.bare().await?;
    bucket.create("another", b"alive").await?;
    let alice = world.stand("alice").await;

    let tried = alice.lease.take().await;

    assert!(matches!(&tried, Err(LeaseError::FloorBlocked(keys)) if *keys == ["another"]), "{tried:?}");
    assert!(matches!(bucket.get("another").await?, Reading::Found(_)));
    assert!(matches!(world.record().await, Reading::Deleted(_)), "nobody waits for it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn revisions_are_moved_once_and_said_once() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let alice = world.stand("alice").await;

    let epoch = alice.lease.try_take().await?;

    assert_eq!(epoch, PLACE, "by a stride that no tenure's renewals can reach");
    assert_eq!(alice.events.all()[0], Event::Moved { was: 1, floor: 57 });
    assert_eq!(alice.line.ops_of(Kind::Purge).len(), 1);
    assert_eq!(world.floor.highest().await?, epoch);
    alice.lease.release().await;
    let bob = world.stand("bob").await;
    assert!(bob.lease.try_take().await? > epoch);
    assert_eq!(bob.line.ops_of(Kind::Purge), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn revisions_that_may_not_be_moved_are_an_error() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let alice = world.stand("alice").await;
    let denied = Fault::Denied("no purging".into());
    alice.line.once(Kind::Purge, Fate::Fails(denied.clone()));

    let tried = alice.lease.take().await;

    assert!(matches!(&tried, Err(LeaseError::FloorUnmoved(fault)) if *fault == denied), "{tried:?}");
    assert!(matches!(world.record().await, Reading::Deleted(_)), "nobody waits for it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_purge_whose_answer_was_lost_is_waited_out() -> anyhow::Result<()> {
    for befalls in [Fate::AnswerLost, Fate::RequestLost] {
        let world = World::new().await;
        world.floor.raise(57).await?;
        let alice = world.stand("alice").await;
        alice.line.once(Kind::Purge, befalls.clone());

        let (epoch, _) = world.until(TTL, alice.lease.take()).await;

        assert!(epoch? > 57, "{befalls:?}");
        assert!(alice.lease.held());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_move_that_fails_is_tried_again_no_sooner_than_at_the_poll() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    // Each has a watch on the key that both write and give back.
    let carol = world.stand_with("carol", |options| options.floor = Arc::new(MemoryFloor::default())).await?;
    carol.lease.try_take().await?;
    let taking = [alice.take(), bob.take()];
    world.settle().await;
    let away = Fate::Fails(Fault::Unavailable("away".into()));
    for stand in [&alice, &bob] {
        stand.line.always(&[Kind::Purge], &away);
    }

    carol.lease.release().await;
    world.pass(10 * POLL).await;

    for stand in [&alice, &bob] {
        let tries = stand.line.ops_of(Kind::Create).len();
        assert!((5..=15).contains(&tries), "{tries} tries in ten polls");
        stand.line.heal();
    }
    world.pass(2 * POLL).await;
    assert!(alice.lease.held() || bob.lease.held());
    taking.iter().for_each(JoinHandle::abort);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_purge_that_lands_late_leaves_the_next_holder_alone() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    alice.line.once(Kind::Purge, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;
    taking.abort();
    let (epoch, took) = world.until(2 * TTL, bob.lease.take()).await;
    let epoch = epoch?;
    assert!(took >= TTL, "alice's provisional record is waited for: {took:?}");

    alice.line.deliver().await.expect("one was on its way")?;

    world.pass(2 * TTL).await;
    assert_eq!(bob.lease.epoch(), Ok(epoch));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_floor_is_raised_before_the_purge_is_sent() -> anyhow::Result<()> {
    let world = World::new().await;
    world.floor.raise(57).await?;
    let alice = world.stand("alice").await;
    alice.line.once(Kind::Purge, Fate::HeldBack);

    let taking = alice.take();
    alice.line.hits(1).await;

    assert_eq!(alice.line.ops_of(Kind::Purge)[0].expected, Some(PLACE));
    assert_eq!(world.floor.highest().await?, PLACE - 1);
    alice.line.deliver().await.expect("one was on its way")?;
    assert_eq!(world.until(TTL, taking).await.0??, PLACE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_cannot_be_raised_sends_no_purge() -> anyhow::Result<()> {
    let world = World::new().await;
    let floor = Arc::new(Watchful::default());
    floor.kept.raise(57).await?;
    floor.unwritable.store(true, Ordering::Relaxed);
    let alice = world.stand_with("alice", |options| options.floor = floor.clone()).await?;

    let tried = alice.lease.try_take().await;

    let full = |fault: &Fault| fault.to_string().contains("the disk is full");
    assert!(matches!(&tried, Err(LeaseError::FloorUnmoved(fault)) if full(fault)), "{tried:?}");
    assert_eq!(alice.line.ops_of(Kind::Purge), []);
    assert!(matches!(world.record().await, Reading::Deleted(_)), "nobody waits for it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_purge_that_lands_late_drops_nobody_who_took_meanwhile() -> anyhow::Result<()> {
    let world = World::new().await;
    // So low that a few writes more are above it.
    world.floor.raise(1).await?;
    let (alice, bob) = (world.stand("alice").await, world.stand("bob").await);
    alice.line.once(Kind::Purge, Fate::HeldBack);
    let taking = alice.take();
    alice.line.hits(1).await;
    taking.abort();
    world.settle().await;

    // Alice finds her record and goes on from it, or gives it back.
    let _ = alice.lease.try_take().await;
    alice.lease.release().await;
    let epoch = bob.lease.try_take().await?;
    assert!(epoch > PLACE, "where the purge on its way does not reach: {epoch}");

    assert_eq!(alice.line.deliver().await.expect("one was on its way")?, Write::Written(0));
    world.pass(2 * TTL).await;
    assert_eq!(bob.lease.epoch(), Ok(epoch));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_floor_below_the_revisions_moves_nothing() -> anyhow::Result<()> {
    let world = World::new().await;
    let bucket = world.faulty.bare().await?;
    for _ in 0..60 {
        bucket.create("another", b"alive").await?;
        let Reading::Found(entry) = bucket.get("another").await? else { panic!("just written") };
        bucket.delete("another", entry.revision, None).await?;
    }
    world.floor.raise(57).await?;
    let alice = world.stand("alice").await;
    assert_eq!(alice.lease.try_take().await?, 121);
    assert_eq!(alice.line.ops_of(Kind::Purge), []);
    assert_eq!(bucket.keys(None, 1000).await?, [LEASE]);
    Ok(())
}

#[tokio::test]
async fn a_floor_file_is_shared_and_never_falls() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // The folder is made with the file.
    let path = folder.path().join("state").join("floor");
    let (one, other) = (FileFloor::new(&path), FileFloor::new(&path));
    assert_eq!(one.highest().await?, 0);
    one.raise(57).await?;
    other.raise(41).await?;
    assert_eq!((one.highest().await?, other.highest().await?), (57, 57));

    let mut raising = Vec::new();
    for epoch in 58..98 {
        let floor = if epoch % 2 == 0 { one.clone() } else { other.clone() };
        raising.push(tokio::spawn(async move { floor.raise(epoch).await }));
    }
    for raised in raising {
        raised.await??;
    }
    assert_eq!(FileFloor::new(&path).highest().await?, 97);
    assert_eq!(std::fs::read_to_string(&path)?, "97\n");
    // As long as one may be.
    std::fs::write(&path, format!("{:>64}", 98))?;
    assert_eq!(one.highest().await?, 98);
    Ok(())
}

#[tokio::test]
async fn a_floor_file_survives_a_write_cut_off() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("floor");
    let floor = FileFloor::new(&path);
    floor.raise(57).await?;
    // What a crash between the writing and the renaming leaves behind.
    std::fs::write(folder.path().join("floor.new"), "9")?;

    assert_eq!(floor.highest().await?, 57);
    floor.raise(58).await?;
    assert_eq!(floor.highest().await?, 58);
    Ok(())
}

#[tokio::test]
async fn two_floor_files_of_one_folder_do_not_share_a_lock_or_a_draft() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let paths = ["floor.controller", "floor.labeler"].map(|name| folder.path().join(name));
    let floors = paths.clone().map(FileFloor::new);
    let mut raising = Vec::new();
    for epoch in 1..=50_u64 {
        for (n, floor) in floors.iter().cloned().enumerate() {
            raising.push(tokio::spawn(async move { floor.raise(epoch + 1000 * n as u64).await }));
        }
    }
    for raised in raising {
        raised.await??;
    }
    assert_eq!((floors[0].highest().await?, floors[1].highest().await?), (50, 1050));
    let mut names: Vec<_> = std::fs::read_dir(folder.path())?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    names.retain(|name| name.ends_with(".lock"));
    assert_eq!(names.len(), 2, "{names:?}");
    Ok(())
}

#[tokio::test]
async fn a_floor_that_cannot_be_reached_is_not_zero_and_names_its_file() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // A file where a folder should be.
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, "")?;
    let path = blocked.join("floor");

    let floor = FileFloor::new(&path);
    let Err(unread) = floor.highest().await else { panic!("there may be one where it cannot be reached") };
    let Err(unwritten) = floor.raise(1).await else { panic!("there is no such folder") };

    for why in [unread, unwritten] {
        assert!(why.to_string().contains(&path.display().to_string()), "{why}");
    }
    Ok(())
}
