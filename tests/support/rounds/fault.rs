//! The vocabulary of faults, and how one is drawn.

use std::fmt;
use std::time::Duration;

/// What the lease is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One nats-server.
    Nats,
    /// Three, with a replicated bucket.
    Cluster,
    /// One SQLite file.
    Sqlite,
}

/// What happens in a round. The leader is that of the bucket; a holder's line is all that it reaches the store by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server, killed and restarted.
    Kill,
    /// The server, stopped for less than a ttl, and continued.
    StopShort,
    /// The server, stopped for longer than a ttl, and continued.
    StopLong,
    /// The server, killed, wiped and restarted; the file, removed.
    Wipe,
    /// The server, or the file, rolled back to an earlier copy.
    RollBack,
    /// The holder's line, cut.
    Cut,
    /// The holder's line, cut one way: what it says does not arrive in time.
    CutRequests,
    /// The holder's line, cut the other way: its requests arrive, the answers do not.
    CutAnswers,
    /// The holder's line, slow.
    Delay,
    /// Answers to the holder, dropped.
    DropAnswers,
    /// The disk, full. A server's has a stand-in: the bucket's `max_bytes` is reached.
    DiskFull,
    /// The leader, made to step down.
    StepDown,
    /// The leader, killed and restarted.
    KillLeader,
    /// The leader, stopped until there is another, and continued.
    StopLeader,
    /// The leader, cut off from the other members.
    CutLeader,
    /// The leader, cut off one way: it hears the others, they do not hear it.
    CutLeaderSpeech,
    /// The holder, killed.
    KillHolder,
    /// The holder, stopped for longer than a ttl, and continued.
    StopHolder,
    /// The holder, told to end.
    ReleaseHolder,
    /// Another program, killed in the middle of a transaction on the file.
    KillWriter,
    /// The file, locked by another program for longer than a ttl.
    Lock,
}

use Fault::{
    Cut, CutAnswers, CutLeader, CutLeaderSpeech, CutRequests, Delay, DiskFull, DropAnswers, Kill, KillHolder,
    KillLeader, KillWriter, Lock, ReleaseHolder, RollBack, StepDown, StopHolder, StopLeader, StopLong,
    StopShort, Wipe,
};

impl Kind {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Nats, Self::Cluster, Self::Sqlite];

    /// What can happen to it.
    #[must_use]
    pub fn faults(self) -> &'static [Fault] {
        match self {
            Self::Nats => &[
                Kill,
                StopShort,
                StopLong,
                Wipe,
                RollBack,
                Cut,
                CutRequests,
                CutAnswers,
                Delay,
                DropAnswers,
                DiskFull,
                KillHolder,
                StopHolder,
                ReleaseHolder,
            ],
            Self::Cluster => &[
                StepDown,
                KillLeader,
                StopLeader,
                CutLeader,
                CutLeaderSpeech,
                Cut,
                CutRequests,
                CutAnswers,
                Delay,
                DropAnswers,
                DiskFull,
                KillHolder,
                StopHolder,
                ReleaseHolder,
            ],
            Self::Sqlite => {
                &[Wipe, RollBack, DiskFull, KillWriter, Lock, KillHolder, StopHolder, ReleaseHolder]
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nats => "NATS",
            Self::Cluster => "NATS cluster",
            Self::Sqlite => "SQLite",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kill => "kill",
            StopShort => "stop, shorter than the ttl",
            StopLong => "stop, longer than the ttl",
            Wipe => "wipe",
            RollBack => "roll back",
            Cut => "cut",
            CutRequests => "one-way cut: requests",
            CutAnswers => "one-way cut: answers",
            Delay => "delay",
            DropAnswers => "drop answers",
            DiskFull => "disk full",
            StepDown => "step down",
            KillLeader => "kill of the leader",
            StopLeader => "stop of the leader",
            CutLeader => "cut of the leader",
            CutLeaderSpeech => "one-way cut of the leader",
            KillHolder => "kill of the holder",
            StopHolder => "stop of the holder",
            ReleaseHolder => "release",
            KillWriter => "kill of a writer",
            Lock => "lock",
        })
    }
}

/// Everything that can happen to any store.
pub fn all() -> impl Iterator<Item = (Kind, Fault)> {
    Kind::ALL.into_iter().flat_map(|kind| kind.faults().iter().map(move |fault| (kind, *fault)))
}

/// So many of these: each of them once, in an order drawn by the seed, before any a second time.
#[must_use]
pub fn deck(seed: u64, all: &[(Kind, Fault)], count: usize) -> Vec<(Kind, Fault)> {
    let mut chance = Chance::new(seed);
    let mut deck = Vec::new();
    while deck.len() < count && !all.is_empty() {
        let mut rest = all.to_vec();
        while let Some(last) = rest.len().checked_sub(1) {
            deck.push(rest.swap_remove(chance.upto(last)));
        }
    }
    deck.truncate(count);
    deck
}

/// SplitMix64: the same draws in every run of a seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From this seed on.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from zero to this one.
    pub fn upto(&mut self, most: usize) -> usize {
        let range = most as u64 + 1;
        usize::try_from(self.bits() % range).unwrap_or(most)
    }

    /// A time from `least` to `most` milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.bits() % (most - least + 1))
    }
}
