#include "policy_in_c.h"

// One look at the key: what it is judged by.
typedef struct {
    const terms_t *terms;
    identity_t *who;
    exports_lease_vacancy_t rule;
    const sighting_t *seen;
    uint64_t created;
    // A steady reading made before the first look.
    uint64_t began_ns;
    // Whether this very try found the key free, and only then wrote.
    bool was_free;
} look_t;

typedef enum {
    // Nobody's.
    FREE,
    // A record of one's own, from a write whose answer was lost.
    OURS,
    // Somebody else's, or not surely free yet.
    WAIT,
    // What stands there is no holder.
    NO_HOLDER,
} found_t;

// What a look found: a sighting where it is free, a holder where it is ours, and so on.
typedef struct {
    found_t found;
    waiting_t waiting;
    holder_t ours;
    text_t why;
} judged_t;

static bool waits(attempt_t *attempt, waiting_t waiting) {
    *attempt = (attempt_t){.tag = EXPORTS_LEASE_ATTEMPT_WAITING, .val.waiting = waiting};
    return true;
}

// Waits for nobody known, from now on.
static bool waits_anew(attempt_t *attempt, uint64_t created) {
    return waits(attempt, (waiting_t){.sighting = sighting_new(created, steady_now())});
}

// Written, and not yet acted on: everybody else who stands sees it first.
static waiting_t announce(const look_t *look, uint64_t revision, uint64_t now) {
    sighting_t sighting = sighting_new(look->created, now);
    sighting.revision = (policy_option_u64_t){true, revision};
    // When it may be acted on.
    sighting.since_ns = saturating_add(now, terms_announced(look->terms));
    return (waiting_t){.sighting = sighting, .again_at_ns = {true, sighting.since_ns}};
}

static bool announces(attempt_t *attempt, const look_t *look, uint64_t revision) {
    return waits(attempt, announce(look, revision, steady_now()));
}

static bool troubled(trouble_t *trouble, uint8_t tag, fault_t fault) {
    // The faults of all cases lie in one place.
    *trouble = (trouble_t){.tag = tag, .val.unsure = fault};
    return false;
}

static bool no_holder(trouble_t *trouble, text_t why) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_NOT_A_HOLDER, .val.not_a_holder = why};
    return false;
}

static sighting_t absence(const look_t *look, uint64_t now) {
    return sighting_of_absence(look->seen, look->created, look->rule, look->terms, look->began_ns, now);
}

// Whether nobody's, of which this is known, has been watched for long enough.
static bool watch_over(const look_t *look, sighting_t sighting, uint64_t now, waiting_t *waiting) {
    waiting->sighting = sighting;
    // A whole ttl, not the ttl less the margin: the margin pays for clocks that run at different rates and for acts
    // under way.
    uint64_t free_at = saturating_add(waiting->sighting.since_ns, look->terms->ttl_ns);
    if (look->rule == EXPORTS_LEASE_VACANCY_TRUSTED || now >= free_at) return true;
    waiting->again_at_ns = (policy_option_u64_t){true, free_at};
    return false;
}

// A record of one's own, from a write whose answer was lost. It may have come into a bucket raised again meanwhile, or
// after somebody else's record that was forgotten: it counts where the key had been watched as one watches an absence.
static found_t judge_own(const look_t *look, uint64_t revision, uint64_t now, waiting_t *waiting) {
    const sighting_t *seen = look->seen;
    // Of a record of one's own that others are to see first: nothing else is known of a later instant than the look's.
    if (seen != NULL && seen->created == look->created && seen->revision.is_some && seen->revision.val == revision &&
        seen->last_ns < seen->since_ns) {
        *waiting = (waiting_t){.sighting = *seen, .again_at_ns = {true, seen->since_ns}};
        return now < seen->since_ns ? WAIT : OURS;
    }
    if (!watch_over(look, absence(look, now), now, waiting) && !look->was_free) return WAIT;
    if (look->rule != EXPORTS_LEASE_VACANCY_DELAYED) return OURS;
    *waiting = announce(look, revision, now);
    return WAIT;
}

