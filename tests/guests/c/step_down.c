#include "policy_in_c.h"

// How often it is tried: a holder that renews meanwhile moves its record.
enum { TRIES = 3 };

static bool troubled(trouble_t *trouble, uint8_t tag, fault_t fault) {
    *trouble = (trouble_t){.tag = tag, .val.unsure = fault};
    return false;
}

static bool no_holder(trouble_t *trouble, text_t lease, text_t why) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_NOT_A_HOLDER, .val.not_a_holder = not_a_holder(lease, why)};
    return false;
}

static bool answered(exports_lease_request_t *request, uint8_t tag, holder_t holder) {
    *request = (exports_lease_request_t){.tag = tag, .val.asked = holder};
    return true;
}

// The mark is written at the very revision that was read, so it never lands on another holder's record; the holder's
// next renewal is refused by it, and finds it.
bool exports_lease_step_down(text_t *lease, text_t *by, exports_lease_request_t *ret, trouble_t *err) {
    if (by->len == 0) {
        text_t why = TEXT("a holder is asked to give way in somebody's name, which is empty");
        *err = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_MISFIT, .val.misfit = why};
        return false;
    }
    holder_t holder;
    uint64_t epoch = 0;
    for (unsigned n = 0; n < TRIES; n++) {
        kv_reading_t reading;
        kv_write_t write;
        fault_t fault;
        text_t asked, why;
        bytes_t marked;
        if (!kv_get(KV_ROLE_LEASE, lease, &reading, &fault)) {
            return troubled(err, EXPORTS_LEASE_TROUBLE_UNREADABLE, fault);
        }
        if (reading.tag != KV_READING_FOUND) {
            ret->tag = EXPORTS_LEASE_REQUEST_NOBODY;
            return true;
        }
        kv_entry_t *entry = &reading.val.found;
        if (!record_read(entry, &holder, &asked, &why)) return no_holder(err, *lease, why);
        // Only whom one found first is asked.
        if (n > 0 && holder.epoch != epoch) {
            why = say("%t took over meanwhile; look, and ask again", holder.instance);
            return troubled(err, EXPORTS_LEASE_TROUBLE_UNSURE, unavailable(why));
        }
        epoch = holder.epoch;
        if (asked.len > 0) return answered(ret, EXPORTS_LEASE_REQUEST_ASKED_BEFORE, holder);
        if (!record_mark(entry, epoch, *by, &marked)) {
            return no_holder(err, *lease, TEXT("not all of it can be read"));
        }
        if (!kv_update(KV_ROLE_LEASE, lease, &marked, entry->revision, &write, &fault)) {
            bool passes = fault.tag == KV_FAULT_UNKNOWN || fault.tag == KV_FAULT_UNAVAILABLE;
            return troubled(err, passes ? EXPORTS_LEASE_TROUBLE_UNSURE : EXPORTS_LEASE_TROUBLE_UNWRITABLE, fault);
        }
        if (write.tag == KV_WRITE_WRITTEN) return answered(ret, EXPORTS_LEASE_REQUEST_ASKED, holder);
    }
    return troubled(err, EXPORTS_LEASE_TROUBLE_UNSURE, unavailable(TEXT("the record kept moving; try again")));
}
