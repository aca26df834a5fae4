//! A policy of one's own: it gives up at the first renewal that fails or is refused. Everything else is the built-in
//! policy's.

#![no_std]

use incumbent_policy::lease::{self, Identity, Loss, Renewal, Tenure, Terms};
use incumbent_policy::{Decisions, Imports};

struct Strict;

impl Decisions for Strict {
    const NAME: &'static str = "strict";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        match lease::renew(io, terms, who, tenure) {
            // Its time is over as soon as it is not renewed.
            Renewal::Failed(_) | Renewal::Refused(_) => Renewal::Lost(Loss::Overdue),
            ended => ended,
        }
    }
}

incumbent_policy::export!(Strict);
