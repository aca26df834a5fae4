//! One state: the store, the writes on their way, the instances, and the faults that are left. Small and copied.

use std::hash::{Hash, Hasher};

use incumbent_policy::lease::{self, Certainty};

use crate::config::{Faults, INSTANCES, LATE};

/// A tick of a clock, nanoseconds.
pub(crate) const TICK_NS: u64 = 1_000_000_000;

/// What every clock reads at the beginning, in ticks: zero is "shut".
pub(crate) const BEGIN: u8 = 8;

/// A revision or an epoch: how often it was moved by the stride of 2³², and what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rev(u16);

impl Rev {
    pub(crate) const ZERO: Self = Self(0);

    /// A number above what fits becomes the highest that does, which no run within its bounds reaches. The last one
    /// before a multiple of 2³² fits.
    pub(crate) fn of(number: u64) -> Self {
        let (moved, rest) = (number >> 32, number & 0xffff_ffff);
        let rest = if rest == 0xffff_ffff { 0xff } else { rest };
        match (u8::try_from(moved), u8::try_from(rest)) {
            (Ok(moved), Ok(rest)) => Self(u16::from_be_bytes([moved, rest])),
            _ => Self(u16::MAX),
        }
    }

    pub(crate) fn number(self) -> u64 {
        let [moved, rest] = self.0.to_be_bytes();
        (u64::from(moved) << 32) + if rest == 0xff { 0xffff_ffff } else { u64::from(rest) }
    }

    /// The one before.
    pub(crate) fn before(self) -> Self {
        Self::of(self.number().saturating_sub(1))
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What a candidate has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    pub(crate) created: u8,
    pub(crate) revision: Option<Rev>,
    pub(crate) since: u8,
    pub(crate) last: u8,
}

impl Sight {
    pub(crate) fn of(sighting: &lease::Sighting) -> Self {
        Self {
            created: small(sighting.created),
            revision: sighting.revision.map(Rev::of),
            since: ticks(sighting.since_ns),
            last: ticks(sighting.last_ns),
        }
    }

    pub(crate) fn full(self) -> lease::Sighting {
        lease::Sighting {
            created: self.created.into(),
            revision: self.revision.map(Rev::number),
            since_ns: ns(self.since),
            last_ns: ns(self.last),
        }
    }
}

/// A tenure, whose time of day is always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tenure {
    pub(crate) epoch: Rev,
    pub(crate) revision: Rev,
    pub(crate) created: u8,
    pub(crate) until: u8,
    pub(crate) sure: Sure,
}

/// How sure a holder is; doubted since a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sure {
    #[default]
    Yes,
    No,
    Doubted(u8),
}

impl Tenure {
    pub(crate) fn of(tenure: &lease::Tenure) -> Self {
        Self {
            epoch: Rev::of(tenure.epoch),
            revision: Rev::of(tenure.revision),
            created: small(tenure.created),
            until: ticks(tenure.until_ns),
            sure: match tenure.certainty {
                Certainty::Sure => Sure::Yes,
                Certainty::Unsure => Sure::No,
                Certainty::Doubted(since) => Sure::Doubted(ticks(since)),
            },
        }
    }

    pub(crate) fn full(self, taken: String) -> lease::Tenure {
        lease::Tenure {
            epoch: self.epoch.number(),
            revision: self.revision.number(),
            created: self.created.into(),
            taken,
            until_ns: ns(self.until),
            certainty: match self.sure {
                Sure::Yes => Certainty::Sure,
                Sure::No => Certainty::Unsure,
                Sure::Doubted(since) => Certainty::Doubted(ns(since)),
            },
        }
    }
}

/// A tick as nanoseconds.
pub(crate) fn ns(tick: u8) -> u64 {
    u64::from(tick) * TICK_NS
}

/// Nanoseconds as the tick at which a clock of whole ticks has reached them.
pub(crate) fn ticks(ns: u64) -> u8 {
    small(ns.div_ceil(TICK_NS))
}

fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// A lease object: the instance in the upper half, which of its objects in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object(pub(crate) u8);

impl Object {
    pub(crate) fn new(instance: usize, object: u8) -> Self {
        Self(small(instance as u64) << 4 | object)
    }

    pub(crate) fn instance(self) -> usize {
        usize::from(self.0 >> 4)
    }
}

/// What the key has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    #[default]
    Absent,
    Deleted,
    Aged,
    /// Deleted by a deletion that was meant for another bucket.
    Erased,
    /// The bytes, by their number, and who wrote them.
    Live(u16, Object),
}

/// The key's last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) revision: Rev,
    pub(crate) value: Value,
    pub(crate) written: u8,
}

/// What a write asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Write {
    /// Where nothing stands but the marker at this revision.
    Create(u16, Rev),
    Update(u16, Rev),
    /// At this revision, meant for this bucket.
    Delete(Rev, u8),
    Purge(Rev),
}

