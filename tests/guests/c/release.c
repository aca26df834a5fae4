#include "policy_in_c.h"

// How often a deletion is tried: once, once more for a renewal that was in flight and landed first, and once for an
// answer that was lost.
enum { TRIES = 3 };

// Only a record known by revision to be one's own is deleted.
void exports_lease_release(identity_t *who, tenure_t *tenure, exports_lease_release_outcome_t *ret) {
    uint64_t revision = tenure->revision;
    fault_t left = unavailable(TEXT("the record kept moving"));
    for (unsigned n = 0; n < TRIES; n++) {
        kv_write_t write;
        kv_reading_t reading;
        fault_t fault;
        // Nor in a bucket raised again, where its revision may be another's once its time is over.
        if (steady_now() >= tenure->until_ns) {
            left = unavailable(TEXT("its time is over; the record expires by itself"));
            break;
        }
        if (kv_delete(KV_ROLE_LEASE, &who->lease, revision, &write, &fault)) {
            if (write.tag == KV_WRITE_WRITTEN) {
                ret->tag = EXPORTS_LEASE_RELEASE_OUTCOME_GIVEN_BACK;
                return;
            }
        } else {
            left = fault;
            if (fault.tag != KV_FAULT_UNKNOWN) break;
        }
        // Refused, or the answer was lost: what stands there now?
        if (!kv_get(KV_ROLE_LEASE, &who->lease, &reading, &fault)) {
            left = fault;
            break;
        }
        if (reading.tag == KV_READING_ERASED) {
            // By somebody who gave nothing back.
            ret->tag = EXPORTS_LEASE_RELEASE_OUTCOME_NOT_OURS;
            return;
        }
        if (reading.tag != KV_READING_FOUND) {
            // Gone, by the deletion whose answer was lost or by its age.
            ret->tag = EXPORTS_LEASE_RELEASE_OUTCOME_GIVEN_BACK;
            return;
        }
        // Older than what one wrote: a stale reading.
        if (reading.val.found.revision < revision) break;
        holder_t holder;
        text_t asked, why;
        if (!record_read(&reading.val.found, &holder, &asked, &why) || !owns(who, &holder)) {
            ret->tag = EXPORTS_LEASE_RELEASE_OUTCOME_NOT_OURS;
            return;
        }
        revision = reading.val.found.revision;
    }
    *ret = (exports_lease_release_outcome_t){.tag = EXPORTS_LEASE_RELEASE_OUTCOME_LEFT, .val.left = left};
}
