//! Takers that wait, go away, or are many: rules 2, 6 and 7.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{GENEROUS, LONG, SHORT, Subject, nothing, taken};

pub(super) async fn a_take_waits_for_what_another_connection_puts<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (alice, bob) = (subject.queue().await?, subject.queue().await?);
    let asked = Instant::now();
    let put = async {
        tokio::time::sleep(SHORT).await;
        bob.put(b"check it").await
    };
    let (taken, sequence) = tokio::try_join!(alice.take(GENEROUS), put)?;
    let taken = taken.context("it waited for nothing")?;
    ensure!(taken.ask().sequence == sequence && taken.deliveries() == 1, "{taken:?}");
    ensure!(asked.elapsed() < GENEROUS, "it waited on when it had one: {:?}", asked.elapsed());
    Ok(())
}

pub(super) async fn a_take_waits_for_what_comes_to_be_given_again<S: Subject>() -> Result<()> {
    let subject = S::raise(S::ACK_WAIT).await?;
    let (alice, bob) = (subject.queue().await?, subject.queue().await?);
    bob.put(b"check it").await?;
    let mut last = taken::<S>(&bob).await?;
    for handed_back in [false, true] {
        let asked = Instant::now();
        let word = async {
            tokio::time::sleep(SHORT).await;
            if handed_back {
                last.hand_back(Duration::ZERO).await?;
            } else {
                subject.pass(S::ACK_WAIT).await;
            }
            Ok(())
        };
        let (again, ()) = tokio::try_join!(alice.take(GENEROUS), word)?;
        let again = again.context("it waited for nothing")?;
        ensure!(again.ask() == last.ask() && again.deliveries() > last.deliveries(), "{last:?} {again:?}");
        ensure!(asked.elapsed() < GENEROUS, "it waited on when it had one: {:?}", asked.elapsed());
        last = again;
    }
    Ok(())
}

pub(super) async fn a_take_may_wait_for_ever<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let put = async {
        tokio::time::sleep(SHORT).await;
        queue.put(b"check it").await
    };
    let both = async { tokio::try_join!(queue.take(Duration::MAX), put) };
    let (taken, _) = timeout(GENEROUS, both).await.context("it missed what came")??;
    ensure!(taken.is_some(), "for ever was soon over");
    Ok(())
}

pub(super) async fn a_take_ends_when_nothing_comes<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    for within in [Duration::ZERO, SHORT] {
        let given = timeout(GENEROUS / 2, queue.take(within)).await.context("it did not end")??;
        ensure!(given.is_none(), "{given:?}");
    }
    // One that is another's is nothing either.
    queue.put(b"check it").await?;
    let _alices = taken::<S>(&queue).await?;
    let given = timeout(GENEROUS / 2, queue.take(SHORT)).await.context("it did not end")??;
    ensure!(given.is_none(), "{given:?}");
    // And a look finds what is there.
    queue.put(b"check that").await?;
    let give_up = Instant::now() + if S::EXACT { Duration::ZERO } else { GENEROUS };
    while queue.take(Duration::ZERO).await?.is_none() {
        ensure!(Instant::now() < give_up, "a look found nothing");
        tokio::time::sleep(SHORT).await;
    }
    Ok(())
}

pub(super) async fn a_dropped_take_loses_nothing_that_comes_later<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    for _ in 0..3 {
        let gone = timeout(SHORT, queue.take(Duration::from_secs(10))).await;
        ensure!(gone.is_err(), "there was nothing to take: {gone:?}");
        let sequence = queue.put(b"check it").await?;
        // Should it have come to the one that is gone, it is handed back.
        let taken = queue.take(GENEROUS).await?.context("it is lost")?;
        ensure!(taken.ask().sequence == sequence, "{taken:?}");
        taken.done().await?;
    }
    Ok(())
}

pub(super) async fn a_dropped_take_loses_nothing_that_was_there<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    for number in 0..60 {
        let sequence = queue.put(b"check it").await?;
        // Each is dropped a little later in its course than the one before.
        let soon = Duration::from_micros(40 * number);
        let taken = match timeout(soon, queue.take(GENEROUS)).await {
            Ok(taken) => taken?,
            Err(_) => queue.take(GENEROUS).await?,
        };
        let taken = taken.with_context(|| format!("lost after {soon:?}"))?;
        ensure!(taken.ask().sequence == sequence, "{taken:?}");
        taken.done().await?;
    }
    nothing::<S>(&queue).await
}

pub(super) async fn an_ask_goes_to_one_of_many_takers<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let mut queues = Vec::new();
    for _ in 0..4 {
        queues.push(subject.queue().await?);
    }
    let mut put = BTreeSet::new();
    for number in 0..10_u8 {
        put.insert(queues[0].put(&[number]).await?);
    }
    let mut takers = JoinSet::new();
    for number in 0..20 {
        let queue = queues[number % queues.len()].clone();
        let within = if S::EXACT { SHORT * 2 } else { SHORT * 20 };
        takers.spawn(async move { queue.take(within).await });
    }
    let mut given = Vec::new();
    while let Some(taker) = takers.join_next().await {
        given.extend(taker??);
    }
    // A busy machine may leave some over; twenty looks that all found nothing are a fault.
    ensure!(!given.is_empty());
    while given.len() < put.len() {
        given.push(taken::<S>(&queues[0]).await?);
    }
    nothing::<S>(&queues[1]).await?;
    for taken in &given {
        // One that came to a taker just when it gave up was handed back.
        ensure!(taken.deliveries() == 1 || !S::EXACT, "{taken:?}");
        ensure!(put.remove(&taken.ask().sequence), "given twice: {taken:?}");
        taken.done().await?;
    }
    ensure!(put.is_empty(), "never given: {put:?}");
    Ok(())
}