/// The store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) created: u8,
    pub(crate) last: Rev,
    pub(crate) record: Record,
    /// Before the last change; kept only while a fault could show it again.
    pub(crate) before: Option<(Rev, Record)>,
    /// Writes on their way that nobody waits for, in order.
    pub(crate) late: [Option<(Object, Write)>; LATE],
    /// How far its clock is ahead.
    pub(crate) ahead: u8,
}

/// What an import answers, once there is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Now(u8),
    Floor(Rev),
    Info(u8),
    Found(Rev, u16),
    Deleted(Rev),
    Aged(Rev),
    Absent,
    Erased(Rev),
    Written(Rev),
    Stale,
    NoKeys,
    Last(Rev),
    Purged,
    Unavailable,
    Denied,
    Unknown,
}

/// What an instance does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Waits for the lease.
    #[default]
    Candidate,
    Taking,
    /// The policy says that it is taken; the floor is not raised yet.
    Taken,
    /// The floor is raised, the gate not opened yet.
    Raised,
    /// What was taken is given back, as it could not be acted on; a candidate again after it.
    Returning,
    Held,
    Renewing,
    /// Asked to give way: waits for its end.
    Asked,
    Releasing,
    /// Lost or given back.
    Over,
    /// Nothing is left of it.
    Gone,
}

/// One instance and its lease object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Instance {
    pub(crate) phase: Phase,
    pub(crate) object: u8,
    /// The call under way, by its number, from 1 on; zero for none.
    pub(crate) call: u32,
    /// The answer that is on its way back.
    pub(crate) answer: Option<Answer>,
    /// When the call began, by this instance's clock.
    pub(crate) begun: u8,
    pub(crate) sight: Option<Sight>,
    pub(crate) tenure: Tenure,
    /// The gate is open before this tick,
    pub(crate) gate: u8,
    /// but for a renewal that was refused.
    pub(crate) shut: bool,
    /// When the next renewal is due.
    pub(crate) next: u8,
    pub(crate) floor: Rev,
    /// Ticks that its clock is ahead of the true time.
    pub(crate) ahead: i8,
}

/// A state of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The true time, in ticks.
    pub(crate) now: u8,
    pub(crate) store: Store,
    pub(crate) instances: [Instance; INSTANCES],
    pub(crate) left: Faults,
    /// The highest epoch at which a gate was opened.
    pub(crate) issued: Rev,
    /// Which instances have begun to stand, one bit each,
    pub(crate) begun: u8,
    /// and which have held the lease.
    pub(crate) have_held: u8,
    /// The invariants that a step broke, one bit each.
    pub(crate) broken: u8,
}

impl State {
    /// What instance `i` reads from its clock.
    pub(crate) fn clock(&self, i: usize) -> u8 {
        self.now.saturating_add_signed(self.instances[i].ahead)
    }

    /// What the store reads from its clock.
    pub(crate) fn store_clock(&self) -> u8 {
        self.now.saturating_add(self.store.ahead)
    }

    pub(crate) fn object(&self, i: usize) -> Object {
        Object::new(i, self.instances[i].object)
    }

    /// Whether a record of this instance's lease object stands there.
    pub(crate) fn is_own_there(&self, i: usize) -> bool {
        matches!(self.store.record.value, Value::Live(_, owner) if owner == self.object(i))
    }

    /// A fingerprint of 128 bits, by which states are told apart.
    pub(crate) fn digest(&self) -> u128 {
        let mut mixer = Mixer::new();
        self.hash(&mut mixer);
        mixer.whole()
    }
}

/// A fixed and fast hash of 128 bits: small numbers are gathered to words, the words go through two chains of
/// folded multiplications.
pub(crate) struct Mixer {
    chains: [u64; 2],
    word: u64,
    bits: u32,
}

impl Mixer {
    pub(crate) fn new() -> Self {
        Self { chains: [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f], word: 0, bits: 0 }
    }

    #[inline]
    fn gather(&mut self, number: u64, bits: u32) {
        if self.bits + bits > u64::BITS {
            self.mix(self.word);
            (self.word, self.bits) = (0, 0);
        }
        self.word |= number << self.bits;
        self.bits += bits;
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        let [a, b] = &mut self.chains;
        *a = fold(*a ^ word, 0xff51_afd7_ed55_8ccd);
        *b = fold(b.rotate_left(23) ^ word, 0xc4ce_b9fe_1a85_ec53);
    }

    pub(crate) fn whole(mut self) -> u128 {
        self.mix(self.word);
        self.mix(self.bits.into());
        u128::from(self.chains[0]) << 64 | u128::from(self.chains[1])
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a product are folded")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.gather((*byte).into(), 8);
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.gather(n.into(), 8);
    }

    fn write_u16(&mut self, n: u16) {
        self.gather(n.into(), 16);
    }

    fn write_u32(&mut self, n: u32) {
        self.gather(n.into(), 32);
    }

    /// Which variant of an enum; none has 256.
    fn write_isize(&mut self, n: isize) {
        self.gather(n.cast_unsigned() as u64 & 0xff, 8);
    }

    fn finish(&self) -> u64 {
        self.chains[0]
    }
}
