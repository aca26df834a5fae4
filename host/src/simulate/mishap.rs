//! Everything that may befall the instances and their store: the vocabulary.

macro_rules! mishaps {
    ($($name:ident = $words:literal),* $(,)?) => {
        /// Something that befalls an instance, its line to the store, or the store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the words stand beside each")]
        pub enum Mishap {
            $($name),*
        }

        impl Mishap {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// In words.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words),*
                }
            }
        }
    };
}

mishaps! {
    ReadLost = "a read gets no answer",
    ReadStale = "a read answers what was there before",
    CreateUnsent = "a create never arrives",
    UpdateUnsent = "an update never arrives",
    DeleteUnsent = "a delete never arrives",
    CreateUnheard = "a create's answer is lost",
    UpdateUnheard = "an update's answer is lost",
    DeleteUnheard = "a delete's answer is lost",
    CreateLate = "a create arrives when nobody waits for it any more",
    UpdateLate = "an update arrives when nobody waits for it any more",
    DeleteLate = "a delete arrives when nobody waits for it any more",
    CreateRepeated = "a create arrives twice",
    UpdateRepeated = "an update arrives twice",
    DeleteRepeated = "a delete arrives twice",
    PurgeUnheard = "a purge's answer is lost",
    PurgeLate = "a purge arrives when nobody waits for it any more",
    Busy = "the store is busy",
    Denied = "the store does not let it, for a moment",
    Slow = "an answer takes nearly as long as is waited for it",
    WatchDeaf = "a watch hears nothing",
    WatchEnded = "a watch ends",
    StoreDown = "the store is away",
    Wiped = "the store is raised again from nothing",
    RolledBack = "the store loses a write that it acknowledged",
    Forgotten = "the store forgets the record",
    Unmarked = "the store says no more that a record aged out",
    ClockStepped = "the store's clock steps",
    Cut = "an instance is cut off",
    CutOneWay = "an instance is sent no answers",
    Suspended = "an instance stands still while its clock goes on",
    Crashed = "an instance dies while it holds the lease",
    CrashedStanding = "an instance dies while it stands for the lease",
    GivenBack = "a holder gives the lease back",
    GivingBackCutOff = "a holder dies while it gives the lease back",
    SteppedDown = "a holder is asked to give way",
    FloorUnreadable = "the highest epoch issued cannot be read",
    FloorUnwritable = "the highest epoch issued cannot be written",
    Swapped = "another version of the policy serves",
}

impl Mishap {
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// How often each happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishaps(Vec<u64>);

impl Default for Mishaps {
    fn default() -> Self {
        Self(vec![0; Mishap::ALL.len()])
    }
}

impl Mishaps {
    pub(super) fn count(&mut self, mishap: Mishap) {
        self.0[mishap.index()] += 1;
    }

    /// How often this happened.
    #[must_use]
    pub fn of(&self, mishap: Mishap) -> u64 {
        self.0[mishap.index()]
    }

    /// How often each happened, in the order of [`Mishap::ALL`].
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Add another's.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}
