//! What is kept, counted and shown, and in which order: rules 1, 3, 4 and 5.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use incumbent::limits::ASK_BYTES;
use incumbent::store::Fault;

use super::{GENEROUS, LONG, SHORT, Subject, counted, nothing, taken};

pub(super) async fn an_ask_is_kept_until_it_is_done<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let sequence = subject.queue().await?.put(b"check it").await?;
    // By another connection, as by another process.
    let queue = subject.queue().await?;
    let first = taken::<S>(&queue).await?;
    ensure!(first.ask().sequence == sequence && first.ask().body == b"check it", "{first:?}");
    ensure!(first.deliveries() == 1, "{first:?}");
    first.hand_back(Duration::ZERO).await?;
    let second = taken::<S>(&queue).await?;
    ensure!(second.ask() == first.ask(), "{first:?} {second:?}");
    ensure!(second.deliveries() == 2, "{second:?}");
    second.done().await?;
    nothing::<S>(&queue).await?;
    counted::<S>(&queue, 0, 0).await
}

pub(super) async fn never_taken_asks_are_taken_in_order<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queues = [subject.queue().await?, subject.queue().await?];
    let mut put = Vec::new();
    for number in 0..12 {
        put.push(queues[number % 2].put(number.to_string().as_bytes()).await?);
    }
    ensure!(put[0] > 0 && put.is_sorted_by(|one, next| one < next), "{put:?}");
    for (number, sequence) in put.into_iter().enumerate() {
        let next = taken::<S>(&queues[1]).await?;
        ensure!(next.ask().sequence == sequence, "{sequence} was to come: {next:?}");
        ensure!(next.ask().body == number.to_string().as_bytes(), "{next:?}");
        // Whether or not it is done, the next one is another.
        if number % 3 == 0 {
            next.done().await?;
        }
    }
    nothing::<S>(&queues[0]).await
}

pub(super) async fn one_given_again_comes_before_one_never_taken<S: Subject>() -> Result<()> {
    let subject = S::raise(S::ACK_WAIT).await?;
    let queue = subject.queue().await?;
    let (one, two, three) = (queue.put(b"1").await?, queue.put(b"2").await?, queue.put(b"3").await?);
    let first = taken::<S>(&queue).await?;
    ensure!(first.ask().sequence == one);
    let second = taken::<S>(&queue).await?;
    ensure!(second.ask().sequence == two);
    second.hand_back(Duration::ZERO).await?;
    if S::EXACT {
        // Of two, the earlier one.
        subject.pass(S::ACK_WAIT).await;
        ensure!(taken::<S>(&queue).await?.ask().sequence == one);
    } else {
        // Time for the word to reach the queue.
        subject.pass(SHORT).await;
    }
    let again = taken::<S>(&queue).await?;
    ensure!(again.ask().sequence == two && again.deliveries() == 2, "{again:?}");
    let last = taken::<S>(&queue).await?;
    ensure!(last.ask().sequence == three && last.deliveries() == 1, "{last:?}");
    Ok(())
}

pub(super) async fn looking_takes_nothing<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let (one, two) = (queue.put(b"1").await?, queue.put(b"2").await?);
    counted::<S>(&queue, 2, 0).await?;
    for _ in 0..3 {
        let oldest = queue.oldest_waiting().await?.context("two wait")?;
        ensure!(oldest.sequence == one && oldest.body == b"1", "{oldest:?}");
    }
    counted::<S>(&queue, 2, 0).await?;
    for sequence in [one, two] {
        let next = taken::<S>(&queue).await?;
        ensure!(next.ask().sequence == sequence && next.deliveries() == 1, "{next:?}");
    }
    Ok(())
}

pub(super) async fn the_oldest_waiting_is_not_one_that_is_worked_on<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let (one, two) = (queue.put(b"1").await?, queue.put(b"2").await?);
    let first = taken::<S>(&queue).await?;
    let oldest = queue.oldest_waiting().await?.context("the second waits")?;
    ensure!(oldest.sequence == two, "{oldest:?}");
    first.hand_back(Duration::ZERO).await?;
    let oldest = queue.oldest_waiting().await?.context("both wait")?;
    ensure!(oldest.sequence == one || (!S::EXACT && oldest.sequence == two), "{oldest:?}");
    // One that was taken before is not the older one for that.
    let [first, second] = [taken::<S>(&queue).await?, taken::<S>(&queue).await?];
    let oldest = queue.oldest_waiting().await?;
    // A store that cannot tell may offer it now and then.
    ensure!(oldest.is_none() || !S::EXACT, "both are worked on: {oldest:?}");
    ensure!(queue.oldest_waiting().await?.is_none(), "both are worked on");
    let second = if second.ask().sequence == two { second } else { first };
    second.hand_back(Duration::ZERO).await?;
    let three = queue.put(b"3").await?;
    let oldest = queue.oldest_waiting().await?.context("the second and the third wait")?;
    ensure!(oldest.sequence == two || (!S::EXACT && oldest.sequence == three), "{oldest:?}");
    Ok(())
}

