//! The decisions of a policy made in this process: the code that is a component in earnest, without one.

mod convert;
mod replay;

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use incumbent::imports::Imports;
use incumbent::policy::{Native, Version};
use incumbent::{
    Attempt, Closed, HeldLease, Holder, Identity, Open, ReleaseOutcome, Renewal, Request, Sighting, Standing,
    Tenure, Terms, Trouble, Vacancy,
};
use incumbent_policy::Decisions;

use convert::{guest, host};
pub(crate) use replay::call;

/// The built-in decisions.
#[derive(Debug)]
pub struct BuiltIn;

impl Decisions for BuiltIn {
    const NAME: &'static str = "built-in";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
}

/// A version whose decisions are these; `name` tells it from others.
#[must_use]
pub fn version<P: Decisions + 'static>(name: &str) -> Version {
    Version::native(name, Arc::new(Natively::<P>(PhantomData)))
}

/// The built-in decisions, twice: the one that is looked at, and the one beside it.
#[must_use]
pub fn built_in() -> [Version; 2] {
    ["the built-in decisions", "the built-in decisions again"].map(version::<BuiltIn>)
}

struct Natively<P>(PhantomData<fn() -> P>);

#[async_trait]
impl<P: Decisions + 'static> Native for Natively<P> {
    async fn check(&self, _: &mut dyn Imports, terms: Terms) -> Result<(), String> {
        P::check(&guest::terms(terms))
    }

    async fn take(
        &self,
        imports: &mut dyn Imports,
        terms: Terms,
        who: &Identity,
        rule: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        let (terms, who, rule) = (guest::terms(terms), guest::identity(who), guest::vacancy(rule));
        let seen = seen.map(guest::sighting);
        let answer = call(imports, |io| P::take(io, &terms, &who, rule, seen)).await;
        answer.map(host::attempt).map_err(host::trouble)
    }

    async fn renew(
        &self,
        imports: &mut dyn Imports,
        terms: Terms,
        who: &Identity,
        tenure: &Tenure,
    ) -> Renewal {
        let (terms, who, tenure) = (guest::terms(terms), guest::identity(who), guest::tenure(tenure));
        host::renewal(call(imports, |io| P::renew(io, &terms, &who, tenure.clone())).await)
    }

    async fn release(&self, imports: &mut dyn Imports, who: &Identity, tenure: &Tenure) -> ReleaseOutcome {
        let (who, tenure) = (guest::identity(who), guest::tenure(tenure));
        host::release(call(imports, |io| P::release(io, &who, &tenure)).await)
    }

    async fn step_down(&self, imports: &mut dyn Imports, lease: &str, by: &str) -> Result<Request, Trouble> {
        let answer = call(imports, |io| P::step_down(io, lease, by)).await;
        answer.map(host::request).map_err(host::trouble)
    }

    async fn current(&self, imports: &mut dyn Imports, lease: &str) -> Result<Option<Holder>, Trouble> {
        let answer = call(imports, |io| P::current(io, lease)).await;
        answer.map(|holder| holder.map(host::holder)).map_err(host::trouble)
    }

    async fn list(
        &self,
        imports: &mut dyn Imports,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<HeldLease>, Trouble> {
        let answer = call(imports, |io| P::list(io, after.map(Into::into), most)).await;
        answer.map(|leases| leases.into_iter().map(host::held).collect()).map_err(host::trouble)
    }

    async fn pass(&self, imports: &mut dyn Imports, standing: &Standing) -> Result<Open, Closed> {
        let now = imports.clock().now().0;
        P::pass(&guest::standing(standing), now).map(host::open).map_err(host::closed)
    }

    async fn admit(&self, _: &mut dyn Imports, heard: u64, epoch: u64) -> Result<u64, u64> {
        P::admit(heard, epoch)
    }
}
