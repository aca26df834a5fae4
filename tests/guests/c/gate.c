#include "policy_in_c.h"

bool exports_gate_pass(exports_gate_standing_t *standing, exports_gate_open_t *ret, exports_gate_closed_t *err) {
    const tenure_t *tenure = &standing->val.held;
    switch (standing->tag) {
    case EXPORTS_GATE_STANDING_CANDIDATE:
        *err = EXPORTS_GATE_CLOSED_NOT_HELD;
        return false;
    case EXPORTS_GATE_STANDING_RELEASED:
        *err = EXPORTS_GATE_CLOSED_RELEASED;
        return false;
    case EXPORTS_GATE_STANDING_LOST:
        *err = EXPORTS_GATE_CLOSED_LOST;
        return false;
    default:
        break;
    }
    if (tenure->certainty.tag == EXPORTS_LEASE_CERTAINTY_DOUBTED) {
        *err = EXPORTS_GATE_CLOSED_DOUBTED;
        return false;
    }
    // At `until_ns` itself it is shut.
    if (steady_now() >= tenure->until_ns) {
        *err = EXPORTS_GATE_CLOSED_OVERDUE;
        return false;
    }
    *ret = (exports_gate_open_t){tenure->epoch, tenure->until_ns};
    return true;
}

// An act at epoch zero is never admitted: none was ever issued.
bool exports_gate_admit(uint64_t heard, uint64_t epoch, uint64_t *ret, uint64_t *err) {
    if (epoch == 0 || epoch < heard) {
        *err = heard;
        return false;
    }
    *ret = epoch;
    return true;
}
