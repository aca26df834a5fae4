//! What the copied sources stand on, as small as they let it be.

macro_rules! copied {
    ($file:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $file));
    };
}

pub(crate) mod clock {
    //! A clock that the model moves; reading it is a step.

    use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(crate) use incumbent::clock::Steady;

    pub(crate) struct Clock(pub(crate) AtomicU64);

    impl Clock {
        pub(crate) fn now(&self) -> Steady {
            Steady(self.0.load(Ordering::SeqCst))
        }

        pub(crate) fn set(&self, to: u64) {
            self.0.store(to, Ordering::SeqCst);
        }
    }
}

pub(crate) use incumbent::store;

pub(crate) mod lie {
    pub(crate) use incumbent::policy::Lie;
}

pub(crate) mod gate {
    copied!("gate.rs");
}

pub(crate) mod rails {
    copied!("rails.rs");
}

pub(crate) mod lease {
    //! What permits share, and the line.

    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::clock::Clock;
    use super::gate::Gate;

    /// Of what a lease object shares: what its permits use.
    pub(crate) struct Shared {
        pub(crate) gate: Gate,
        pub(crate) clock: Clock,
        pub(crate) quiet: Notify,
        pub(crate) who: Who,
    }

    pub(crate) struct Who {
        pub(crate) lease: &'static str,
    }

    #[derive(Debug)]
    pub(crate) struct NotHeld;

    impl Shared {
        pub(crate) fn new(now: u64) -> Arc<Self> {
            Arc::new(Self {
                gate: Gate::new(),
                clock: Clock(now.into()),
                quiet: Notify::new(),
                who: Who { lease: "controller" },
            })
        }

        pub(crate) fn why_closed(&self) -> NotHeld {
            NotHeld
        }
    }

    copied!("lease_keeper.rs");

    pub(crate) use line::Line;
    pub(crate) use permit::Permit;

    #[expect(unreachable_pub, reason = "public there")]
    mod line {
        copied!("lease_line.rs");
    }

    #[expect(dead_code, unreachable_pub, reason = "public there")]
    mod permit {
        copied!("lease_permit.rs");
    }
}

pub(crate) mod policy {
    //! Versions of a policy that are told apart by their digest, as everywhere.

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Version(pub(crate) u64);

    impl Version {
        pub(crate) fn digest(&self) -> u64 {
            self.0
        }
    }

    #[derive(Clone, Debug)]
    pub(crate) struct PolicyError;

    #[expect(dead_code, unreachable_pub, reason = "public there")]
    pub(crate) mod serving {
        copied!("policy_serving.rs");
    }
}
