//! A policy for Incumbent: it decides as the built-in one does, but for what is written here.

#![no_std]

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;

use incumbent_policy::lease::{self, Identity, Loss, Renewal, Tenure, Terms};
use incumbent_policy::{Decisions, Imports};

/// The policy. It has no fields, as it keeps nothing between two calls: what it must know it is told, or asks of `io`.
struct Policy;

impl Decisions for Policy {
    const NAME: &'static str = env!("CARGO_PKG_NAME");
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    // An example to replace. Each decision of the trait may stand here; those that do not are the built-in ones.
    //
    // The built-in policy keeps a lease whose renewal failed for as long as its time lasts, and tries again. This one
    // gives up at once, for work that would rather stop than go on in doubt. It may: a policy may be stricter than the
    // built-in one, and never laxer, which is what the rehearsal looks at.
    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        // The built-in decision is a function, to decide upon.
        match lease::renew(io, terms, who, tenure) {
            Renewal::Failed(_) | Renewal::Refused(_) => Renewal::Lost(Loss::Overdue),
            ended => ended,
        }
    }
}

// The component's exports, the allocator and the panic handler.
incumbent_policy::export!(Policy);
