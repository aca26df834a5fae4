//! What this policy decides. Tried natively: what the host answers is scripted, and what was asked of it is looked at.

mod scripted;

use incumbent_policy::Decisions as _;
use incumbent_policy::imports::{Fault, Write};
use incumbent_policy::lease::{Certainty, Identity, Loss, Renewal, Tenure, Terms};

use crate::Policy;
use scripted::{Answer, Scripted};

const SECOND: u64 = 1_000_000_000;

const TERMS: Terms =
    Terms { ttl_ns: 15 * SECOND, renew_every_ns: 5 * SECOND, margin_ns: 3 * SECOND, poll_ns: SECOND };

fn alice() -> Identity {
    Identity {
        lease: "office".into(),
        instance: "alice".into(),
        host: "".into(),
        build: "".into(),
        nonce: "a1".into(),
    }
}

/// Alice took the office at revision 57, and her gate is open for ten seconds more.
fn tenure(host: &Scripted) -> Tenure {
    Tenure {
        epoch: 57,
        revision: 57,
        created: 1,
        taken: "2026-01-01T00:00:00Z".into(),
        until_ns: host.now_ns + 10 * SECOND,
        certainty: Certainty::Sure,
    }
}

/// How a renewal ends that the store answers so, and what was asked of it.
fn renewed(answer: Answer) -> (Renewal, Scripted) {
    let mut host = Scripted::new([answer]);
    let tenure = tenure(&host);
    let renewal = Policy::renew(&mut host, &TERMS, &alice(), tenure);
    (renewal, host)
}

#[test]
fn a_renewal_that_is_written_keeps_the_lease() {
    let (renewal, host) = renewed(Answer::Write(Write::Written(58)));
    let Renewal::Kept(tenure) = renewal else { panic!("{renewal:?}") };
    assert_eq!((tenure.epoch, tenure.revision), (57, 58));
    assert_eq!(tenure.until_ns, host.now_ns + TERMS.ttl_ns - TERMS.margin_ns);
    assert_eq!(host.asked, ["update Lease office at 57"]);
}

#[test]
fn a_renewal_that_fails_is_a_lease_lost() {
    let away = Answer::Fault(Fault::Unavailable("the store is away".into()));
    for answer in [away, Answer::Write(Write::Stale(None))] {
        let (renewal, host) = renewed(answer);
        assert_eq!(renewal, Renewal::Lost(Loss::Overdue));
        assert_eq!(host.asked, ["update Lease office at 57"]);
    }
}
