//! The host's types of a decision and the policy's, which are alike.

/// The policy's, from the host's.
pub(crate) mod guest {
    use incumbent::{Certainty, Identity, Sighting, Standing, Tenure, Terms, Vacancy};
    use incumbent_policy::{gate, lease};

    pub(crate) fn terms(terms: Terms) -> lease::Terms {
        lease::Terms {
            ttl_ns: terms.ttl_ns,
            renew_every_ns: terms.renew_every_ns,
            margin_ns: terms.margin_ns,
            poll_ns: terms.poll_ns,
        }
    }

    pub(crate) fn identity(who: &Identity) -> lease::Identity {
        lease::Identity {
            lease: who.lease.clone(),
            instance: who.instance.clone(),
            host: who.host.clone(),
            build: who.build.clone(),
            nonce: who.nonce.clone(),
        }
    }

    pub(crate) fn vacancy(rule: Vacancy) -> lease::Vacancy {
        match rule {
            Vacancy::Trusted => lease::Vacancy::Trusted,
            Vacancy::Watched => lease::Vacancy::Watched,
            Vacancy::Delayed => lease::Vacancy::Delayed,
        }
    }

    pub(crate) fn sighting(seen: Sighting) -> lease::Sighting {
        lease::Sighting {
            created: seen.created,
            revision: seen.revision,
            since_ns: seen.since_ns,
            last_ns: seen.last_ns,
        }
    }

    pub(crate) fn tenure(tenure: &Tenure) -> lease::Tenure {
        lease::Tenure {
            epoch: tenure.epoch,
            revision: tenure.revision,
            created: tenure.created,
            taken: tenure.taken.clone(),
            until_ns: tenure.until_ns,
            certainty: match tenure.certainty {
                Certainty::Sure => lease::Certainty::Sure,
                Certainty::Unsure => lease::Certainty::Unsure,
                Certainty::Doubted(since) => lease::Certainty::Doubted(since),
            },
        }
    }

    pub(crate) fn standing(standing: &Standing) -> gate::Standing {
        match standing {
            Standing::Candidate => gate::Standing::Candidate,
            Standing::Held(held) => gate::Standing::Held(tenure(held)),
            Standing::Released => gate::Standing::Released,
            Standing::Lost => gate::Standing::Lost,
        }
    }
}

/// The host's, from the policy's.
pub(crate) mod host {
    use incumbent::{
        Attempt, Certainty, Closed, HeldLease, Holder, Loss, Open, PolicyFault, ReleaseOutcome, Renewal,
        Request, Setback, Sighting, Tenure, Trouble, Waiting,
    };
    use incumbent_policy::{gate, imports, lease};

    pub(crate) fn attempt(attempt: lease::Attempt) -> Attempt {
        match attempt {
            lease::Attempt::Taken(taken) => Attempt::Taken(tenure(taken)),
            lease::Attempt::Waiting(waiting) => Attempt::Waiting(Waiting {
                holder: waiting.holder.map(holder),
                sighting: Sighting {
                    created: waiting.sighting.created,
                    revision: waiting.sighting.revision,
                    since_ns: waiting.sighting.since_ns,
                    last_ns: waiting.sighting.last_ns,
                },
                again_at_ns: waiting.again_at_ns,
            }),
        }
    }

    pub(crate) fn trouble(trouble: lease::Trouble) -> Trouble {
        match trouble {
            lease::Trouble::Misfit(text) => Trouble::Misfit(text),
            lease::Trouble::Unreadable(why) => Trouble::Unreadable(fault(why)),
            lease::Trouble::NotAHolder(text) => Trouble::NotAHolder(text),
            lease::Trouble::Unwritable(why) => Trouble::Unwritable(fault(why)),
            lease::Trouble::Unsure(why) => Trouble::Unsure(fault(why)),
            lease::Trouble::FloorUnreadable(why) => Trouble::FloorUnreadable(fault(why)),
            lease::Trouble::FloorTooHigh(floor) => Trouble::FloorTooHigh(floor),
            lease::Trouble::FloorBlocked(keys) => Trouble::FloorBlocked(keys),
            lease::Trouble::FloorUnmoved(why) => Trouble::FloorUnmoved(fault(why)),
        }
    }

