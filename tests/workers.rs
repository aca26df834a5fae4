//! Workers under leases: each kind works on one instance at a time, ends before its lease is given back, and
//! works again whatever befell it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use incumbent::LeaseOptions;
use incumbent::lease::step_down;
use incumbent::store::{Fault, Reading, Store};
use incumbent::workers::{Duty, Event, Worker, Workers, WorkersOptions};
use incumbent_tests::crew::{INTERVAL, Instance, Post, comes};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::world::{BUCKET, LEASE, POLL, TTL, World, policy};

/// Longer than any rest between two tries of a worker that failed thrice, with its jitter.
const LONG: Duration = Duration::from_secs(300);

#[tokio::test(start_paused = true)]
async fn one_of_two_works_and_the_other_at_once_when_it_stops() {
    let world = World::new().await;
    let post = Post::default();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    alice.workers.spawn(LEASE, post.clone());
    comes(&world, TTL, || alice.starts() == 1).await;
    bob.workers.spawn(LEASE, post.clone());
    world.pass(3 * TTL).await;
    assert_eq!((alice.starts(), bob.starts()), (1, 0));

    let (left, _) = world.until(TTL, alice.workers.wait(TTL)).await;
    assert_eq!(left, Vec::<String>::new());
    let ((), took) = world
        .until(TTL, async {
            while bob.starts() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    assert!(took < POLL, "{took:?}");
    assert_eq!(post.most(), 1);
    assert_eq!(alice.events().last(), Some(&Event::Stopped));
}

#[tokio::test(start_paused = true)]
async fn two_of_one_name_in_one_process_are_two_candidates() {
    let world = World::new().await;
    let post = Post::default();
    let alice = Instance::new(&world, "alice").await;
    alice.workers.spawn(LEASE, post.clone());
    alice.workers.spawn(LEASE, post.clone());
    world.pass(3 * TTL).await;
    assert_eq!((alice.starts(), post.most()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_finished_worker_gives_its_lease_back_and_does_not_work_again() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    let run = alice.workers.run("labeler:did:plc:abc", |duty: Duty| async move {
        anyhow::ensure!(duty.epoch()? > 0 && duty.permit()?.is_some());
        Ok(())
    });
    let (finished, _) = world.until(TTL, run).await;
    assert!(finished);
    let bucket = world.faulty.bare().await.expect("there is a bucket");
    let reading = bucket.get("labeler:did:plc:abc").await.expect("memory answers");
    assert!(matches!(reading, Reading::Deleted(_)), "{reading:?}");
    world.pass(LONG).await;
    assert_eq!(alice.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_are_said_and_tried_again_more_and_more_slowly() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let run = alice.workers.run(LEASE, move |_: Duty| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match n {
                0 => bail!("no such table"),
                1 => panic!("index out of bounds"),
                2 => bail!("still none"),
                _ => Ok(()),
            }
        }
    });
    let (finished, took) = world.until(LONG, run).await;
    assert!(finished);
    assert!(took >= (INTERVAL + 2 * INTERVAL + 4 * INTERVAL) * 3 / 4, "{took:?}");
    let expected = [("no such table", 1), ("it panicked: index out of bounds", 2), ("still none", 4)];
    assert_eq!(failures(&alice), expected.map(|(why, times)| (why.to_owned(), INTERVAL * times)));
}

#[tokio::test(start_paused = true)]
async fn an_error_after_long_work_is_the_first_of_a_row_again() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    // How many intervals it works before it fails.
    let works = Mutex::new(vec![0, 0, 9, 0, 0, 0, 0, 0].into_iter());
    let run = alice.workers.run(LEASE, move |_: Duty| {
        let works = works.lock().unwrap_or_else(PoisonError::into_inner).next();
        async move {
            let Some(intervals) = works else { return Ok(()) };
            tokio::time::sleep(INTERVAL * intervals).await;
            bail!("no connection")
        }
    });
    let (finished, _) = world.until(10 * LONG, run).await;
    assert!(finished);
    let rests: Vec<_> = failures(&alice).into_iter().map(|(_, again_in)| again_in).collect();
    assert_eq!(rests, [1, 2, 1, 2, 4, 8, 8, 8].map(|times| INTERVAL * times));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_to_rest_for_ever_after_an_error_does_and_can_be_stopped() {
    let world = World::new().await;
    let alice = Instance::with(&world, "alice", |options| options.interval = Duration::MAX).await;
    alice.workers.spawn(LEASE, |_: Duty| async { bail!("no connection") });
    comes(&world, TTL, || alice.count(|event| matches!(event, Event::Failed { .. })) == 1).await;
    world.pass(LONG).await;
    let (left, _) = world.until(TTL, alice.workers.wait(TTL)).await;
    assert_eq!((left, alice.starts(), alice.events().last()), (vec![], 1, Some(&Event::Stopped)));
}

/// What its workers failed of, and how long they rest after it.
fn failures(instance: &Instance) -> Vec<(String, Duration)> {
    let failure = |event| match event {
        Event::Failed { why, again_in } => Some((why, again_in)),
        _ => None,
    };
    instance.events().into_iter().filter_map(failure).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_lease_was_lost_stands_again_whatever_it_answered() {
    for answers_ok in [true, false] {
        let world = World::new().await;
        let alice = Instance::new(&world, "alice").await;
        alice.workers.spawn(LEASE, move |duty: Duty| async move {
            duty.over().await;
            if answers_ok { Ok(()) } else { bail!("interrupted") }
        });
        comes(&world, TTL, || alice.starts() == 1).await;
        alice.line.always(&Kind::ALL, &Fate::Fails(Fault::Unavailable("the store is away".into())));
        comes(&world, 2 * TTL, || alice.count(|event| *event == Event::Lost) == 1).await;
        assert_eq!(alice.starts(), 1);
        alice.line.heal();
        comes(&world, 3 * TTL, || alice.starts() == 2).await;
        assert_eq!(alice.count(|event| matches!(event, Event::Failed { .. } | Event::Finished)), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_because_its_gate_was_shut_is_neither_finished_nor_failed() {
    for answers_ok in [true, false] {
        let world = World::new().await;
        let alice = Instance::new(&world, "alice").await;
        alice.workers.spawn(LEASE, move |duty: Duty| async move {
            while duty.epoch().is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if answers_ok { Ok(()) } else { bail!("refused") }
        });
        comes(&world, TTL, || alice.starts() == 1).await;
        // The next renewal is refused, and the gate is shut while it is looked into.
        world.faulty.forget(LEASE).await.expect("memory answers");
        comes(&world, INTERVAL, || alice.starts() == 2).await;
        assert_eq!(alice.count(|event| matches!(event, Event::Failed { .. } | Event::Finished)), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_only_after_the_worker_has_ended() {
    let world = World::new().await;
    let post = Post::that_ends_in(Duration::from_secs(8));
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    alice.workers.spawn(LEASE, post.clone());
    comes(&world, TTL, || alice.starts() == 1).await;
    bob.workers.spawn(LEASE, post.clone());
    alice.workers.stop();
    world.pass(Duration::from_secs(7)).await;
    assert!(matches!(world.record().await, Reading::Found(_)));
    assert_eq!(bob.starts(), 0);
    comes(&world, TTL, || bob.starts() == 1).await;
    assert_eq!(post.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_is_cut_off_where_it_waits_and_its_lease_given_back() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    alice.workers.spawn(LEASE, |_: Duty| std::future::pending());
    comes(&world, TTL, || alice.starts() == 1).await;
    let (left, took) = world.until(TTL, alice.workers.wait(TTL)).await;
    assert_eq!(left, Vec::<String>::new());
    assert!(took >= Duration::from_secs(10), "{took:?}");
    assert!(matches!(world.record().await, Reading::Deleted(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_be_cut_off_is_abandoned_and_its_gate_shut() -> Result<()> {
    use incumbent::clock::Clock;
    use incumbent::store::BucketConfig;
    use incumbent::store::memory::Memory;

    let memory = Memory::new(Clock::machine());
    let bucket =
        memory.create_bucket(BUCKET, &BucketConfig { ttl: Duration::from_secs(60), replicas: 1 }).await?;
    let store: Arc<dyn Store> = Arc::new(memory);
    let options = WorkersOptions { patience: Duration::from_millis(50), ..WorkersOptions::default() };
    let workers = Workers::new(policy().await, &store, BUCKET, options);
    let (duty_of, told) = tokio::sync::oneshot::channel();
    let duty_of = Mutex::new(Some(duty_of));
    let release = Arc::new(AtomicBool::new(false));
    let released = release.clone();
    workers.spawn(LEASE, move |duty: Duty| {
        let tell = duty_of.lock().unwrap_or_else(PoisonError::into_inner).take();
        let released = released.clone();
        async move {
            let _ = tell.map(|tell| tell.send(duty));
            // Never waits, so nothing can cut it off.
            while !released.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    });
    let duty = told.await?;
    assert!(duty.epoch().is_ok());
    let left = workers.wait(Duration::from_secs(30)).await;
    release.store(true, Ordering::SeqCst);
    assert_eq!(left, Vec::<String>::new(), "its stand has ended");
    assert!(duty.epoch().is_err(), "what still runs does not act");
    assert!(matches!(bucket.get(LEASE).await?, Reading::Found(_)), "left to expire");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_worker_stands_again_when_it_has_ended_after_all() -> Result<()> {
    use incumbent::clock::Clock;
    use incumbent::store::BucketConfig;
    use incumbent::store::memory::Memory;

    let memory = Memory::new(Clock::machine());
    let config = BucketConfig { ttl: Duration::from_secs(1), replicas: 1 };
    memory.create_bucket(BUCKET, &config).await?;
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let options = WorkersOptions {
        patience: Duration::from_millis(50),
        on_event: Arc::new(move |_, event| drop(tell.send(event.clone()))),
        ..WorkersOptions::default()
    };
    let workers = Workers::new(policy().await, &store, BUCKET, options);
    let release = Arc::new(AtomicBool::new(false));
    let released = release.clone();
    workers.spawn(LEASE, move |duty: Duty| {
        let released = released.clone();
        async move {
            while !released.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            duty.over().await;
            Ok(())
        }
    });
    let mut next = async || told.recv().await.expect("there is more to come");
    assert!(matches!(next().await, Event::Started { .. }));
    memory.drop_bucket(BUCKET);
    assert!(matches!(next().await, Event::Abandoned { .. }));
    memory.create_bucket(BUCKET, &config).await?;
    let early = tokio::time::timeout(Duration::from_millis(300), next()).await;
    assert!(early.is_err(), "beside itself: {early:?}");
    release.store(true, Ordering::SeqCst);
    assert!(matches!(next().await, Event::Started { .. }));
    assert_eq!(workers.wait(Duration::from_secs(30)).await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_its_lease_stops_and_leaves_nothing_behind() {
    let world = World::new().await;
    let post = Post::default();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    alice.workers.spawn(LEASE, post.clone());
    comes(&world, TTL, || alice.starts() == 1).await;
    let before = world.record().await;
    bob.workers.spawn(LEASE, post.clone());
    world.pass(POLL).await;
    let (left, took) = world.until(TTL, bob.workers.wait(TTL)).await;
    assert_eq!(left, Vec::<String>::new());
    assert!(took < POLL, "{took:?}");
    assert_eq!(world.record().await, before);
    assert_eq!(bob.line.ops_of(Kind::Delete), []);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_not_well_steps_down_and_another_instance_works() {
    struct Wedged(Arc<AtomicBool>, Post);

    #[async_trait]
    impl Worker for Wedged {
        async fn work(&self, duty: Duty) -> Result<()> {
            self.1.work(duty).await
        }

        fn healthy(&self) -> Result<(), String> {
            if self.0.load(Ordering::SeqCst) { Err("no event for a minute".into()) } else { Ok(()) }
        }
    }

    let world = World::new().await;
    let (wedged, post) = (Arc::new(AtomicBool::new(false)), Post::default());
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    alice.workers.spawn(LEASE, Wedged(wedged.clone(), post.clone()));
    comes(&world, TTL, || alice.starts() == 1).await;
    bob.workers.spawn(LEASE, post.clone());
    world.pass(TTL).await;
    wedged.store(true, Ordering::SeqCst);
    comes(&world, TTL, || bob.starts() == 1).await;
    let why = "it is not well: no event for a minute".to_owned();
    assert!(alice.events().contains(&Event::SteppingDown { why }), "{:?}", alice.events());
    assert_eq!(post.most(), 1);
    world.pass(INTERVAL / 2).await;
    assert_eq!(alice.starts(), 1, "it rests before it stands again");
}

#[tokio::test(start_paused = true)]
async fn one_that_gave_way_lets_others_go_first() -> Result<()> {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    alice.workers.spawn(LEASE, Post::default());
    comes(&world, TTL, || alice.starts() == 1).await;
    step_down(policy().await, &world.faulty.bare().await?, &world.clock, LEASE, "ops").await?;
    comes(&world, TTL, || alice.count(|event| matches!(event, Event::SteppingDown { .. })) == 1).await;
    world.pass(INTERVAL / 2).await;
    assert_eq!(alice.starts(), 1);
    comes(&world, INTERVAL, || alice.starts() == 2).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_whose_process_is_not_well_steps_down_though_the_worker_is() {
    let world = World::new().await;
    let change = |options: &mut WorkersOptions| {
        let lease = options.lease.clone();
        options.lease = Arc::new(move |name| LeaseOptions {
            healthy: Arc::new(|| Err("no memory is left".into())),
            ..lease(name)
        });
    };
    let alice = Instance::with(&world, "alice", change).await;
    alice.workers.spawn(LEASE, Post::default());
    let why = "it is not well: no memory is left".to_owned();
    comes(&world, TTL, || alice.events().contains(&Event::SteppingDown { why: why.clone() })).await;
}

#[tokio::test(start_paused = true)]
async fn a_renew_interval_that_does_not_fit_the_bucket_is_made_to() {
    let world = World::new().await;
    let change = |options: &mut WorkersOptions| {
        let lease = options.lease.clone();
        options.lease = Arc::new(move |name| {
            let mut options = lease(name);
            options.timing.renew_every = Some(2 * TTL);
            options
        });
    };
    let alice = Instance::with(&world, "alice", change).await;
    alice.workers.spawn(LEASE, Post::default());
    comes(&world, TTL, || alice.starts() == 1).await;
    world.pass(3 * TTL).await;
    assert_eq!(alice.count(|event| *event == Event::Lost), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_stop_does_not_so_much_as_stand() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    alice.workers.stop();
    let (finished, _) = world.until(TTL, alice.workers.run(LEASE, Post::default())).await;
    assert_eq!((finished, alice.events(), alice.line.ops()), (false, vec![Event::Stopped], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_stand_that_is_dropped_leaves_no_worker_at_work() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    let working = Arc::new(());
    let works = working.clone();
    let run = alice.workers.run(LEASE, move |_: Duty| {
        let works = works.clone();
        async move {
            std::future::pending::<()>().await;
            drop(works);
            Ok(())
        }
    });
    let run = tokio::spawn(run);
    comes(&world, TTL, || alice.starts() == 1).await;
    world.settle().await;
    assert_eq!(Arc::strong_count(&working), 3);
    run.abort();
    world.settle().await;
    assert_eq!(Arc::strong_count(&working), 1);
}

#[tokio::test(start_paused = true)]
async fn without_election_a_worker_just_works() {
    let world = World::new().await;
    let alice = Instance::with(&world, "alice", |options| options.election = false).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let run = alice.workers.run(LEASE, move |duty: Duty| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            anyhow::ensure!(duty.epoch()? == 0 && duty.permit()?.is_none());
            if n == 0 { bail!("not yet") } else { Ok(()) }
        }
    });
    let (finished, _) = world.until(LONG, run).await;
    assert!(finished);
    assert_eq!((alice.starts(), alice.line.ops()), (2, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_opened_is_said_once_and_ends_no_election() {
    let world = World::new().await;
    let alice = Instance::new(&world, "alice").await;
    alice.line.always(&Kind::ALL, &Fate::Fails(Fault::Denied("the file is read-only".into())));
    alice.workers.spawn(LEASE, Post::default());
    world.pass(2 * TTL).await;
    assert_eq!(alice.count(|event| matches!(event, Event::NotStanding { .. })), 1);
    alice.line.heal();
    comes(&world, TTL, || alice.starts() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_and_started_fast_works_again() {
    let world = World::new().await;
    let post = Post::default();
    for round in 0..5 {
        let alice = Instance::new(&world, "alice").await;
        alice.workers.spawn(LEASE, post.clone());
        comes(&world, TTL, || alice.starts() == 1).await;
        let (left, _) = world.until(TTL, alice.workers.wait(TTL)).await;
        assert_eq!(left, Vec::<String>::new(), "round {round}");
    }
    assert_eq!(post.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_to_give_way_steps_down_and_lets_others_go_first() -> Result<()> {
    let world = World::new().await;
    let post = Post::default();
    let (alice, bob) = (Instance::new(&world, "alice").await, Instance::new(&world, "bob").await);
    alice.workers.spawn(LEASE, post.clone());
    comes(&world, TTL, || alice.starts() == 1).await;
    bob.workers.spawn(LEASE, post.clone());
    world.pass(TTL).await;

    let bucket = world.faulty.bare().await?;
    step_down(policy().await, &bucket, &world.clock, LEASE, "ops").await?;
    comes(&world, TTL, || bob.starts() == 1).await;

    let why = "ops asked it to give way".to_owned();
    assert!(alice.events().contains(&Event::SteppingDown { why }), "{:?}", alice.events());
    assert_eq!(alice.count(|event| matches!(event, Event::Lost | Event::Failed { .. })), 0);
    assert_eq!(post.most(), 1);
    // And stands again: it works as soon as bob is asked in turn.
    world.pass(2 * INTERVAL).await;
    step_down(policy().await, &bucket, &world.clock, LEASE, "ops").await?;
    comes(&world, TTL, || alice.starts() == 2).await;
    Ok(())
}