static judged_t judge(const look_t *look, const kv_reading_t *reading) {
    // Read after the answer came: whatever it told was written before this instant.
    uint64_t now = steady_now();
    judged_t judged = {0};
    waiting_t *waiting = &judged.waiting;
    bool delayed = look->rule == EXPORTS_LEASE_VACANCY_DELAYED;
    switch (reading->tag) {
    case KV_READING_FOUND: {
        const kv_entry_t *entry = &reading->val.found;
        holder_t holder;
        text_t asked, why;
        if (!record_read(entry, &holder, &asked, &why)) {
            judged.found = NO_HOLDER;
            judged.why = not_a_holder(look->who->lease, why);
        } else if (owns(look->who, &holder)) {
            judged.found = judge_own(look, entry->revision, now, waiting);
            judged.ours = holder;
        } else {
            judged.found = WAIT;
            waiting->sighting = sighting_of_record(look->seen, look->created, entry->revision, now);
            waiting->holder = (exports_lease_option_holder_t){true, holder};
            // What the watched rule needs: to have seen the record just when it can be renewed no more.
            uint64_t at = terms_until(look->terms, waiting->sighting.since_ns);
            waiting->again_at_ns =
                (policy_option_u64_t){look->rule == EXPORTS_LEASE_VACANCY_WATCHED && now < at, at};
        }
        break;
    }
    default: {
        // Its owner gave it up, or the store vouches for its age; unless it may have forgotten what came after.
        if ((reading->tag == KV_READING_DELETED || reading->tag == KV_READING_AGED) && !delayed) {
            waiting->sighting = sighting_new(look->created, now);
            break;
        }
        // Whoever's it was that somebody erased may act for as long as if it stood there still.
        bool changed = reading->tag == KV_READING_ERASED && look->rule == EXPORTS_LEASE_VACANCY_WATCHED;
        sighting_t known = changed ? sighting_of_record(look->seen, look->created, reading->val.erased, now)
                                   : absence(look, now);
        judged.found = watch_over(look, known, now, waiting) ? FREE : WAIT;
    }
    }
    return judged;
}

written_t provisional_create(identity_t *who, provisional_t *ours, fault_t *fault) {
    clock_moment_t sent;
    kv_write_t write;
    clock_now(&sent);
    text_t taken = rfc3339(sent.wall);
    bytes_t value = record_write(who, 0, taken, taken);
    if (!kv_create(KV_ROLE_LEASE, &who->lease, &value, &write, fault)) return FAILED;
    if (write.tag != KV_WRITE_WRITTEN) return LOST;
    *ours = (provisional_t){write.val.written, write.val.written, taken, sent.steady_ns, ours->created};
    return WRITTEN;
}

written_t provisional_renew(identity_t *who, provisional_t *ours, fault_t *fault) {
    clock_moment_t sent;
    kv_write_t write;
    clock_now(&sent);
    bytes_t value = record_write(who, ours->epoch, ours->taken, rfc3339(sent.wall));
    if (!kv_update(KV_ROLE_LEASE, &who->lease, &value, ours->revision, &write, fault)) return FAILED;
    if (write.tag != KV_WRITE_WRITTEN) return LOST;
    ours->revision = write.val.written;
    ours->sent_ns = sent.steady_ns;
    return WRITTEN;
}

void give_back(const terms_t *terms, identity_t *who, const provisional_t *ours) {
    kv_bucket_info_t bucket;
    kv_write_t write;
    fault_t fault;
    // In a bucket raised again a deletion leaves a marker by which the lease is free at once though somebody may still
    // act, and once its time is over its revision may be another's.
    if (steady_now() >= terms_until(terms, ours->sent_ns)) return;
    if (!kv_info(KV_ROLE_LEASE, &bucket, &fault) || bucket.created != ours->created) return;
    kv_delete(KV_ROLE_LEASE, &who->lease, ours->revision, &write, &fault);
}

// From a record of one's own to a tenure: the same bucket still, an epoch never issued, and in time. On every other way
// out the record is given back.
static bool confirm(const look_t *look, provisional_t ours, attempt_t *attempt, trouble_t *trouble) {
    kv_bucket_info_t bucket;
    fault_t fault;
    if (!kv_info(KV_ROLE_LEASE, &bucket, &fault)) {
        give_back(look->terms, look->who, &ours);
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, fault);
    }
    // What was seen was seen in another bucket, so this one's emptiness has not been watched. The record is left to
    // expire: its revision may be another's by the time it could be deleted.
    if (bucket.created != look->created) return waits_anew(attempt, bucket.created);
    uint64_t epoch = ours.epoch;
    switch (floor_clear(look->terms, look->who, &ours, trouble)) {
    case CLEAR:
        // Written anew after a move, which nobody has seen yet.
        if (ours.epoch != epoch && look->rule == EXPORTS_LEASE_VACANCY_DELAYED) {
            return announces(attempt, look, ours.revision);
        }
        break;
    case TAKEN_OVER:
        return waits_anew(attempt, bucket.created);
    case TROUBLED:
        return false;
    }
    uint64_t until_ns = terms_until(look->terms, ours.sent_ns);
    // An answer that comes after its time grants nothing.
    if (steady_now() >= until_ns) {
        text_t why = TEXT("taking the lease took longer than the record is good for");
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, unavailable(why));
    }
    *attempt = (attempt_t){
        .tag = EXPORTS_LEASE_ATTEMPT_TAKEN,
        .val.taken = {
            .epoch = ours.epoch,
            .revision = ours.revision,
            .created = bucket.created,
            .taken = ours.taken,
            .until_ns = until_ns,
            .certainty = {.tag = EXPORTS_LEASE_CERTAINTY_SURE},
        },
    };
    return true;
}

