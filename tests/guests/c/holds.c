#include "policy_in_c.h"

#include <stdlib.h>

// Plans named when checks are held. One is enough to decide.
enum { PLANS_NAMED = 64 };
// Keys read at a time while looking for plans.
enum { PAGE = 256 };
// How long a check that was taken too early stays out of the queue, so that the older one behind it is reached next.
#define HAND_BACK_DELAY_NS 5000000000

// The key of the one check let through, in the bucket of the checks that run.
static text_t let_through_key(void) {
    return TEXT("let-through");
}

static bytes_t let_through_value(text_t builder, text_t since) {
    buffer_t to = {0};
    put_byte(&to, '{');
    put_member(&to, "builder", builder);
    put_member(&to, "since", since);
    to.at[to.len - 1] = '}';
    return bytes_of(text_of(&to));
}

static bytes_t plan_value(text_t plan, text_t since, text_t seen) {
    buffer_t to = {0};
    put_byte(&to, '{');
    put_member(&to, "plan", plan);
    put_member(&to, "since", since);
    put_member(&to, "seen", seen);
    to.at[to.len - 1] = '}';
    return bytes_of(text_of(&to));
}

static bool is_plan(text_t key) {
    enum { PREFIX = 5 };
    if (!begins(key, "plan-") || key.len == PREFIX) return false;
    for (size_t n = PREFIX; n < key.len; n++) {
        if (key.ptr[n] < '0' || key.ptr[n] > '9') return false;
    }
    return true;
}

static exports_holds_kept_t kept(const kv_write_t *write) {
    if (write->tag == KV_WRITE_WRITTEN) {
        return (exports_holds_kept_t){.tag = EXPORTS_HOLDS_KEPT_KEPT, .val.kept = write->val.written};
    }
    return (exports_holds_kept_t){.tag = EXPORTS_HOLDS_KEPT_LOST};
}

// The plans that build, as many as are named.
static bool plans(texts_t *found, fault_t *fault) {
    text_t after, last;
    bool paged = false;
    *found = (texts_t){malloc(PLANS_NAMED * sizeof(text_t)), 0};
    for (;;) {
        texts_t keys;
        if (!kv_keys(KV_ROLE_PLANS, paged ? &after : NULL, PAGE, &keys, fault)) return false;
        for (size_t n = 0; n < keys.len && found->len < PLANS_NAMED; n++) {
            if (is_plan(keys.ptr[n])) found->ptr[found->len++] = keys.ptr[n];
        }
        if (keys.len == 0 || found->len == PLANS_NAMED) return true;
        last = keys.ptr[keys.len - 1];
        // A page that does not end after the last one would go round for ever.
        if (paged && !before(after, last)) return true;
        after = last;
        paged = true;
    }
}

bool exports_holds_assess(exports_holds_verdict_t *ret, fault_t *err) {
    texts_t found;
    if (!plans(&found, err)) return false;
    ret->tag = found.len == 0 ? EXPORTS_HOLDS_VERDICT_FREE : EXPORTS_HOLDS_VERDICT_HELD;
    ret->val.held = found;
    return true;
}

// The revision of the let-through key where it has this value, which holds the builder and the instant of taking, so
// nobody else wrote it.
static bool own(bytes_t value, uint64_t *revision) {
    kv_reading_t reading;
    fault_t fault;
    text_t key = let_through_key();
    if (!kv_get(KV_ROLE_RUNNING, &key, &reading, &fault) || reading.tag != KV_READING_FOUND) return false;
    bytes_t there = reading.val.found.value;
    *revision = reading.val.found.revision;
    return there.len == value.len && memcmp(there.ptr, value.ptr, value.len) == 0;
}

static bool old_enough(uint64_t asked, clock_wall_t now, uint64_t after_ns) {
    return saturating_sub(wall_ms(now), asked) >= after_ns / 1000000;
}

bool exports_holds_let_one_through(texts_t *queues, text_t *builder, uint64_t after_ns, uint64_t within_ns,
                                   exports_holds_option_admitted_t *ret, fault_t *err) {
    clock_moment_t moment;
    clock_now(&moment);
    clock_wall_t now = moment.wall;
    ret->is_some = false;

    // The queue whose oldest check waits longest. One that cannot be read is passed over; the host says so.
    text_t *queue = NULL;
    uint64_t oldest = 0;
    for (size_t n = 0; n < queues->len; n++) {
        queue_option_ask_t ask;
        fault_t unread;
        if (!queue_oldest_waiting(&queues->ptr[n], &ask, &unread) || !ask.is_some) continue;
        uint64_t asked = asked_ms(&ask.val, now);
        if (queue != NULL && asked >= oldest) continue;
        queue = &queues->ptr[n];
        oldest = asked;
    }
    if (queue == NULL || !old_enough(oldest, now, after_ns)) return true;

    text_t key = let_through_key(), since = rfc3339(now);
    bytes_t value = let_through_value(*builder, since);
    kv_write_t write;
    uint64_t revision;
    if (kv_create(KV_ROLE_RUNNING, &key, &value, &write, err)) {
        if (write.tag != KV_WRITE_WRITTEN) return true;
        revision = write.val.written;
    } else if (err->tag != KV_FAULT_UNKNOWN || !own(value, &revision)) {
        // A key of one's own whose answer was lost is used: one that nobody runs under would hold up the next check
        // until it ages out.
        return false;
    }

    queue_option_taken_t taken;
    if (!queue_take(queue, within_ns, &taken, err)) {
        // The key's own fault goes first.
        fault_t undropped;
        if (!exports_holds_drop(revision, &undropped)) *err = undropped;
        return false;
    }
    if (!taken.is_some) return exports_holds_drop(revision, err);
    uint64_t asked = asked_ms(&taken.val.ask, now);
    if (!old_enough(asked, now, after_ns)) {
        // Somebody was faster between the look and the fetch, and what came is a younger check.
        bool handed = queue_hand_back(taken.val.ticket, HAND_BACK_DELAY_NS, err);
        fault_t undropped;
        if (!exports_holds_drop(revision, &undropped)) {
            *err = undropped;
            return false;
        }
        return handed;
    }
    *ret = (exports_holds_option_admitted_t){
        true,
        {.queue = *queue, .ticket = taken.val.ticket, .asked = wall_of_ms(asked), .since = since, .revision = revision},
    };
    return true;
}

