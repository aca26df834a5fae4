//! What is denied to each side.

use super::super::places::{Buckets, PLANS, RUNNING};
use super::*;
use crate::clock::Steady;
use crate::store::memory::Memory;
use crate::store::queue::QueueConfig;
use crate::store::{Bucket, BucketConfig, Store};

const MINUTE: Duration = Duration::from_secs(60);
const PLAN: &str = "plan-12";

/// Both buckets, and the queues `own` and `foreign` with two asks each.
async fn store() -> Memory {
    let store = Memory::new(Clock::by_hand(Steady(100_000_000_000)));
    for name in [PLANS, RUNNING] {
        store.create_bucket(name, &BucketConfig { ttl: MINUTE, replicas: 1 }).await.expect("a bucket");
    }
    for name in ["own", "foreign"] {
        let config = QueueConfig { ack_wait: MINUTE, replicas: 1 };
        let queue = store.create_queue(name, &config).await.expect("a queue");
        for _ in 0..2 {
            queue.put(b"{}").await.expect("memory takes it");
        }
    }
    store
}

async fn bucket(store: &Memory, name: &str) -> Arc<dyn Bucket> {
    store.bucket(name).await.expect("a bucket")
}

async fn source(store: &Memory, name: &str) -> Arc<Source> {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Source::open(&store, name).await.expect("a queue")
}

async fn letting_through(store: &Memory) -> LettingThrough {
    let clock = Clock::by_hand(Steady(100_000_000_000));
    LettingThrough {
        key: let_through_key(&clock, &bucket(store, RUNNING).await, MINUTE),
        sources: Arc::new([source(store, "own").await]),
        taken: Arc::default(),
        said: Arc::new(SayOnce::new(Arc::new(|event| panic!("it is no trouble: {event}")))),
    }
}

#[track_caller]
fn denied<T: std::fmt::Debug>(answer: Result<T, Fault>, says: &str) {
    match answer {
        Err(Fault::Denied(text)) => assert!(text.contains(says), "{text}"),
        other => panic!("it is granted: {other:?}"),
    }
}

#[tokio::test]
async fn a_key_that_is_not_let_through_is_out_of_reach() {
    let store = store().await;
    let mut io = letting_through(&store).await;
    for (bucket, key, says) in [
        (Role::Running, "alice.repo.12", "which is not its own"),
        (Role::Running, "", "which is not its own"),
        (Role::Plans, LET_THROUGH, "for the bucket Plans"),
        (Role::Plans, PLAN, "for the bucket Plans"),
        (Role::Lease, LET_THROUGH, "for the bucket Lease"),
    ] {
        denied(io.get(bucket, key).await, says);
        denied(io.create(bucket, key, b"x").await, says);
        denied(io.update(bucket, key, b"x", 1).await, says);
        denied(io.delete(bucket, key, 1).await, says);
    }
    for role in [Role::Lease, Role::Plans, Role::Running] {
        denied(io.keys(role, None, 1).await, "does not grant");
        denied(io.info(role).await, "does not grant");
    }
    denied(io.purge_below(7).await, "does not grant");
    for name in [PLANS, RUNNING] {
        assert_eq!(bucket(&store, name).await.last_revision().await, Ok(0));
    }
}

#[tokio::test]
async fn a_let_through_key_at_a_foreign_revision_is_out_of_reach() {
    let store = store().await;
    let running = bucket(&store, RUNNING).await;
    assert_eq!(running.create(LET_THROUGH, b"bob").await, Ok(Write::Written(1)));
    let mut io = letting_through(&store).await;
    let reading = io.get(Role::Running, LET_THROUGH).await.expect("it may be read");
    assert!(matches!(&reading, Reading::Found(entry) if entry.value == b"bob"));
    denied(io.update(Role::Running, LET_THROUGH, b"alice", 1).await, "not known to be its own");
    denied(io.delete(Role::Running, LET_THROUGH, 1).await, "not known to be its own");
    assert!(matches!(io.create(Role::Running, LET_THROUGH, b"alice").await, Ok(Write::Stale(_))));
    denied(io.take("own", Duration::ZERO).await, "without the let-through key");
    assert_eq!(running.get(LET_THROUGH).await, Ok(reading));
}

#[tokio::test]
async fn no_check_is_taken_without_the_key_nor_after_it_was_dropped() {
    let store = store().await;
    let mut io = letting_through(&store).await;
    denied(io.take("own", Duration::ZERO).await, "without the let-through key");
    assert_eq!(io.create(Role::Running, LET_THROUGH, b"alice").await, Ok(Write::Written(1)));
    assert_eq!(io.delete(Role::Running, LET_THROUGH, 1).await, Ok(Write::Written(2)));
    denied(io.take("own", Duration::ZERO).await, "without the let-through key");
    let info = store.queue("own").await.expect("a queue").info().await.expect("memory answers");
    assert_eq!((info.waiting, info.taken), (2, 0));
}

