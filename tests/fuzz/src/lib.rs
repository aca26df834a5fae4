//! Bad input: for every reader of bytes that somebody else wrote, what must hold of its answer to any bytes.
//!
//! A target is a plain function over bytes that panics when a property does not hold; `must_refuse` marks those
//! that would let something through. They are run over inputs near those of `corpus/` ([`run()`]), the same in every
//! run.

mod answers;
mod asks;
mod bytes;
mod files;
mod loading;
mod mutate;
mod railing;
mod records;
mod run;
mod words;

// Sources of the host that are not public, as they are.
use incumbent::{clock, store};
mod lie {
    pub(crate) use incumbent::policy::Lie;
}
#[path = "../../../host/src/guard/protocol.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "its messages' bound is the socket's affair"))]
mod protocol;
#[path = "../../../host/src/rails.rs"]
#[allow(dead_code, reason = "what a policy is believed is not looked at here")]
mod rails;

pub use run::{Failure, Report, run, run_corpus};

/// Something that reads bytes, and what must hold of it.
#[derive(Debug)]
pub struct Target {
    /// Also the folder of its corpus.
    pub name: &'static str,
    /// Panics when something does not hold.
    pub check: fn(&[u8]),
    /// Of a million executions, how many are its own.
    pub share: u64,
    /// Inputs that are too large to be kept, made anew.
    more: fn() -> Vec<Vec<u8>>,
}

/// Every target. The slow ones have the small shares.
pub const TARGETS: &[Target] = &[
    target("name", words::name, 160_000),
    target("rails", railing::rails, 80_000),
    target("message", words::message, 200_000),
    target("record", records::record, 180_000),
    target("holder", records::holder, 160_000),
    target("ask", asks::ask, 200_000),
    target("store_url", words::store_url, 18_600),
    target("signature", bytes::signature, 1000),
    target("floor", files::floor, 200),
    target("state", files::state, 120),
    target("arguments", words::arguments, 60),
    Target { more: files::databases, ..target("database", files::database, 10) },
    Target { more: loading::components, ..target("component", loading::component, 10) },
];

const fn target(name: &'static str, check: fn(&[u8]), share: u64) -> Target {
    Target { name, check, share, more: Vec::new }
}

/// The words that a failure begins with when something was let through that must be refused.
const LET_THROUGH: &str = "let through: ";

/// As `assert`, for what must not be let through.
macro_rules! must_refuse {
    ($holds:expr, $($words:tt)+) => {
        assert!($holds, "{}{}", $crate::LET_THROUGH, format_args!($($words)+))
    };
}
pub(crate) use must_refuse;