    pub(crate) fn renewal(renewal: lease::Renewal) -> Renewal {
        let setback = |set: lease::Setback| Setback { tenure: tenure(set.tenure), why: set.why };
        match renewal {
            lease::Renewal::Kept(kept) => Renewal::Kept(tenure(kept)),
            lease::Renewal::Failed(set) => Renewal::Failed(setback(set)),
            lease::Renewal::Refused(set) => Renewal::Refused(setback(set)),
            lease::Renewal::Asked(set) => Renewal::Asked(setback(set)),
            lease::Renewal::Lost(loss) => Renewal::Lost(match loss {
                lease::Loss::Overdue => Loss::Overdue,
                lease::Loss::Superseded(by) => Loss::Superseded(holder(by)),
                lease::Loss::Overwritten(what) => Loss::Overwritten(what),
                lease::Loss::Gone => Loss::Gone,
                lease::Loss::RaisedAgain => Loss::RaisedAgain,
            }),
        }
    }

    pub(crate) fn release(release: lease::Release) -> ReleaseOutcome {
        match release {
            lease::Release::GivenBack => ReleaseOutcome::GivenBack,
            lease::Release::NotOurs => ReleaseOutcome::NotOurs,
            lease::Release::Left(why) => ReleaseOutcome::Left(fault(why)),
        }
    }

    pub(crate) fn request(request: lease::Request) -> Request {
        match request {
            lease::Request::Asked(asked) => Request::Asked(holder(asked)),
            lease::Request::AskedBefore(asked) => Request::AskedBefore(holder(asked)),
            lease::Request::Nobody => Request::Nobody,
        }
    }

    pub(crate) fn open(open: gate::Open) -> Open {
        Open { epoch: open.epoch, until_ns: open.until_ns }
    }

    pub(crate) fn closed(closed: gate::Closed) -> Closed {
        match closed {
            gate::Closed::NotHeld => Closed::NotHeld,
            gate::Closed::Doubted => Closed::Doubted,
            gate::Closed::Overdue => Closed::Overdue,
            gate::Closed::Released => Closed::Released,
            gate::Closed::Lost => Closed::Lost,
        }
    }

    fn tenure(tenure: lease::Tenure) -> Tenure {
        Tenure {
            epoch: tenure.epoch,
            revision: tenure.revision,
            created: tenure.created,
            taken: tenure.taken,
            until_ns: tenure.until_ns,
            certainty: match tenure.certainty {
                lease::Certainty::Sure => Certainty::Sure,
                lease::Certainty::Unsure => Certainty::Unsure,
                lease::Certainty::Doubted(since) => Certainty::Doubted(since),
            },
        }
    }

    pub(crate) fn held(held: lease::HeldLease) -> HeldLease {
        HeldLease { name: held.name, holder: held.holder.map(holder) }
    }

    pub(crate) fn holder(holder: lease::Holder) -> Holder {
        Holder {
            instance: holder.instance,
            host: holder.host,
            build: holder.build,
            epoch: holder.epoch,
            taken: holder.taken,
            renewed: holder.renewed,
            nonce: holder.nonce,
            revision: holder.revision,
        }
    }

    fn fault(fault: imports::Fault) -> PolicyFault {
        match fault {
            imports::Fault::Denied(text) => PolicyFault::Denied(text),
            imports::Fault::MissingBucket(text) => PolicyFault::MissingBucket(text),
            imports::Fault::TooLarge(text) => PolicyFault::TooLarge(text),
            imports::Fault::Unavailable(text) => PolicyFault::Unavailable(text),
            imports::Fault::Unknown(text) => PolicyFault::Unknown(text),
        }
    }
}