// A record of one's own was found: an answer had been lost. It counts once an update at its revision has won, and is
// held at its first epoch.
static bool adopt(const look_t *look, const holder_t *own, attempt_t *attempt, trouble_t *trouble) {
    if (own->epoch > own->revision) {
        text_t why = say("it claims epoch %n at revision %n", own->epoch, own->revision);
        return no_holder(trouble, not_a_holder(look->who->lease, why));
    }
    provisional_t ours = {own->epoch, own->revision, own->taken, 0, look->created};
    fault_t fault;
    switch (provisional_renew(look->who, &ours, &fault)) {
    case WRITTEN:
        return confirm(look, ours, attempt, trouble);
    case LOST:
        return waits_anew(attempt, look->created);
    default:
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, fault);
    }
}

// After a create that was refused, or whose answer was lost (a fault): whose record is it?
static bool look_again(const look_t *look, const fault_t *lost, attempt_t *attempt, trouble_t *trouble) {
    kv_reading_t reading;
    fault_t fault;
    if (!kv_get(KV_ROLE_LEASE, &look->who->lease, &reading, &fault)) {
        return lost != NULL ? troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, *lost)
                            : troubled(trouble, EXPORTS_LEASE_TROUBLE_UNREADABLE, fault);
    }
    judged_t judged = judge(look, &reading);
    if (judged.found == NO_HOLDER) return no_holder(trouble, judged.why);
    if (judged.found == OURS) return adopt(look, &judged.ours, attempt, trouble);
    // No holder is there: the write whose answer was lost may still arrive.
    if (lost != NULL && !judged.waiting.holder.is_some) {
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, *lost);
    }
    // Where it is free: lost to somebody who is gone again, or a stale reading. The next try will tell.
    return waits(attempt, judged.waiting);
}

// Create the record of a key that is free.
static bool stand(const look_t *look, const sighting_t *sighting, attempt_t *attempt, trouble_t *trouble) {
    provisional_t ours = {.created = look->created};
    fault_t fault;
    switch (provisional_create(look->who, &ours, &fault)) {
    case WRITTEN:
        if (look->rule == EXPORTS_LEASE_VACANCY_DELAYED) return announces(attempt, look, ours.revision);
        return confirm(look, ours, attempt, trouble);
    case LOST: {
        // Somebody's record was there just now: whatever was seen before is over.
        look_t anew = *look;
        anew.seen = NULL;
        return look_again(&anew, NULL, attempt, trouble);
    }
    default:
        break;
    }
    switch (fault.tag) {
    case KV_FAULT_UNKNOWN: {
        look_t own = *look;
        own.was_free = true;
        return look_again(&own, &fault, attempt, trouble);
    }
    case KV_FAULT_MISSING_BUCKET:
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNREADABLE, fault);
    case KV_FAULT_UNAVAILABLE:
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, fault);
    default:
        break;
    }
    // Surely refused, for good: is it still nobody's? Only then may a caller serve without it.
    kv_reading_t reading;
    fault_t unread;
    if (!kv_get(KV_ROLE_LEASE, &look->who->lease, &reading, &unread)) {
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNREADABLE, unread);
    }
    look_t again = *look;
    again.seen = sighting;
    again.was_free = true;
    judged_t judged = judge(&again, &reading);
    switch (judged.found) {
    case FREE:
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNWRITABLE, fault);
    case OURS:
        return troubled(trouble, EXPORTS_LEASE_TROUBLE_UNSURE, fault);
    case WAIT:
        return waits(attempt, judged.waiting);
    default:
        return no_holder(trouble, judged.why);
    }
}

static bool misfit(trouble_t *trouble, text_t why) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_MISFIT, .val.misfit = why};
    return false;
}

bool exports_lease_take(terms_t *terms, identity_t *who, exports_lease_vacancy_t rule, sighting_t *maybe_seen,
                        attempt_t *ret, trouble_t *err) {
    kv_bucket_info_t bucket;
    kv_reading_t reading;
    fault_t fault;
    text_t why;
    if (who->instance.len == 0 || who->nonce.len == 0) {
        return misfit(err, TEXT("a candidate needs an instance and a nonce, or it could not know its own record"));
    }
    uint64_t began_ns = steady_now();
    if (!kv_info(KV_ROLE_LEASE, &bucket, &fault)) return troubled(err, EXPORTS_LEASE_TROUBLE_UNREADABLE, fault);
    if (!terms_fit(terms, &bucket, &why)) return misfit(err, why);
    if (rule == EXPORTS_LEASE_VACANCY_DELAYED && !terms_fit_delayed(terms, &why)) return misfit(err, why);
    look_t look = {terms, who, rule, maybe_seen, bucket.created, began_ns, false};
    if (!kv_get(KV_ROLE_LEASE, &who->lease, &reading, &fault)) {
        return troubled(err, EXPORTS_LEASE_TROUBLE_UNREADABLE, fault);
    }
    judged_t judged = judge(&look, &reading);
    switch (judged.found) {
    case FREE:
        return stand(&look, &judged.waiting.sighting, ret, err);
    case OURS:
        return adopt(&look, &judged.ours, ret, err);
    case WAIT:
        return waits(ret, judged.waiting);
    default:
        return no_holder(err, judged.why);
    }
}
