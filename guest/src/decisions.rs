//! Every decision of a policy, so that a policy of one's own changes one and keeps the rest.

use alloc::string::String;
use alloc::vec::Vec;

use crate::gate::{self, Closed, Open, Standing};
use crate::holds::{self, Admitted, Building, Kept, Report, Verdict};
use crate::imports::{Fault, Imports};
use crate::lease::{
    self, Attempt, HeldLease, Holder, Identity, Release, Renewal, Request, Sighting, Tenure, Terms, Trouble,
    Vacancy,
};

/// What a policy decides. Every default body is the built-in decision, which is also a function of this crate
/// ([`lease::renew`] for `renew`), so that one may decide upon its answer. There is no `self`: a policy keeps
/// nothing between two calls.
#[expect(clippy::missing_errors_doc, reason = "documented where the functions are, and in wit/")]
pub trait Decisions {
    /// A short name, 1 to 100 bytes.
    const NAME: &'static str;
    /// The policy's own version, semver.
    const VERSION: &'static str;
    /// The interfaces it may call.
    const NEEDS: &'static [&'static str] = &["clock", "epochs", "kv", "log", "queue", "streams"];

    /// Whether the timings fit each other.
    fn check(terms: &Terms) -> Result<(), String> {
        terms.check()
    }

    /// See [`lease::take`].
    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        lease::take(io, terms, who, rule, seen)
    }

    /// See [`lease::renew`].
    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        lease::renew(io, terms, who, tenure)
    }

    /// See [`lease::release`].
    fn release(io: &mut impl Imports, who: &Identity, tenure: &Tenure) -> Release {
        lease::release(io, who, tenure)
    }

    /// See [`lease::step_down`].
    fn step_down(io: &mut impl Imports, lease: &str, by: &str) -> Result<Request, Trouble> {
        lease::step_down(io, lease, by)
    }

    /// See [`lease::current`].
    fn current(io: &mut impl Imports, lease: &str) -> Result<Option<Holder>, Trouble> {
        lease::current(io, lease)
    }

    /// See [`lease::list`].
    fn list(io: &mut impl Imports, after: Option<String>, most: u32) -> Result<Vec<HeldLease>, Trouble> {
        lease::list(io, after, most)
    }

    /// See [`gate::pass`].
    fn pass(standing: &Standing, now_ns: u64) -> Result<Open, Closed> {
        gate::pass(standing, now_ns)
    }

    /// See [`gate::admit`].
    fn admit(heard: u64, epoch: u64) -> Result<u64, u64> {
        gate::admit(heard, epoch)
    }

    /// See [`holds::assess`].
    fn assess(io: &mut impl Imports) -> Result<Verdict, Fault> {
        holds::assess(io)
    }

    /// See [`holds::let_one_through`].
    fn let_one_through(
        io: &mut impl Imports,
        queues: &[String],
        builder: &str,
        after_ns: u64,
        within_ns: u64,
    ) -> Result<Option<Admitted>, Fault> {
        holds::let_one_through(io, queues, builder, after_ns, within_ns)
    }

    /// See [`holds::keep`].
    fn keep_let_through(
        io: &mut impl Imports,
        builder: &str,
        since: &str,
        revision: u64,
    ) -> Result<Kept, Fault> {
        holds::keep(io, builder, since, revision)
    }

    /// See [`holds::drop`].
    fn drop_let_through(io: &mut impl Imports, revision: u64) -> Result<(), Fault> {
        holds::drop(io, revision)
    }

    /// See [`holds::status`].
    fn status(io: &mut impl Imports) -> Result<Report, Fault> {
        holds::status(io)
    }

    /// See [`holds::begin`].
    fn begin(io: &mut impl Imports, plan: &str) -> Result<Building, Fault> {
        holds::begin(io, plan)
    }

    /// See [`holds::seen`].
    fn seen(io: &mut impl Imports, plan: &str, known: &Building) -> Result<Kept, Fault> {
        holds::seen(io, plan, known)
    }

    /// See [`holds::end`].
    fn end(io: &mut impl Imports, plan: &str, revision: u64) -> Result<(), Fault> {
        holds::end(io, plan, revision)
    }
}

/// Makes a type that implements [`Decisions`] the policy of this crate: the component's exports, the allocator
/// and the panic handler. Once in a crate, which is built for `wasm32-unknown-unknown`; elsewhere it is nothing.
#[macro_export]
macro_rules! export {
    ($policy:ident) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            #![allow(unsafe_code, unreachable_pub, missing_docs, reason = "generated")]

            use super::$policy;

            #[global_allocator]
            static ALLOCATOR: $crate::component::GlobalDlmalloc = $crate::component::GlobalDlmalloc;

            /// A panic ends the call; the host drops the instance and the lease fails closed.
            #[panic_handler]
            fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
                core::arch::wasm32::unreachable()
            }

            $crate::component::generated::export!($policy with_types_in $crate::component::generated);
        }
        // Elsewhere it is compiled, and used nowhere.
        #[cfg(not(target_arch = "wasm32"))]
        const _: &str = <$policy as $crate::Decisions>::NAME;
    };
}
