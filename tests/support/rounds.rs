//! Rounds: a real store, three real holder processes that pass their gate all the time, and one fault. What they
//! wrote down is swept for two holders at one time.

pub mod disk;
pub mod fault;
pub mod holder;
mod inflict;
pub mod log;
mod past;
pub mod receiver;
pub mod round;
pub mod site;
pub mod takeover;
pub mod writer;
