//! The guard rails, with whatever a policy and a store may do in whatever order, drawn from the input.

use std::collections::HashMap;
use std::time::Duration;

use incumbent::clock::Steady;
use incumbent::store::Entry;

use crate::must_refuse;
use crate::rails::Rails;

const VALIDITY: Duration = Duration::from_nanos(12);

/// What is written: two records of ours, and one of somebody else's; and the same, marked.
const VALUES: [&[u8]; 3] = [
    br#"{"instance":"alice","epoch":3,"nonce":"n1","renewed":"1"}"#,
    br#"{"instance":"alice","epoch":3,"nonce":"n1","renewed":"2"}"#,
    br#"{"instance":"bob"}"#,
];
const MARKED: [&[u8]; 3] = [
    br#"{"instance":"alice","epoch":3,"nonce":"n1","renewed":"1","step_down":"ops"}"#,
    br#"{"instance":"alice","epoch":3,"nonce":"n1","renewed":"2","step_down":"ops"}"#,
    br#"{"instance":"bob","step_down":"ops"}"#,
];

/// A write of ours whose answer is not known yet.
struct Sent {
    ticket: u64,
    value: usize,
    at: Steady,
}

/// What may be owned, and until when, kept in the plainest way: for ever, and for each reason by itself.
#[derive(Default)]
struct Known {
    pending: Vec<Sent>,
    /// By revision, the writes that it may be: by their ticket, when they were sent, and their value.
    may: HashMap<u64, HashMap<u64, (Steady, usize)>>,
    /// Tickets up to it are void.
    void: u64,
    last_ticket: u64,
}

/// Only what was acknowledged, or seen with the bytes of a write of ours, is owned; none of it for longer than the write
/// allows; and nothing from before a deletion is believed.
pub(crate) fn rails(input: &[u8]) {
    let (mut rails, mut known) = (Rails::new(VALIDITY), Known::default());
    let mut highest = 0;
    // Two bytes an event, of which a lease object sees some dozens.
    for (at, event) in input.chunks_exact(2).take(60).enumerate() {
        let now = Steady(100 + at as u64);
        let which = usize::from(event[1]);
        match event[0] % 6 {
            0 | 1 => {
                let value = which % 2;
                known.last_ticket = rails.sending(VALUES[value], now);
                known.pending.push(Sent { ticket: known.last_ticket, value, at: now });
            }
            2 if !known.pending.is_empty() => {
                let sent = known.pending.remove(which % known.pending.len());
                highest += 1;
                rails.acknowledged(sent.ticket, highest);
                known.may.entry(highest).or_default().insert(sent.ticket, (sent.at, sent.value));
            }
            3 if !known.pending.is_empty() => {
                rails.not_applied(known.pending.remove(which % known.pending.len()).ticket);
            }
            4 => {
                let value = which % 3;
                let is_marked = which & 64 > 0;
                let revision = if which & 128 > 0 { (which as u64) % (highest + 1) } else { highest + 1 };
                highest = highest.max(revision);
                known.seen(revision, value, is_marked);
                rails
                    .saw(&Entry { revision, value: if is_marked { MARKED } else { VALUES }[value].to_vec() });
            }
            5 if which < 32 => {
                rails.deleting();
                known.void = known.last_ticket;
            }
            _ => {}
        }
        known.check(&rails, highest + 2);
    }
}

impl Known {
    /// An entry that was read may be any write of ours with these bytes whose answer is not known; marked, also one that
    /// was acknowledged.
    fn seen(&mut self, revision: u64, value: usize, is_marked: bool) {
        let pending = self.pending.iter().map(|sent| (sent.ticket, (sent.at, sent.value)));
        let known = self.may.values().flatten().map(|(ticket, write)| (*ticket, *write));
        let known = known.filter(|_| is_marked);
        let same: Vec<_> = pending.chain(known).filter(|(_, (_, of))| *of == value).collect();
        if !same.is_empty() {
            self.may.entry(revision).or_default().extend(same);
        }
    }

    fn check(&self, rails: &Rails, beyond: u64) {
        for revision in 0..=beyond {
            let may = self.may.get(&revision);
            must_refuse!(!rails.owns(revision) || may.is_some(), "revision {revision} is owned");
            if let Ok(until) = rails.until(revision) {
                let allowed = may.into_iter().flatten().filter(|(ticket, _)| **ticket > self.void);
                let latest = allowed.map(|(_, (sent, _))| sent.plus(VALIDITY)).max();
                must_refuse!(
                    latest.is_some_and(|latest| until <= latest),
                    "revision {revision} until {until:?}"
                );
            }
        }
        must_refuse!(
            rails.latest().is_none_or(|latest| self.may.contains_key(&latest)),
            "the latest is not ours"
        );
    }
}
