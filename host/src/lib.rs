//! A lease for controllers that run on several machines: one instance acts, its epoch rises with every
//! holder, and its gate shuts by the clock before another could have taken over.

pub mod clock;
pub mod guard;
pub mod limits;
pub mod store;