#[tokio::test]
async fn one_check_is_taken_from_its_own_queues_and_no_second_one() {
    let store = store().await;
    let mut io = letting_through(&store).await;
    assert_eq!(io.create(Role::Running, LET_THROUGH, b"alice").await, Ok(Write::Written(1)));
    denied(io.take("foreign", Duration::ZERO).await, "which is none of its own");
    denied(io.oldest_waiting("foreign").await, "which is none of its own");
    let (ticket, _) = io.take("own", Duration::ZERO).await.expect("it has the key").expect("one waits");
    denied(io.take("own", Duration::ZERO).await, "or a second one");
    let foreign = store.queue("foreign").await.expect("a queue").info().await.expect("memory answers");
    assert_eq!((ticket, foreign.taken, io.taken().len()), (1, 0, 1));
}

#[tokio::test]
async fn what_was_not_taken_is_not_handed_back() {
    let store = store().await;
    let bobs = store.queue("own").await.expect("a queue").take(Duration::ZERO).await.expect("memory answers");
    let bobs = bobs.expect("one waits");
    let mut io = letting_through(&store).await;
    assert_eq!(io.create(Role::Running, LET_THROUGH, b"alice").await, Ok(Write::Written(1)));
    for ticket in [0, bobs.ask().sequence, 2, 57] {
        denied(io.hand_back(ticket, Duration::ZERO).await, "which it did not take");
    }
    let (ticket, _) = io.take("own", Duration::ZERO).await.expect("it has the key").expect("one waits");
    assert_eq!(io.hand_back(ticket, Duration::ZERO).await, Ok(()));
    denied(io.hand_back(ticket, Duration::ZERO).await, "which it did not take");
    assert_eq!(bobs.working().await, Ok(()));
}

#[tokio::test]
async fn an_ask_is_shown_as_far_as_its_id_needs() {
    let store = store().await;
    let body = vec![b' '; limits::ASK_SHOWN_BYTES + 1];
    let queue = store.create_queue("long", &QueueConfig { ack_wait: MINUTE, replicas: 1 }).await;
    let queue = queue.expect("a queue");
    queue.put(&body).await.expect("memory takes it");
    let sources = Arc::new([source(&store, "long").await]);
    let mut io = LettingThrough { sources, ..letting_through(&store).await };
    let ask = io.oldest_waiting("long").await.expect("memory answers").expect("one waits");
    assert_eq!(ask.body.len(), limits::ASK_SHOWN_BYTES);
    assert_eq!(io.create(Role::Running, LET_THROUGH, b"alice").await, Ok(Write::Written(1)));
    let (ticket, ask) = io.take("long", MINUTE).await.expect("it has the key").expect("one waits");
    assert_eq!(ask.body.len(), limits::ASK_SHOWN_BYTES);
    // Whoever runs it has all of it.
    assert_eq!(io.taken().get(&ticket).map(|fetched| fetched.taken.ask().body.len()), Some(body.len()));
}

/// In office or not.
struct Office(bool);

#[async_trait]
impl Authority for Office {
    async fn in_office(&self) -> Result<u64, NotInOffice> {
        if self.0 { Ok(7) } else { Err(NotInOffice::Over("bob holds it".into())) }
    }
}

fn planning(store: &Memory, is_in_office: bool) -> Planning {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Planning {
        clock: Clock::by_hand(Steady(100_000_000_000)),
        places: Places::new(&store, &Buckets::default()),
        authority: Arc::new(Office(is_in_office)),
        plan: PLAN.into(),
    }
}

#[tokio::test]
async fn another_plan_and_another_bucket_are_not_written() {
    let store = store().await;
    let mut io = planning(&store, true);
    for (bucket, key) in [
        (Role::Plans, "plan-13"),
        (Role::Plans, "plan-1"),
        (Role::Running, PLAN),
        (Role::Running, LET_THROUGH),
        (Role::Lease, PLAN),
    ] {
        denied(io.create(bucket, key, b"x").await, "to write");
        denied(io.update(bucket, key, b"x", 1).await, "to write");
        denied(io.delete(bucket, key, 1).await, "to write");
    }
    denied(io.get(Role::Lease, PLAN).await, "for the bucket of the leases");
    denied(io.take("own", Duration::ZERO).await, "does not grant");
    for name in [PLANS, RUNNING] {
        assert_eq!(bucket(&store, name).await.last_revision().await, Ok(0));
    }
    assert_eq!(io.create(Role::Plans, PLAN, b"x").await, Ok(Write::Written(1)));
}

#[tokio::test]
async fn a_plan_is_not_written_out_of_office() {
    let store = store().await;
    let plans = bucket(&store, PLANS).await;
    let mut io = planning(&store, false);
    denied(io.create(Role::Plans, PLAN, b"x").await, "bob holds it");
    assert_eq!(plans.create(PLAN, b"bob").await, Ok(Write::Written(1)));
    denied(io.update(Role::Plans, PLAN, b"x", 1).await, "bob holds it");
    denied(io.delete(Role::Plans, PLAN, 1).await, "bob holds it");
    assert_eq!(plans.last_revision().await, Ok(1));
    // Reading is for everybody.
    assert!(matches!(io.get(Role::Plans, PLAN).await, Ok(Reading::Found(_))));
}