pub(super) async fn nothing_waits_in_an_empty_queue<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    ensure!(queue.oldest_waiting().await?.is_none());
    let sequence = queue.put(b"check it").await?;
    ensure!(queue.oldest_waiting().await?.is_some());
    taken::<S>(&queue).await?.done().await?;
    // A server may take a moment to forget what is done.
    let give_up = Instant::now() + if S::EXACT { Duration::ZERO } else { GENEROUS };
    while let Some(oldest) = queue.oldest_waiting().await? {
        ensure!(Instant::now() < give_up, "{oldest:?} waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    nothing::<S>(&queue).await?;
    ensure!(queue.put(b"check it").await? > sequence, "a sequence is not given twice");
    Ok(())
}

pub(super) async fn an_ask_says_when_it_was_stored<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let now = || subject.clock().wall().duration_since(SystemTime::UNIX_EPOCH);
    // A server may read its clock in coarse steps.
    let slack = if S::EXACT { Duration::ZERO } else { Duration::from_secs(1) };
    subject.pass(SHORT).await;
    let before = now()?;
    queue.put(b"check it").await?;
    let after = now()?;
    subject.pass(SHORT).await;
    let oldest = queue.oldest_waiting().await?.context("it waits")?;
    let stored = oldest.stored.context("these backends say it")?;
    ensure!(before - slack <= stored && stored <= after + slack, "{before:?} {stored:?} {after:?}");
    ensure!(taken::<S>(&queue).await?.ask() == &oldest);
    Ok(())
}

pub(super) async fn an_ask_of_the_limit_is_kept_and_one_byte_more_is_refused<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let (largest, larger) = (vec![0xA5; ASK_BYTES], vec![0xA5; ASK_BYTES + 1]);
    let refused = queue.put(&larger).await;
    let Err(Fault::TooLarge(told)) = &refused else { anyhow::bail!("{refused:?}") };
    ensure!(told.contains(&ASK_BYTES.to_string()) && told.contains(&larger.len().to_string()), "{told}");
    counted::<S>(&queue, 0, 0).await?;
    queue.put(&largest).await?;
    ensure!(queue.oldest_waiting().await?.context("it waits")?.body == largest);
    let first = taken::<S>(&queue).await?;
    ensure!(first.ask().body == largest);
    first.working().await?;
    first.hand_back(Duration::ZERO).await?;
    let second = taken::<S>(&queue).await?;
    ensure!(second.ask().body == largest);
    second.done().await?;
    counted::<S>(&queue, 0, 0).await
}

pub(super) async fn an_empty_ask_is_an_ask<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    let sequence = queue.put(b"").await?;
    let oldest = queue.oldest_waiting().await?.context("it waits")?;
    ensure!(oldest.sequence == sequence && oldest.body.is_empty(), "{oldest:?}");
    let first = taken::<S>(&queue).await?;
    ensure!(first.ask() == &oldest);
    first.done().await?;
    nothing::<S>(&queue).await
}

pub(super) async fn waiting_and_taken_asks_are_counted<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let queue = subject.queue().await?;
    ensure!(queue.info().await?.ack_wait == LONG);
    counted::<S>(&queue, 0, 0).await?;
    for _ in 0..3 {
        queue.put(b"check it").await?;
    }
    counted::<S>(&queue, 3, 0).await?;
    let first = taken::<S>(&queue).await?;
    let second = taken::<S>(&queue).await?;
    counted::<S>(&queue, 1, 2).await?;
    // It waits again, and was taken.
    first.hand_back(Duration::ZERO).await?;
    queue.oldest_waiting().await?.context("two wait")?;
    counted::<S>(&queue, 1, 2).await?;
    second.done().await?;
    counted::<S>(&queue, 1, 1).await
}
