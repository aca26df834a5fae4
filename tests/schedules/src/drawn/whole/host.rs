//! The host's lease, copied, on what it stands on: the host's own types, and the built-in decisions made in this
//! process.

pub(crate) use incumbent::{clock, floor, limits, store};

pub(crate) use crate::drawn::stage::{gate, lie, rails};

#[allow(dead_code, unused_imports, unreachable_pub, reason = "used in part")]
mod copied {
    include!(concat!(env!("OUT_DIR"), "/whole/modules.rs"));
}
pub(crate) use copied::{chance, digest, imports, lease};

pub(crate) mod bindings {
    pub(crate) use incumbent::{
        Attempt, Certainty, HeldLease, Holder, Identity, Loss, Open, PolicyFault, ReleaseOutcome, Renewal,
        Request, Setback, Sighting, Standing, Tenure, Terms, Trouble, Vacancy,
    };
}

pub(crate) mod policy {
    //! The host's, with stand-ins for what of it is the lease's alone.

    use std::ops::Deref;

    use incumbent::imports::Imports;
    use incumbent::policy::Version;
    use incumbent::{Closed, Identity, Open, Renewal, Standing, Tenure, Terms};
    use tokio::sync::watch;

    pub(crate) use incumbent::policy::{Misdeed, PolicyError};

    /// Nothing is kept of an instance here.
    #[derive(Debug)]
    pub(crate) struct Instance;

    #[derive(Clone, Debug)]
    pub(crate) struct Policy {
        decides: incumbent::Policy,
        changes: watch::Sender<u64>,
    }

    impl Policy {
        pub(crate) fn of(version: Version) -> Self {
            Self { decides: incumbent::Policy::of(version), changes: watch::Sender::new(0) }
        }

        pub(crate) fn swap(&self, version: Version) {
            self.decides.swap(version, None);
            self.changes.send_modify(|changes| *changes += 1);
        }

        pub(crate) fn changes(&self) -> watch::Receiver<u64> {
            self.changes.subscribe()
        }

        pub(crate) async fn renew_and(
            &self,
            imports: impl Imports + 'static,
            terms: Terms,
            who: &Identity,
            tenure: &Tenure,
        ) -> (Result<Renewal, PolicyError>, Option<Instance>) {
            (self.decides.renew(imports, terms, who, tenure).await, None)
        }

        pub(crate) async fn pass_after(
            &self,
            _: Option<Instance>,
            imports: impl Imports + 'static,
            standing: &Standing,
        ) -> Result<Result<Open, Closed>, PolicyError> {
            self.decides.pass(imports, standing).await
        }
    }

    impl Deref for Policy {
        type Target = incumbent::Policy;

        fn deref(&self) -> &Self::Target {
            &self.decides
        }
    }
}
