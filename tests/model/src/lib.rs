//! Every state that two or three instances of a lease can reach: the real decision functions, every import one step.
//!
//! [`explore`] goes through all of them, breadth first, within the bounds of a [`Config`], and looks at the
//! [`Invariant`]s in each. What is real: `take`, `renew`, `release` and `pass` of the policy, with the bytes of their
//! records. What is modelled: the store, the host around the policy without its guard rails, the clocks, the network.
//! Time is in ticks, and nothing is hurried: an instance may stand still at any import for as long as it likes (one at a
//! time in the middle of a call, where [`Config::slow`] is one), and a request may take as long to arrive.
//!
//! What is left out: a bucket with other leases in it, a floor that cannot be read or written, marks that arrive late,
//! a marker that the store drops by itself, more than one write forgotten at once, a record that is no holder's.
//!
//! Check holds have a model of their own: [`holds`].

mod calls;
mod check;
mod config;
pub mod holds;
mod host;
mod replay;
mod runs;
mod search;
mod sometimes;
mod state;
mod step;
mod store;
mod tell;
mod vacancy;

pub use check::Invariant;
pub use config::{Config, Expiry, Faults, Ticks};
pub use runs::{Run, runs};
pub use search::{Report, Violation, explore};
pub use sometimes::{Reached, Sometimes};
pub use vacancy::{Bounds, vacancy_table};
