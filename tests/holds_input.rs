//! Names, queues, keys and asks that do not fit: refused with words that help, or read on the safe side.

use std::sync::Arc;
use std::time::Duration;

use incumbent::holds::{Buckets, BuilderOptions, HoldsError, Kind, LET_THROUGH, RUNNING, status};
use incumbent::store::queue::QueueConfig;
use incumbent::store::{Fault, Store as _};
use incumbent_tests::site::{AFTER, CHECKS, Seat};
use incumbent_tests::world::policy;

const MS: Duration = Duration::from_millis(1);

/// What a builder with such options is told.
async fn misfit(seat: &Seat, change: impl FnOnce(&mut BuilderOptions)) -> String {
    match seat.builder_with("alice", change).await.map(|stand| stand.builder) {
        Err(HoldsError::Misfit(text)) => text,
        other => panic!("it does not fit: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_builders_name_that_does_not_fit_is_refused() {
    let seat = Seat::new().await;
    for name in [String::new(), "x".repeat(10_000), "é".repeat(201), "al\nice".into(), "alice\u{7f}".into()]
    {
        let text = misfit(&seat, |options| options.builder.clone_from(&name)).await;
        assert!(text.contains("1 to 200 printable characters") && text.len() < 200, "{text}");
    }
    for name in ["é".repeat(200), "build seat 1".into(), r#""alice""#.into()] {
        seat.builder_with("alice", |options| options.builder = name).await.expect("it fits");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_and_a_poll_that_do_not_fit_are_refused() {
    let seat = Seat::new().await;
    let none = misfit(&seat, |options| {
        options.deliveries = None;
        options.checks.clear();
    });
    assert!(none.await.contains("without queues"));
    let twice = misfit(&seat, |options| options.checks = vec![CHECKS.into(), "b".into(), CHECKS.into()]);
    assert_eq!(twice.await, "the queue checks is named twice");
    let both = misfit(&seat, |options| options.deliveries = Some(CHECKS.into()));
    assert_eq!(both.await, "the queue checks is named twice");
    let many = misfit(&seat, |options| options.checks = (0..33).map(|n| format!("checks-{n}")).collect());
    assert_eq!(many.await, "33 queues of checks; the limit is 32");
    seat.builder_with("alice", |options| options.deliveries = None).await.expect("of checks alone");
    seat.builder_with("alice", |options| options.checks.clear()).await.expect("of deliveries alone");
    assert!(misfit(&seat, |options| options.poll = Duration::ZERO).await.contains("poll of zero"));
}

#[tokio::test(start_paused = true)]
async fn as_many_queues_as_the_limit_are_served() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let names: Vec<_> = (0..32).map(|n| format!("checks-{n}")).collect();
    for name in &names {
        seat.memory.create_queue(name, &QueueConfig { ack_wait: AFTER, replicas: 1 }).await?;
    }
    let alice = seat.builder_with("alice", |options| options.checks.clone_from(&names)).await?;
    seat.builds("plan-12").await;
    // Each shows as much of an ask as is ever shown.
    for name in &names {
        seat.put(name, &" ".repeat(100 << 10)).await;
    }
    seat.ask("checks-31", AFTER).await;
    // An old one behind a young one of its queue is not seen.
    assert!(alice.builder.try_next().await.is_none());
    assert_eq!(alice.said.troubles(), [""; 0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there_is_refused_with_the_command_that_makes_it() {
    let seat = Seat::new().await;
    for change in
        [(|options| options.deliveries = Some("deliverys".into())) as fn(&mut BuilderOptions), |options| {
            options.checks.push("deliverys".into())
        }]
    {
        let Err(HoldsError::Store(Fault::MissingBucket(text))) =
            seat.builder_with("alice", change).await.map(|stand| stand.builder)
        else {
            panic!("it is not there")
        };
        assert!(text.contains("incumbent queue create deliverys"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ack_wait_that_no_builder_can_keep_is_refused() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    for (name, ack_wait) in [("hasty", 999 * MS), ("quick", 1000 * MS)] {
        seat.memory.create_queue(name, &QueueConfig { ack_wait, replicas: 1 }).await?;
    }
    let text = misfit(&seat, |options| options.checks = vec!["hasty".into()]).await;
    assert!(text.contains("999ms") && text.contains("at least 1s"), "{text}");
    seat.builder_with("alice", |options| options.checks = vec!["quick".into()]).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_let_through_value_that_is_no_json_is_shown_as_none_and_stays() -> anyhow::Result<()> {
    let seat = Seat::new().await;
    let alice = seat.builder("alice").await;
    let running = seat.bucket(RUNNING).await;
    seat.builds("plan-12").await;
    seat.ask(CHECKS, AFTER).await;
    let store = Arc::new(seat.memory.clone()) as _;
    for value in [&b"hello"[..], b"", b"{}", b"[1]", b"\xff\xfe", br#"{"builder":7,"since":"x"}"#] {
        running.create(LET_THROUGH, value).await?;
        let report = status(policy().await, &store, &Buckets::default(), &seat.clock).await?;
        assert_eq!((report.plans.as_slice(), report.let_through), (&["plan-12".to_owned()][..], None));
        assert!(alice.builder.try_next().await.is_none());
        let revision = running.last_revision().await?;
        running.delete(LET_THROUGH, revision, None).await?;
    }
    assert_eq!(alice.said.troubles(), [""; 0]);
    Ok(())
}

/// Asks that say no time of their own are as old as their queue says.
#[tokio::test(start_paused = true)]
async fn an_ask_without_a_time_in_its_id_has_its_queues() {
    let bodies = [
        "",
        "not json",
        "{}",
        "[]",
        r#"{"id":7}"#,
        r#"{"id":""}"#,
        r#"{"id":"build-"}"#,
        r#"{"id":"build-12"}"#,
        r#"{"id":"build-+12-x"}"#,
        // Before 1970.
        r#"{"id":"build--5-x"}"#,
        r#"{"id":"build-99999999999999999999999-x"}"#,
        r#"{"id":"a check"}"#,
    ];
    for body in bodies {
        let seat = Seat::new().await;
        let alice = seat.builder("alice").await;
        seat.put(CHECKS, body).await;
        seat.clock.advance(AFTER - MS);
        seat.builds("plan-12").await;
        assert!(alice.builder.try_next().await.is_none(), "{body}");
        seat.clock.advance(MS);
        let job = alice.builder.try_next().await.unwrap_or_else(|| panic!("{body} is old enough"));
        assert!(matches!(job.kind(), Kind::LetThrough { .. }), "{body}");
        assert_eq!(job.ask().body, body.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_ahead_of_the_clock_is_of_now() {
    // Tomorrow, the year 5138, the end of 64 bits, and a UUIDv7 and a ULID of the last millisecond there is.
    let ids = [
        "build-1800090000000-x",
        "build-99999999999999-x",
        "build-18446744073709551615-x",
        "ffffffff-ffff-7fff-bfff-ffffffffffff",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ];
    for id in ids {
        let seat = Seat::new().await;
        let alice = seat.builder("alice").await;
        seat.put(CHECKS, &format!(r#"{{"id":"{id}"}}"#)).await;
        seat.clock.advance(AFTER);
        seat.builds("plan-12").await;
        assert!(alice.builder.try_next().await.is_none(), "{id}");
        seat.has_built("plan-12").await;
        // As usual it is taken like any other.
        let job = alice.builder.try_next().await.expect("nothing builds");
        assert_eq!(job.id().as_deref(), Some(id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_uuid_and_a_ulid_say_when_they_were_asked() {
    // 2027-01-15T08:30:00Z, half an hour before the seat's beginning, and a millisecond later.
    for (ms, is_old) in [(1_800_001_800_000, true), (1_800_001_800_001, false)] {
        let seat = Seat::new().await;
        let alice = seat.builder("alice").await;
        seat.builds("plan-12").await;
        for id in [uuid7(ms), ulid(ms)] {
            seat.put(CHECKS, &format!(r#"{{"id":"{id}"}}"#)).await;
            let job = alice.builder.try_next().await;
            assert_eq!(job.is_some(), is_old, "{id}");
            if let Some(job) = job {
                job.done().await.expect("it is alice's");
            }
        }
    }
}

fn uuid7(ms: u64) -> String {
    format!("{:08x}-{:04x}-7000-8000-000000000000", ms >> 16, ms & 0xffff)
}

fn ulid(ms: u64) -> String {
    let digit = |at: u32| char::from(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(ms >> (5 * at) & 31) as usize]);
    (0..10).rev().map(digit).chain("0000000000000000".chars()).collect()
}
