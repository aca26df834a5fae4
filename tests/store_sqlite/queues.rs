//! Work queues in a file: reboots, hostile rows, and the other processes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use incumbent::clock::{Clock, Steady};
use incumbent::limits::ASK_BYTES;
use incumbent::store::queue::{Queue, QueueConfig};
use incumbent::store::sqlite::{ClockRun, Sqlite};
use incumbent::store::{Fault, Store};

use super::{GENEROUS, Home};

const ACK_WAIT: Duration = Duration::from_secs(15);
const NANO: Duration = Duration::from_nanos(1);
const NOW: Duration = Duration::ZERO;

async fn queue(home: &Home) -> Result<Arc<dyn Queue>, Fault> {
    home.open().await?.create_queue("checks", &QueueConfig { ack_wait: ACK_WAIT, replicas: 1 }).await
}

/// The queue as a process sees it after the boot of this name, `clock` starting anew.
async fn booted(home: &Home, clock: &Clock, boot: &str) -> Result<Arc<dyn Queue>, Fault> {
    let store = Sqlite::open_in(&home.path(), clock.clone(), ClockRun::named(boot), GENEROUS).await?;
    store.create_queue("checks", &QueueConfig { ack_wait: ACK_WAIT, replicas: 1 }).await
}

#[tokio::test]
async fn after_a_reboot_an_ask_is_kept_for_its_whole_wait_from_its_first_sight() -> Result<()> {
    // The new clock may stand below the old stamp, at it, or far above it; boots sort either way.
    for (uptime, boot) in [(0, "b"), (1_000, "b"), (1_014, "a"), (100_000, "a"), (100_000, "c")] {
        for delay in [None, Some(ACK_WAIT * 4)] {
            let home = Home::new()?;
            let before = Clock::by_hand(Steady(1_000_000_000_000));
            let queue = booted(&home, &before, "b0").await?;
            queue.put(b"check it").await?;
            let first = queue.take(NOW).await?.context("it waits")?;
            if let Some(delay) = delay {
                first.hand_back(delay).await?;
            }
            let wait = delay.unwrap_or(ACK_WAIT);
            before.advance(wait - NANO);

            let after = Clock::by_hand(Steady(uptime * 1_000_000_000));
            let queue = booted(&home, &after, boot).await?;
            // First sight is when it is looked at, not when the file was opened.
            after.advance(ACK_WAIT * 10);
            ensure!(queue.oldest_waiting().await?.is_none(), "{uptime} {boot}: it waits already");
            after.advance(wait - NANO);
            ensure!(queue.take(NOW).await?.is_none(), "{uptime} {boot}: given early");
            after.advance(NANO);
            let again = queue.take(NOW).await?.with_context(|| format!("{uptime} {boot}: not given"))?;
            ensure!(again.ask() == first.ask() && again.deliveries() == 2, "{again:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_take_is_a_first_sight_too_and_what_was_never_taken_waits_for_nothing() -> Result<()> {
    let home = Home::new()?;
    let clock = Clock::by_hand(Steady(1_000_000_000_000));
    let queue = booted(&home, &clock, "first").await?;
    let (one, two) = (queue.put(b"1").await?, queue.put(b"2").await?);
    ensure!(queue.take(NOW).await?.context("it waits")?.ask().sequence == one);
    clock.advance(ACK_WAIT * 10);

    let queue = booted(&home, &clock, "second").await?;
    ensure!(queue.take(NOW).await?.context("it waits")?.ask().sequence == two);
    clock.advance(ACK_WAIT - NANO);
    ensure!(queue.take(NOW).await?.is_none(), "given early");
    clock.advance(NANO);
    for sequence in [one, two] {
        ensure!(queue.take(NOW).await?.context("it came due")?.ask().sequence == sequence);
    }
    Ok(())
}

#[tokio::test]
async fn a_taker_in_another_run_of_the_clock_may_finish() -> Result<()> {
    let home = Home::new()?;
    let clock = Clock::by_hand(Steady(1_000_000_000_000));
    let queue = booted(&home, &clock, "first").await?;
    queue.put(b"check it").await?;
    let first = queue.take(NOW).await?.context("it waits")?;
    let after = booted(&home, &clock, "second").await?;
    ensure!(after.oldest_waiting().await?.is_none());
    // Its word is stamped by the run that its process knows.
    first.working().await?;
    first.done().await?;
    ensure!(after.info().await?.taken == 0);
    Ok(())
}

#[tokio::test]
async fn a_stamp_that_lies_ahead_is_not_believed_for_ever() -> Result<()> {
    let home = Home::new()?;
    let queue = queue(&home).await?;
    queue.put(b"check it").await?;
    queue.take(NOW).await?.context("it waits")?;
    // As a machine that was set back to an earlier picture of itself finds it.
    let ahead =
        "UPDATE asks SET heard_ns = heard_ns + 1000000000000000, again_ns = again_ns + 1000000000000000";
    home.by_hand()?.execute(ahead, [])?;
    ensure!(queue.oldest_waiting().await?.is_none());
    home.clock.advance(ACK_WAIT - NANO);
    ensure!(queue.take(NOW).await?.is_none());
    home.clock.advance(NANO);
    ensure!(queue.take(NOW).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn more_asks_than_one_look_settles_come_due_one_look_after_the_other() -> Result<()> {
    let home = Home::new()?;
    let queue = queue(&home).await?;
    // Put and taken one by one it would be a minute of syncs.
    home.by_hand()?.execute_batch(
        "WITH RECURSIVE n (sequence) AS (SELECT 1 UNION ALL SELECT sequence + 1 FROM n WHERE sequence < 2500)
         INSERT INTO asks (queue, sequence, deliveries, owned, run, heard_ns, again_ns, body)
         SELECT created, sequence, 1, 0, 'another', 0, 5, x'' FROM queues, n;
         UPDATE queues SET last_sequence = 2500",
    )?;
    let never_taken = queue.put(b"check it").await?;
    ensure!(never_taken == 2501);
    let taken = async |looks: u32| {
        for _ in 0..looks {
            queue.oldest_waiting().await?;
        }
        let counted = "SELECT count(*) FROM asks WHERE again_ns IS NULL AND deliveries > 0";
        Ok::<u32, anyhow::Error>(home.by_hand()?.query_row(counted, [], |row| row.get(0))?)
    };
    ensure!(taken(2).await? == 0, "all are of another run of the clock");
    home.clock.advance(NANO * 10);
    ensure!(taken(1).await? == 1000);
    home.clock.advance(NANO * 10);
    ensure!(taken(3).await? == 2500);
    for sequence in 1..4 {
        let next = queue.take(NOW).await?.context("they wait")?;
        ensure!(next.ask().sequence == sequence && next.deliveries() == 2, "{next:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_queue_raised_again_is_not_touched_by_takers_of_the_old_one() -> Result<()> {
    let home = Home::new()?;
    let old = queue(&home).await?;
    old.put(b"check it").await?;
    let first = old.take(NOW).await?.context("it waits")?;
    home.by_hand()?.execute_batch("PRAGMA foreign_keys = ON; DELETE FROM queues")?;
    let missing = old.put(b"check it").await;
    ensure!(matches!(missing, Err(Fault::MissingBucket(_))), "{missing:?}");

    let new = queue(&home).await?;
    new.put(b"check that").await?;
    let again = new.take(NOW).await?.context("it waits")?;
    ensure!(again.ask().sequence == first.ask().sequence && again.deliveries() == first.deliveries());
    let told = first.done().await;
    ensure!(matches!(told, Err(Fault::Denied(_))), "{told:?}");
    again.done().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_behind_a_lock_is_unavailable_and_took_nothing() -> Result<()> {
    let home = Home::new()?;
    queue(&home).await?.put(b"check it").await?;
    let timeout = Duration::from_millis(400);
    let queue = Sqlite::open(&home.path(), home.clock.clone(), timeout).await?.queue("checks").await?;
    let other = home.by_hand()?;
    other.execute_batch("BEGIN EXCLUSIVE")?;
    let fault = queue.take(NOW).await.err().context("it was locked")?;
    let Fault::Unavailable(told) = &fault else { anyhow::bail!("{fault:?}") };
    ensure!(told.contains("checks") && told.contains("locked") && told.contains("leases.db"), "{told}");
    ensure!(queue.oldest_waiting().await?.is_some(), "reads go on");
    other.execute_batch("ROLLBACK")?;
    ensure!(queue.take(NOW).await?.context("it waits")?.deliveries() == 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_thread_of_a_dropped_take_still_takes_is_handed_back() -> Result<()> {
    let home = Home::new()?;
    let queue = queue(&home).await?;
    let other = home.by_hand()?;
    for round in 1..=10 {
        let sequence = queue.put(b"check it").await?;
        other.execute_batch("BEGIN EXCLUSIVE")?;
        let dropped = tokio::time::timeout(Duration::from_millis(20 * round), queue.take(NOW)).await;
        ensure!(dropped.is_err(), "{dropped:?}");
        other.execute_batch("ROLLBACK")?;
        let taken = queue.take(GENEROUS).await?.context("it is lost")?;
        ensure!(taken.ask().sequence == sequence, "{taken:?}");
        taken.done().await?;
        if taken.deliveries() == 2 {
            return Ok(());
        }
        // On a busy machine it was dropped before its thread came to the lock.
    }
    anyhow::bail!("no thread of a dropped take took anything")
}

#[tokio::test]
async fn an_ask_over_the_limit_put_there_by_hand_is_too_large() -> Result<()> {
    let home = Home::new()?;
    let queue = queue(&home).await?;
    queue.put(b"check it").await?;
    for size in [ASK_BYTES + 1, 4 << 20] {
        home.by_hand()?.execute("UPDATE asks SET body = zeroblob(?1)", [size])?;
        for fault in [queue.oldest_waiting().await.err(), queue.take(NOW).await.err()] {
            let Some(Fault::TooLarge(told)) = &fault else { anyhow::bail!("{fault:?}") };
            ensure!(told.contains(&size.to_string()) && told.contains(&ASK_BYTES.to_string()), "{told}");
            ensure!(told.contains("the ask 1") && told.contains("leases.db"), "{told}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_this_program_never_writes_is_a_fault_and_no_panic() -> Result<()> {
    for harm in [
        "UPDATE queues SET ack_wait_ns = -5",
        "UPDATE queues SET last_sequence = -5",
        "UPDATE queues SET last_sequence = 9223372036854775807",
        "UPDATE asks SET sequence = -5",
        "UPDATE asks SET deliveries = -5",
        "UPDATE asks SET deliveries = 9223372036854775807",
        "UPDATE asks SET stored_ns = -5",
        "UPDATE asks SET run = 'x', heard_ns = -9223372036854775807, again_ns = 9223372036854775807",
        "UPDATE asks SET sequence = last_sequence + 1 FROM queues",
        "DROP TABLE asks",
        "ALTER TABLE asks RENAME COLUMN body TO other",
        "DELETE FROM queues",
    ] {
        let home = Home::new()?;
        let queue = queue(&home).await?;
        queue.put(b"check it").await?;
        home.by_hand()?.execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {harm}"))?;
        let answers = [
            queue.info().await.err(),
            queue.oldest_waiting().await.err(),
            queue.put(b"check that").await.err(),
            queue.take(NOW).await.err(),
        ];
        ensure!(answers.iter().any(Option::is_some), "{harm}");
    }
    Ok(())
}
