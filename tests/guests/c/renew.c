#include "policy_in_c.h"

static renewal_t lost(loss_t loss) {
    return (renewal_t){.tag = EXPORTS_LEASE_RENEWAL_LOST, .val.lost = loss};
}

static renewal_t lost_as(uint8_t tag) {
    return lost((loss_t){.tag = tag});
}

static renewal_t failed(tenure_t tenure, text_t why) {
    tenure.certainty.tag = EXPORTS_LEASE_CERTAINTY_UNSURE;
    return (renewal_t){.tag = EXPORTS_LEASE_RENEWAL_FAILED, .val.failed = {tenure, why}};
}

static tenure_t doubted(tenure_t tenure, uint64_t since) {
    tenure.certainty.tag = EXPORTS_LEASE_CERTAINTY_DOUBTED;
    tenure.certainty.val.doubted = since;
    return tenure;
}

static renewal_t refused(tenure_t tenure, uint64_t since, text_t why) {
    return (renewal_t){.tag = EXPORTS_LEASE_RENEWAL_REFUSED, .val.refused = {doubted(tenure, since), why}};
}

// Doubted from now on, so that nothing opens the gate again.
static renewal_t asked(tenure_t tenure, text_t by) {
    return (renewal_t){.tag = EXPORTS_LEASE_RENEWAL_ASKED, .val.asked = {doubted(tenure, steady_now()), by}};
}

// The texts of all cases lie in one place.
static text_t words(const fault_t *fault) {
    return fault->val.unknown;
}

// Write the record once more at the last known revision.
static renewal_t update(const terms_t *terms, identity_t *who, tenure_t tenure) {
    clock_moment_t sent;
    kv_write_t write;
    fault_t fault;
    clock_now(&sent);
    // The look before it may have taken until then.
    if (sent.steady_ns >= tenure.until_ns) return lost_as(EXPORTS_LEASE_LOSS_OVERDUE);
    bytes_t value = record_write(who, tenure.epoch, tenure.taken, rfc3339(sent.wall));
    bool answered = kv_update(KV_ROLE_LEASE, &who->lease, &value, tenure.revision, &write, &fault);
    uint64_t now = steady_now();
    // An answer that comes after its time grants nothing: the gate was shut, and lost is lost.
    if (now >= tenure.until_ns) return lost_as(EXPORTS_LEASE_LOSS_OVERDUE);
    if (!answered) return failed(tenure, say("the renewal could not be made: %t", words(&fault)));
    if (write.tag != KV_WRITE_WRITTEN) {
        return refused(tenure, now, say("the renewal at revision %n was refused", tenure.revision));
    }
    tenure.revision = write.val.written;
    tenure.until_ns = terms_until(terms, sent.steady_ns);
    tenure.certainty.tag = EXPORTS_LEASE_CERTAINTY_SURE;
    return (renewal_t){.tag = EXPORTS_LEASE_RENEWAL_KEPT, .val.kept = tenure};
}

typedef enum {
    OWN_NEWER,
    // One's own, marked by somebody who asks to give way.
    ASKED,
    OTHER,
    NOTHING,
} seen_t;

// What a reading tells a holder. An entry not newer than one's own revision is stale and tells nothing; so does an
// absence, which no read proves. `newer` is the tenure at the revision found.
static seen_t see(const kv_reading_t *reading, const identity_t *who, const tenure_t *tenure, tenure_t *newer,
                  text_t *by, loss_t *loss) {
    holder_t holder;
    text_t why;
    if (reading->tag != KV_READING_FOUND || reading->val.found.revision <= tenure->revision) return NOTHING;
    if (!record_read(&reading->val.found, &holder, by, &why)) {
        *loss = (loss_t){.tag = EXPORTS_LEASE_LOSS_OVERWRITTEN, .val.overwritten = not_a_holder(who->lease, why)};
        return OTHER;
    }
    if (!owns(who, &holder)) {
        *loss = (loss_t){.tag = EXPORTS_LEASE_LOSS_SUPERSEDED, .val.superseded = holder};
        return OTHER;
    }
    // Not of this tenure: a create of one's own that came late, or twice.
    if (holder.epoch != tenure->epoch) return NOTHING;
    *newer = *tenure;
    newer->revision = reading->val.found.revision;
    return by->len == 0 ? OWN_NEWER : ASKED;
}