bool exports_holds_keep(text_t *builder, text_t *since, uint64_t revision, exports_holds_kept_t *ret, fault_t *err) {
    text_t key = let_through_key();
    bytes_t value = let_through_value(*builder, *since);
    kv_write_t write;
    uint64_t newer;
    if (!kv_update(KV_ROLE_RUNNING, &key, &value, revision, &write, err)) return false;
    // It moved: by an earlier keeping whose answer was lost, or by somebody else.
    if (write.tag != KV_WRITE_WRITTEN && own(value, &newer) && newer > revision) {
        if (!kv_update(KV_ROLE_RUNNING, &key, &value, newer, &write, err)) return false;
    }
    *ret = kept(&write);
    return true;
}

bool exports_holds_drop(uint64_t revision, fault_t *err) {
    text_t key = let_through_key();
    kv_write_t write;
    return kv_delete(KV_ROLE_RUNNING, &key, revision, &write, err);
}

bool exports_holds_status(exports_holds_report_t *ret, fault_t *err) {
    static const char *const names[] = {"builder", "since"};
    kv_reading_t reading;
    text_t key = let_through_key(), values[2];
    if (!plans(&ret->plans, err) || !kv_get(KV_ROLE_RUNNING, &key, &reading, err)) return false;
    ret->let_through.is_some = false;
    if (reading.tag != KV_READING_FOUND) return true;
    bytes_t there = reading.val.found.value;
    ret->let_through.is_some = json_texts((text_t){there.ptr, there.len}, 2, names, values);
    if (ret->let_through.is_some) ret->let_through.val = (exports_holds_let_through_t){values[0], values[1]};
    return true;
}

// A new controller that goes on with a plan keeps the time it began.
bool exports_holds_begin(text_t *plan, exports_holds_building_t *ret, fault_t *err) {
    static const char *const names[] = {"plan", "since", "seen"};
    if (!is_plan(*plan)) {
        text_t why = say("\"%t\" is no plan id; one looks like plan-1652", *plan);
        *err = (fault_t){.tag = KV_FAULT_DENIED, .val.denied = why};
        return false;
    }
    clock_moment_t moment;
    kv_reading_t reading;
    kv_write_t write;
    clock_now(&moment);
    text_t now = rfc3339(moment.wall), since = now;
    if (!kv_get(KV_ROLE_PLANS, plan, &reading, err)) return false;
    if (reading.tag == KV_READING_FOUND) {
        bytes_t there = reading.val.found.value;
        text_t values[3];
        if (json_texts((text_t){there.ptr, there.len}, 3, names, values)) since = values[1];
        bytes_t value = plan_value(*plan, since, now);
        if (!kv_update(KV_ROLE_PLANS, plan, &value, reading.val.found.revision, &write, err)) return false;
    } else {
        bytes_t value = plan_value(*plan, now, now);
        if (!kv_create(KV_ROLE_PLANS, plan, &value, &write, err)) return false;
    }
    if (write.tag != KV_WRITE_WRITTEN) {
        *err = unavailable(say("another controller writes %t at the same time", *plan));
        return false;
    }
    *ret = (exports_holds_building_t){since, write.val.written};
    return true;
}

bool exports_holds_seen(text_t *plan, exports_holds_building_t *known, exports_holds_kept_t *ret, fault_t *err) {
    clock_moment_t moment;
    kv_reading_t reading;
    kv_write_t write;
    clock_now(&moment);
    bytes_t value = plan_value(*plan, known->since, rfc3339(moment.wall));
    if (!kv_update(KV_ROLE_PLANS, plan, &value, known->revision, &write, err)) return false;
    if (write.tag != KV_WRITE_WRITTEN) {
        if (!kv_get(KV_ROLE_PLANS, plan, &reading, err)) return false;
        // A key that aged out is put again, since it began when it did; one that was ended, or that somebody else
        // wrote, is left alone.
        if (reading.tag == KV_READING_AGED || reading.tag == KV_READING_ABSENT) {
            if (!kv_create(KV_ROLE_PLANS, plan, &value, &write, err)) return false;
        }
    }
    *ret = kept(&write);
    return true;
}

bool exports_holds_end(text_t *plan, uint64_t revision, fault_t *err) {
    kv_write_t write;
    return kv_delete(KV_ROLE_PLANS, plan, revision, &write, err);
}
