#include "policy_in_c.h"

#include <stdlib.h>

// How far past the floor the revisions are moved, at the least. The floor counts epochs while renewals push revisions
// further, so with a jump of one an old holder's late update would quote a revision that the new holder is given again.
#define STRIDE ((uint64_t)1 << 32)

// How far past a move that was begun, and maybe never came to pass, the next one goes.
#define STEP ((uint64_t)1 << 16)

// Whether the host had raised the floor to this, just below the place of a move, before it sent the purge.
static bool is_begun(uint64_t floor) {
    return (floor + 1) % STEP == 0;
}

// Where revisions are moved from this floor: the next multiple but one, or a step past the last move that was begun.
// Never twice to the same place: in a bucket wiped in between, its revisions would be given once more.
static uint64_t move_target(uint64_t floor) {
    return is_begun(floor) ? floor + 1 + STEP : (floor / STRIDE + 2) * STRIDE;
}

// Other live keys named when a move is refused.
enum { KEYS_NAMED = 8 };

static bool unmoved(trouble_t *trouble, fault_t fault) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_FLOOR_UNMOVED, .val.floor_unmoved = fault};
    return false;
}

static bool too_high(trouble_t *trouble, uint64_t floor) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_FLOOR_TOO_HIGH, .val.floor_too_high = floor};
    return false;
}

// Move the revisions past the floor while owning the key, so that the purge removes one's own provisional record and
// nothing else.
static bool move_past(const terms_t *terms, identity_t *who, const provisional_t *ours, uint64_t floor,
                      trouble_t *trouble) {
    fault_t fault;
    texts_t keys;
    uint64_t was, purged;
    uint64_t target = move_target(floor);
    if (target > EPOCH_HIGHEST) return too_high(trouble, floor);
    if (!kv_keys(KV_ROLE_LEASE, NULL, KEYS_NAMED + 1, &keys, &fault)) return unmoved(trouble, fault);
    texts_t others = {malloc(KEYS_NAMED * sizeof(text_t)), 0};
    for (size_t n = 0; n < keys.len && others.len < KEYS_NAMED; n++) {
        if (!same(keys.ptr[n], who->lease)) others.ptr[others.len++] = keys.ptr[n];
    }
    if (others.len > 0) {
        *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_FLOOR_BLOCKED, .val.floor_blocked = others};
        return false;
    }
    if (!streams_last_sequence(&was, &fault)) return unmoved(trouble, fault);
    // Owned by the clock too: past this instant the key may be somebody else's, and the purge would take theirs.
    if (steady_now() >= terms_until(terms, ours->sent_ns)) {
        return unmoved(trouble, unavailable(TEXT("the record's time ran out before the move")));
    }
    if (!streams_purge_below(target, &purged, &fault)) return unmoved(trouble, fault);
    epochs_moved(was, floor);
    text_t speaker = TEXT("lease");
    text_t told = say("the bucket was at revision %n while epoch %n had been issued: it was raised again from nothing, "
                      "and its revisions were moved past that epoch",
                      was, floor);
    log_log(LOG_LEVEL_WARN, &speaker, &told);
    return true;
}

static cleared_t unsure(trouble_t *trouble, fault_t fault) {
    *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_UNSURE, .val.unsure = fault};
    return TROUBLED;
}

// Take the key anew after the move: the record there before went with the purge.
static cleared_t stand_anew(const terms_t *terms, identity_t *who, provisional_t *ours, uint64_t floor,
                            trouble_t *trouble) {
    fault_t fault;
    switch (provisional_create(who, ours, &fault)) {
    case WRITTEN:
        break;
    case LOST:
        return TAKEN_OVER;
    default:
        return unsure(trouble, fault);
    }
    uint64_t revision = ours->revision;
    if (revision > EPOCH_HIGHEST) {
        give_back(terms, who, ours);
        too_high(trouble, revision);
        return TROUBLED;
    }
    if (revision <= floor) {
        give_back(terms, who, ours);
        unmoved(trouble, unavailable(say("after the move the bucket gave revision %n, not above %n", revision, floor)));
        return TROUBLED;
    }
    provisional_t first = *ours;
    // A store that lost the record with the purge it was racing says so now, before anything acts on it.
    switch (provisional_renew(who, ours, &fault)) {
    case WRITTEN:
        return CLEAR;
    case LOST:
        return TAKEN_OVER;
    default:
        give_back(terms, who, &first);
        return unsure(trouble, fault);
    }
}

cleared_t floor_clear(const terms_t *terms, identity_t *who, provisional_t *ours, trouble_t *trouble) {
    uint64_t floor;
    fault_t fault;
    if (!epochs_floor(&floor, &fault)) {
        give_back(terms, who, ours);
        *trouble = (trouble_t){.tag = EXPORTS_LEASE_TROUBLE_FLOOR_UNREADABLE, .val.floor_unreadable = fault};
        return TROUBLED;
    }
    uint64_t higher = floor > ours->epoch ? floor : ours->epoch;
    if (higher > EPOCH_HIGHEST) {
        give_back(terms, who, ours);
        too_high(trouble, higher);
        return TROUBLED;
    }
    // Not one that would read as a move begun once it is the floor.
    if (ours->epoch > floor && !is_begun(ours->epoch)) return CLEAR;
    // So, or an earlier take of this record was counted as issued, and went no further. The next create is above it.
    if (ours->revision > floor) {
        give_back(terms, who, ours);
        return TAKEN_OVER;
    }
    if (move_past(terms, who, ours, floor, trouble)) return stand_anew(terms, who, ours, floor, trouble);
    // A purge that may yet be applied must find nobody else's record: this one stays and expires.
    bool may_come = trouble->tag == EXPORTS_LEASE_TROUBLE_FLOOR_UNMOVED &&
                    trouble->val.floor_unmoved.tag == KV_FAULT_UNKNOWN;
    if (!may_come) give_back(terms, who, ours);
    return TROUBLED;
}