// The last renewal failed or got no answer: it may have landed, in which case its revision is the one to go on from.
// Only an update that wins says so for certain.
static renewal_t after_failure(const terms_t *terms, identity_t *who, tenure_t tenure) {
    kv_reading_t reading;
    fault_t fault;
    if (!kv_get(KV_ROLE_LEASE, &who->lease, &reading, &fault)) {
        return failed(tenure, say("the record cannot be read: %t", words(&fault)));
    }
    tenure_t newer;
    text_t by;
    loss_t loss;
    switch (see(&reading, who, &tenure, &newer, &by, &loss)) {
    case OWN_NEWER:
        return update(terms, who, newer);
    case ASKED:
        return asked(newer, by);
    case OTHER:
        return lost(loss);
    default:
        // Nothing for certain: the update is refused if it is so.
        return update(terms, who, tenure);
    }
}

// The last renewal was refused and the gate is shut: look for one's own newer record, or for somebody else's, for as
// long as one renewal interval.
static renewal_t after_refusal(const terms_t *terms, identity_t *who, tenure_t tenure, uint64_t since) {
    kv_bucket_info_t bucket;
    kv_reading_t reading;
    fault_t fault;
    text_t why;
    if (!kv_info(KV_ROLE_LEASE, &bucket, &fault)) {
        why = say("why it was refused cannot be read: %t", words(&fault));
    } else if (bucket.created != tenure.created) {
        // Another bucket's revisions say nothing of this one's.
        return lost_as(EXPORTS_LEASE_LOSS_RAISED_AGAIN);
    } else if (!kv_get(KV_ROLE_LEASE, &who->lease, &reading, &fault)) {
        why = say("why it was refused cannot be read: %t", words(&fault));
    } else {
        tenure_t newer;
        text_t by;
        loss_t loss;
        switch (see(&reading, who, &tenure, &newer, &by, &loss)) {
        case OWN_NEWER: {
            renewal_t ended = update(terms, who, newer);
            // It was one's own but has moved again, or the answer was lost: doubted still, and no longer than from the
            // first refusal.
            if (ended.tag == EXPORTS_LEASE_RENEWAL_FAILED) {
                return refused(ended.val.failed.tenure, since, ended.val.failed.why);
            }
            if (ended.tag == EXPORTS_LEASE_RENEWAL_REFUSED) {
                return refused(ended.val.refused.tenure, since, ended.val.refused.why);
            }
            return ended;
        }
        case ASKED:
            return asked(newer, by);
        case OTHER:
            return lost(loss);
        default:
            why = TEXT("no record of this holder's that is new enough is there");
        }
    }
    if (steady_now() >= saturating_add(since, terms->renew_every_ns)) return lost_as(EXPORTS_LEASE_LOSS_GONE);
    return refused(tenure, since, why);
}

// A refusal shuts the gate before one looks why, because a store that forgot an acknowledged renewal looks just like a
// stale read; a failure does not, because until `until_ns` nobody else can have taken the lease.
void exports_lease_renew(terms_t *terms, identity_t *who, tenure_t *tenure, renewal_t *ret) {
    // Never renewed past one's own time, whatever the store would answer.
    if (steady_now() >= tenure->until_ns) {
        *ret = lost_as(EXPORTS_LEASE_LOSS_OVERDUE);
        return;
    }
    switch (tenure->certainty.tag) {
    case EXPORTS_LEASE_CERTAINTY_SURE:
        *ret = update(terms, who, *tenure);
        break;
    case EXPORTS_LEASE_CERTAINTY_UNSURE:
        *ret = after_failure(terms, who, *tenure);
        break;
    default:
        *ret = after_refusal(terms, who, *tenure, tenure->certainty.val.doubted);
    }
}
