#include "policy_in_c.h"

sighting_t sighting_new(uint64_t created, uint64_t now_ns) {
    return (sighting_t){.created = created, .since_ns = now_ns, .last_ns = now_ns};
}

sighting_t sighting_of_record(const sighting_t *seen, uint64_t created, uint64_t revision, uint64_t now_ns) {
    sighting_t now = sighting_new(created, now_ns);
    now.revision = (policy_option_u64_t){true, revision};
    if (seen != NULL && seen->created == created && seen->revision.is_some && seen->revision.val == revision) {
        now.since_ns = seen->since_ns;
    }
    return now;
}

sighting_t sighting_of_absence(const sighting_t *seen, uint64_t created, exports_lease_vacancy_t rule,
                               const terms_t *terms, uint64_t began_ns, uint64_t now_ns) {
    bool delayed = rule == EXPORTS_LEASE_VACANCY_DELAYED;
    sighting_t fresh = sighting_new(created, now_ns);
    // The next look is measured from the beginning of this one, within which a record may have gone.
    if (delayed) fresh.last_ns = began_ns;
    if (seen == NULL || seen->created != created) return fresh;
    if (!seen->revision.is_some) {
        // In a longer time a record may have come and been forgotten unseen.
        bool broken = delayed && saturating_sub(now_ns, seen->last_ns) > terms_gap(terms);
        if (!broken) fresh.since_ns = seen->since_ns;
        return fresh;
    }
    // The wait began with the last record seen, but only where that stood unchanged until its holder could not renew
    // it any more: one that went earlier may have been renewed unseen and then forgotten. Under the delayed rule it
    // begins with the absence.
    bool expired = seen->last_ns >= terms_until(terms, seen->since_ns);
    return !delayed && expired ? *seen : fresh;
}
