//! Whose an ask is, and for how long: rule 2.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::{LONG, NANO, Subject, comes_after, is_told, nothing, taken};

pub(super) async fn a_taken_ask_is_nobody_elses_before_the_ack_wait_and_given_again_after<S: Subject>()
-> Result<()> {
    let subject = S::raise(S::ACK_WAIT).await?;
    let (alice, bob) = (subject.queue().await?, subject.queue().await?);
    alice.put(b"check it").await?;
    let mut sent = Instant::now();
    let mut last = taken::<S>(&alice).await?;
    for deliveries in 2..4 {
        let asked = Instant::now();
        let again = comes_after::<S>(&subject, &bob, sent, S::ACK_WAIT).await?;
        ensure!(again.ask() == last.ask(), "{last:?} {again:?}");
        ensure!(again.deliveries() == deliveries, "{again:?}");
        (sent, last) = (asked, again);
    }
    Ok(())
}

pub(super) async fn a_word_from_its_taker_keeps_an_ask<S: Subject>() -> Result<()> {
    for _ in 0..ROUNDS {
        let subject = S::raise(S::ACK_WAIT).await?;
        let (alice, bob) = (subject.queue().await?, subject.queue().await?);
        alice.put(b"check it").await?;
        let mut sent = Instant::now();
        let working = taken::<S>(&alice).await?;
        let mut in_time = true;
        for _ in 0..2 {
            subject.pass(if S::EXACT { S::ACK_WAIT - NANO } else { S::ACK_WAIT * 6 / 10 }).await;
            let asked = Instant::now();
            working.working().await?;
            in_time &= S::EXACT || sent.elapsed() < S::ACK_WAIT;
            sent = asked;
        }
        if in_time {
            let again = comes_after::<S>(&subject, &bob, sent, S::ACK_WAIT).await?;
            ensure!(again.deliveries() == 2, "{again:?}");
            return Ok(());
        }
    }
    bail!("this machine is too busy: {ROUNDS} takers all came later than the ack wait")
}

pub(super) async fn a_handed_back_ask_is_given_again_at_once<S: Subject>() -> Result<()> {
    let subject = S::raise(LONG).await?;
    let (alice, bob) = (subject.queue().await?, subject.queue().await?);
    alice.put(b"check it").await?;
    let first = taken::<S>(&alice).await?;
    nothing::<S>(&bob).await?;
    first.hand_back(Duration::ZERO).await?;
    let second = taken::<S>(&bob).await?;
    ensure!(second.ask() == first.ask() && second.deliveries() == 2, "{first:?} {second:?}");
    Ok(())
}

pub(super) async fn a_handed_back_ask_is_given_again_after_the_delay_and_not_before<S: Subject>() -> Result<()>
{
    // Shorter than the ack wait, and longer.
    for (ack_wait, delay) in [(LONG, S::ACK_WAIT), (S::ACK_WAIT, S::ACK_WAIT * 2)] {
        let subject = S::raise(ack_wait).await?;
        let queue = subject.queue().await?;
        queue.put(b"check it").await?;
        let first = taken::<S>(&queue).await?;
        let sent = Instant::now();
        first.hand_back(delay).await?;
        let second = comes_after::<S>(&subject, &queue, sent, delay).await?;
        ensure!(second.ask() == first.ask() && second.deliveries() == 2, "{first:?} {second:?}");
    }
    Ok(())
}

pub(super) async fn an_old_taking_touches_no_newer_one<S: Subject>() -> Result<()> {
    if !S::EXACT {
        return Ok(()); // Such a store may not know whose word it hears.
    }
    let subject = S::raise(S::ACK_WAIT).await?;
    let queue = subject.queue().await?;
    queue.put(b"check it").await?;
    let aged = taken::<S>(&queue).await?;
    subject.pass(S::ACK_WAIT).await;
    let handed_back = taken::<S>(&queue).await?;
    handed_back.hand_back(Duration::ZERO).await?;
    // While it is nobody's, and while it is another's.
    let mut newer = None;
    for _ in 0..2 {
        for old in [&aged, &handed_back] {
            is_told::<S>(old.working().await)?;
            is_told::<S>(old.hand_back(Duration::ZERO).await)?;
            is_told::<S>(old.done().await)?;
        }
        if newer.is_none() {
            newer = Some(taken::<S>(&queue).await?);
        }
    }
    let Some(newer) = newer else { bail!("it was not given again") };
    ensure!(newer.deliveries() == 3, "{newer:?}");
    nothing::<S>(&queue).await?;
    newer.working().await?;
    newer.done().await?;
    is_told::<S>(newer.done().await)?;
    nothing::<S>(&queue).await
}

pub(super) async fn a_late_taker_may_finish_what_nobody_took_since<S: Subject>() -> Result<()> {
    if !S::EXACT {
        return Ok(()); // Such a store may not know that nobody did.
    }
    for looked_at in [false, true] {
        let subject = S::raise(S::ACK_WAIT).await?;
        let queue = subject.queue().await?;
        for _ in 0..2 {
            queue.put(b"check it").await?;
        }
        let (first, second) = (taken::<S>(&queue).await?, taken::<S>(&queue).await?);
        subject.pass(S::ACK_WAIT * 3).await;
        ensure!(!looked_at || queue.oldest_waiting().await?.as_ref() == Some(first.ask()));
        first.done().await?;
        // Its again, for a whole ack wait.
        second.working().await?;
        subject.pass(S::ACK_WAIT - NANO).await;
        nothing::<S>(&queue).await?;
        subject.pass(NANO).await;
        ensure!(taken::<S>(&queue).await?.ask() == second.ask());
    }
    Ok(())
}

/// Tries of what a busy machine may spoil.
const ROUNDS: usize = 10;
