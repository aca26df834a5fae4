#include "policy_in_c.h"

#include <stdlib.h>

// An error is an error, never "nobody".
bool exports_lease_current(text_t *lease, exports_lease_option_holder_t *ret, trouble_t *err) {
    kv_reading_t reading;
    fault_t fault;
    text_t asked, why;
    if (!kv_get(KV_ROLE_LEASE, lease, &reading, &fault)) {
        *err = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_UNREADABLE, .val.unreadable = fault};
        return false;
    }
    ret->is_some = reading.tag == KV_READING_FOUND;
    if (!ret->is_some || record_read(&reading.val.found, &ret->val, &asked, &why)) return true;
    *err = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_NOT_A_HOLDER, .val.not_a_holder = not_a_holder(*lease, why)};
    return false;
}

bool exports_lease_list(text_t *maybe_after, uint32_t most, exports_lease_list_held_lease_t *ret, trouble_t *err) {
    texts_t keys;
    fault_t fault;
    if (!kv_keys(KV_ROLE_LEASE, maybe_after, most, &keys, &fault)) {
        *err = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_UNREADABLE, .val.unreadable = fault};
        return false;
    }
    *ret = (exports_lease_list_held_lease_t){malloc(keys.len * sizeof *ret->ptr), 0};
    for (size_t n = 0; n < keys.len; n++) {
        exports_lease_held_lease_t held = {.name = keys.ptr[n]};
        exports_lease_option_holder_t holder;
        trouble_t trouble;
        if (exports_lease_current(&keys.ptr[n], &holder, &trouble)) {
            // Gone since the keys were read.
            if (!holder.is_some) continue;
            held.holder.val.ok = holder.val;
        } else if (trouble.tag == EXPORTS_LEASE_TROUBLE_NOT_A_HOLDER) {
            // A row of the list, not an error.
            held.holder.is_err = true;
            held.holder.val.err = trouble.val.not_a_holder;
        } else {
            *err = trouble;
            return false;
        }
        ret->ptr[ret->len++] = held;
    }
    return true;
}
