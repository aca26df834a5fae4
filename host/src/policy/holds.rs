//! Calling a policy's decisions on checks that wait while a delivery builds.

use crate::bindings::{Admitted, Building, Kept, PolicyFault, Report, Verdict};
use crate::imports::Imports;
use crate::policy::{Begun, Called, Instance, Misdeed, Policy, call};

impl Policy {
    /// Whether a delivery builds.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn assess(&self, imports: impl Imports + 'static) -> Called<Result<Verdict, PolicyFault>> {
        call!(self, "holds.assess", imports, |call| call
            .exports
            .incumbent_policy_holds()
            .call_assess(&mut call.store))
    }

    /// Take the oldest check of these queues under the one let-through key, when it has waited `after_ns`,
    /// waiting for the queue at most `within_ns`.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn let_one_through(
        &self,
        imports: impl Imports + 'static,
        queues: &[String],
        builder: &str,
        after_ns: u64,
        within_ns: u64,
    ) -> Called<Result<Option<Admitted>, PolicyFault>> {
        call!(self, "holds.let-one-through", imports, |call| {
            let holds = call.exports.incumbent_policy_holds();
            holds.call_let_one_through(&mut call.store, queues, builder, after_ns, within_ns)
        })
    }

    /// Keep the let-through key, taken at `since` and known at `revision`.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn keep_let_through(
        &self,
        imports: impl Imports + 'static,
        builder: &str,
        since: &str,
        revision: u64,
    ) -> Called<Result<Kept, PolicyFault>> {
        call!(self, "holds.keep", imports, |call| call.exports.incumbent_policy_holds().call_keep(
            &mut call.store,
            builder,
            since,
            revision
        ))
    }

    /// Drop the let-through key, known at `revision`; a key that moved is left alone.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn drop_let_through(
        &self,
        imports: impl Imports + 'static,
        revision: u64,
    ) -> Called<Result<(), PolicyFault>> {
        call!(self, "holds.drop", imports, |call| call
            .exports
            .incumbent_policy_holds()
            .call_drop(&mut call.store, revision))
    }

    /// Why checks wait.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn holds_status(&self, imports: impl Imports + 'static) -> Called<Result<Report, PolicyFault>> {
        call!(self, "holds.status", imports, |call| call
            .exports
            .incumbent_policy_holds()
            .call_status(&mut call.store))
    }

    /// A plan's build phase begins, or goes on under a new controller.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn begin_plan(
        &self,
        imports: impl Imports + 'static,
        plan: &str,
    ) -> Called<Result<Building, PolicyFault>> {
        call!(self, "holds.begin", imports, |call| call
            .exports
            .incumbent_policy_holds()
            .call_begin(&mut call.store, plan))
    }

    /// A plan still builds.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn plan_seen(
        &self,
        imports: impl Imports + 'static,
        plan: &str,
        known: &Building,
    ) -> Called<Result<Kept, PolicyFault>> {
        call!(self, "holds.seen", imports, |call| call.exports.incumbent_policy_holds().call_seen(
            &mut call.store,
            plan,
            known
        ))
    }

    /// A plan's build phase ended; a key that moved is left alone.
    ///
    /// # Errors
    /// The policy failed.
    pub async fn end_plan(
        &self,
        imports: impl Imports + 'static,
        plan: &str,
        revision: u64,
    ) -> Called<Result<(), PolicyFault>> {
        call!(self, "holds.end", imports, |call| call.exports.incumbent_policy_holds().call_end(
            &mut call.store,
            plan,
            revision
        ))
    }
}
