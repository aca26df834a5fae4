//! Policies with one bug each: one for every rule that keeps a lease safe, and the layers of the proof that find it.
//!
//! A bug is the built-in decisions with one of them bent: what it is given, what the imports tell it, or what it answers.

mod bent;
mod bugs;
mod layers;

pub use bugs::BUGS;
pub use layers::{Bug, Caught, Layer};
