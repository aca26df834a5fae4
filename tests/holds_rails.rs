//! A policy that lies about checks runs none by it, and what it touched is put back.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use incumbent::holds::{Builder, BuilderOptions, PLANS, RUNNING};
use incumbent::store::{Reading, Store};
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::Guest;
use incumbent_tests::site::{CHECKS, GROUPS, Said, Seat};

/// Creates the let-through key, its revision left at 2064.
const CREATE: &str = "(call $create (i32.const 2) (i32.const 528) (i32.const 11) (i32.const 16) (i32.const 4) (i32.const 2048))";
/// The revision that `CREATE` won at.
const REVISION: &str = "(i64.load (i32.const 2064))";
/// Takes the first ask of the checks' queue.
const TAKE: &str = "(call $take (i32.const 512) (i32.const 6) (i64.const 0) (i32.const 3072))";

/// `let-one-through` that answers this ticket of this queue at this revision, each an expression.
fn admitted(queue: &str, length: u32, ticket: u64, revision: &str) -> String {
    format!(
        "(i32.store (i32.const 1288) (i32.const 1))
         (i32.store (i32.const 1296) {queue}) (i32.store (i32.const 1300) (i32.const {length}))
         (i64.store (i32.const 1304) (i64.const {ticket}))
         (i32.store (i32.const 1328) (i32.const 576)) (i32.store (i32.const 1332) (i32.const 3))
         (i64.store (i32.const 1336) {revision}) (i32.const 1280)"
    )
}

const OF_CHECKS: &str = "(i32.const 512)";

/// Checks always wait for plan-12.
fn liar() -> Guest {
    Guest::new()
        .field(
            r#"(import "incumbent:policy/kv@0.1.0" "create" (func $create (param i32 i32 i32 i32 i32 i32)))
               (import "incumbent:policy/queue@0.1.0" "take" (func $take (param i32 i32 i64 i32)))
               (data (i32.const 512) "checks") (data (i32.const 528) "let-through")
               (data (i32.const 544) "plan-12") (data (i32.const 560) "\20\02\00\00\07\00\00\00")
               (data (i32.const 576) "now") (data (i32.const 592) "group-checks")"#,
        )
        .export(
            "holds#assess",
            "(i32.store (i32.const 1028) (i32.const 1)) (i32.store (i32.const 1032) (i32.const 560))
             (i32.store (i32.const 1036) (i32.const 1)) (i32.const 1024)",
        )
}

/// What alice runs and is told under this policy, in a store with two checks, none old.
async fn alice(seat: &Seat, guest: Guest) -> Result<(Option<u64>, Said)> {
    let policy = Policy::load(&Runtime::new()?, &guest.component()?).await?;
    for queue in [CHECKS, CHECKS, GROUPS] {
        seat.ask(queue, Duration::ZERO).await;
    }
    let said = Said::default();
    let told = said.clone();
    let mut options = BuilderOptions::new("alice");
    options.checks = vec![CHECKS.into(), GROUPS.into()];
    options.clock = seat.clock.clone();
    options.on_event = Arc::new(move |event| told.push(event));
    let store: Arc<dyn Store> = Arc::new(seat.memory.clone());
    let job = Builder::open(&policy, &store, options).await?.try_next().await;
    let sequence = job.as_ref().map(|job| job.ask().sequence);
    drop(job);
    seat.settle().await;
    Ok((sequence, said))
}

#[tokio::test(start_paused = true)]
async fn a_check_that_was_taken_under_the_key_is_run() -> Result<()> {
    let seat = Seat::new().await;
    let guest = liar()
        .export("holds#let-one-through", &format!("{CREATE} {TAKE} {}", admitted(OF_CHECKS, 6, 1, REVISION)));
    let (ran, said) = alice(&seat, guest).await?;
    assert_eq!(ran, Some(1), "{said:?}");
    // Keeping and dropping the key are the policy's too, and this one has no such thing.
    let [trouble] = &said.troubles()[..] else { panic!("{said:?}") };
    assert!(trouble.starts_with("the let-through key cannot be dropped, and ages out: "), "{trouble}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_check_that_was_not_taken_under_the_key_is_not_run() -> Result<()> {
    let misled = |ticket: u64, queue: &str| {
        format!("the policy admitted the ask {ticket} of the queue {queue:?}, which it did not take")
    };
    let never = |revision| {
        format!(
            "the policy is not believed: it answered a tenure at revision {revision}, which this lease object never wrote"
        )
    };
    let of = |queue, length, ticket, revision| admitted(queue, length, ticket, revision);
    let cases = [
        ("nothing was taken", format!("{CREATE} {}", of(OF_CHECKS, 6, 1, REVISION)), misled(1, CHECKS)),
        (
            "another ask was taken",
            format!("{CREATE} {TAKE} {}", of(OF_CHECKS, 6, 2, REVISION)),
            misled(2, CHECKS),
        ),
        (
            "a queue of its own making",
            format!("{CREATE} {TAKE} {}", of("(i32.const 528)", 11, 1, REVISION)),
            misled(1, "let-through"),
        ),
        // It is kept by the ack wait of the queue that it came from.
        (
            "another queue of one's own",
            format!("{CREATE} {TAKE} {}", of("(i32.const 592)", 12, 1, REVISION)),
            misled(1, GROUPS),
        ),
        ("a key never written", of(OF_CHECKS, 6, 1, "(i64.const 57)"), never(57)),
        ("another revision", format!("{CREATE} {TAKE} {}", of(OF_CHECKS, 6, 1, "(i64.const 57)")), never(57)),
        ("a trap at the end", format!("{CREATE} {TAKE} unreachable"), "holds.let-one-through".into()),
    ];
    for (what, body, says) in cases {
        let seat = Seat::new().await;
        let (ran, said) = alice(&seat, liar().export("holds#let-one-through", &body)).await?;
        assert_eq!(ran, None, "{what}");
        let [trouble] = &said.troubles()[..] else { panic!("{what}: {said:?}") };
        assert!(
            trouble.starts_with("no check can be let through: ") && trouble.contains(&says),
            "{what}: {trouble}"
        );
        // What it took is back at once, and the key is free.
        assert!(!matches!(seat.key().await, Reading::Found(_)), "{what}");
        let first = seat.queue(CHECKS).await.oldest_waiting().await?.map(|ask| ask.sequence);
        assert_eq!(first, Some(1), "{what}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_bucket_is_out_of_reach() -> Result<()> {
    for role in [0, 1] {
        let seat = Seat::new().await;
        let create = CREATE.replacen("(i32.const 2)", &format!("(i32.const {role})"), 1);
        let body = format!("{create} {TAKE} {}", admitted(OF_CHECKS, 6, 1, "(i64.const 1)"));
        let (ran, said) = alice(&seat, liar().export("holds#let-one-through", &body)).await?;
        assert_eq!((ran, said.troubles().len()), (None, 1));
        for name in [PLANS, RUNNING] {
            assert_eq!(seat.bucket(name).await.last_revision().await?, 0);
        }
    }
    Ok(())
}
