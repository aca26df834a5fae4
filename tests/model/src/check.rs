//! What must hold in every state.

use crate::config::Config;
use crate::state::{Phase, State};

/// An invariant of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Invariant {
    /// No two gates pass at the same moment.
    OneIncumbent = 1,
    /// No epoch is issued twice, and each is above every earlier one.
    EpochsOnlyRise = 2,
    /// A tenure that ended is not taken up again.
    LostIsLost = 4,
    /// No write, deletion or purge takes a live record that another lease object wrote.
    OnlyYourOwn = 8,
}

impl Invariant {
    /// Each of them.
    pub const ALL: [Self; 4] =
        [Self::OneIncumbent, Self::EpochsOnlyRise, Self::LostIsLost, Self::OnlyYourOwn];

    /// Its name, as the README has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneIncumbent => "one incumbent",
            Self::EpochsOnlyRise => "epochs only rise",
            Self::LostIsLost => "lost is lost",
            Self::OnlyYourOwn => "only your own",
        }
    }
}

/// Whether instance `i` lets acts pass now.
pub(crate) fn passes(state: &State, i: usize) -> bool {
    let one = &state.instances[i];
    one.phase.holds() && !one.shut && one.gate > state.clock(i)
}

/// How many gates are open.
pub(crate) fn open_gates(state: &State) -> usize {
    (0..state.instances.len()).filter(|i| passes(state, *i)).count()
}

/// The first of the judged invariants that does not hold.
pub(crate) fn broken(config: &Config, state: &State) -> Option<Invariant> {
    let two = if open_gates(state) > 1 { Invariant::OneIncumbent as u8 } else { 0 };
    let broken = state.broken | two;
    config.judged.iter().copied().find(|invariant| broken & *invariant as u8 != 0)
}

impl Phase {
    /// Whether a tenure is held in it: the gate may be open.
    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Held | Self::Renewing)
    }
}
