//! What has to happen at some time in a run, so that a run without a violation shows something.

macro_rules! sometimes {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// Something that is to happen in at least one state or step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Sometimes {
            $($(#[doc = $text])+ $name,)+
        }

        impl Sometimes {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What happens.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($text),+).trim_ascii(),)+
                }
            }
        }

        /// Which of them were reached.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Reached(u64);

        impl Reached {
            pub(crate) fn mark(&mut self, what: Sometimes) {
                self.0 |= 1 << what as u8;
            }

            /// Whether it was.
            #[must_use]
            pub fn has(self, what: Sometimes) -> bool {
                self.0 & 1 << what as u8 != 0
            }
        }
    };
}

pub(crate) use sometimes;

sometimes! {
    /// every instance has held the lease
    AllHaveHeld,
    /// a record's age is reached while its holder has not heard of its end
    AgesOutUnderItsHolder,
    /// a holder that stood still goes on after another one's gate opened
    WakesAfterATakeover,
    /// a renewal that got no answer is found to have landed
    LostRenewalIsFound,
    /// a take that got no answer is found by the next one, and acted on
    LostTakeIsAdopted,
    /// a renewal that got no answer had not landed, and is made again
    FailedRenewalIsMadeAgain,
    /// a renewal is refused, and the gate opens again
    DoubtedIsKept,
    /// a holder finds another one's record
    IsSuperseded,
    /// a holder finds that its record is gone
    IsGone,
    /// a holder finds another bucket
    IsRaisedAgain,
    /// a write lands after the tenure of its sender has ended
    LandsLate,
    /// a write that comes late or twice is refused by its revision
    LateIsRefused,
    /// the bucket is wiped under an open gate
    WipedUnderAHolder,
    /// a take moves the bucket past the floor
    MovesTheFloor,
    /// a take finds that the bucket was raised again meanwhile
    RaisedAgainInATake,
    /// a key is given back, and taken after it
    TakenAfterARelease,
    /// what was taken comes too late to be acted on
    TakenTooLate,
    /// a holder dies with an open gate
    DiesHolding,
    /// an operator's mark shuts a gate
    GivesWay,
    /// a stale read shows a record that is gone
    ReadsStale,
    /// the store forgets a write under an open gate
    ForgottenUnderAHolder,
    /// a call is cut off
    IsCutOff,
    /// an absence is waited out, and the lease is taken
    WaitsOutAnAbsence,
    /// a record that a deletion took which was meant for another bucket is waited for
    WaitsForWhatIsErased,
    /// the store's clock steps under an open gate
    StepsUnderAHolder,
    /// nobody holds it and the store refuses the write for good
    Unwritable,
    /// a lease object stands after the one before it was lost
    StandsAnew,
}

impl Reached {
    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
