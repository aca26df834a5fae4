#include "policy_in_c.h"

#include <stdlib.h>

// A record over this size is no holder.
enum { RECORD_BYTES = 8 << 10 };

static text_t value_of(const kv_entry_t *entry) {
    return (text_t){entry->value.ptr, entry->value.len};
}

bool record_read(const kv_entry_t *entry, holder_t *holder, text_t *asked, text_t *why) {
    if (entry->value.len > RECORD_BYTES) {
        *why = say("it has %n bytes, a holder has at most %n", (uint64_t)entry->value.len, (uint64_t)RECORD_BYTES);
        return false;
    }
    member_t *members;
    size_t count;
    if (!json_object(value_of(entry), &members, &count)) {
        *why = TEXT("it is no JSON object");
        return false;
    }
    *holder = (holder_t){.revision = entry->revision};
    *asked = TEXT("");
    const struct {
        const char *name;
        text_t *text;
    } texts[] = {
        {"instance", &holder->instance}, {"host", &holder->host},       {"build", &holder->build},
        {"taken", &holder->taken},       {"renewed", &holder->renewed}, {"nonce", &holder->nonce},
        {"step_down", asked},
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    // Each field once at the most; those not known are passed over, so that a later version may add some.
    bool there[TEXTS + 1] = {false};
    for (size_t m = 0; m < count; m++) {
        size_t n = 0;
        text_t name;
        for (; n < TEXTS; n++) {
            policy_string_set(&name, texts[n].name);
            if (same(members[m].name, name)) break;
        }
        if (n == TEXTS && !same(members[m].name, TEXT("epoch"))) continue;
        if (there[n]) {
            *why = say("its field %t is there twice", members[m].name);
            return false;
        }
        there[n] = true;
        bool fits = n == TEXTS ? json_u64(members[m].value, &holder->epoch)
                               : json_text(members[m].value, texts[n].text);
        if (!fits) {
            *why = say("its field %t is not of its kind", members[m].name);
            return false;
        }
    }
    if (holder->instance.len == 0) {
        *why = TEXT("its instance is missing or empty");
        return false;
    }
    // Taken and never renewed: the epoch is the revision, which no writer knows beforehand.
    if (holder->epoch == 0) holder->epoch = entry->revision;
    return true;
}

bool record_mark(const kv_entry_t *entry, uint64_t epoch, text_t by, bytes_t *marked) {
    member_t *members, *sorted;
    size_t count, kept = 0;
    if (!json_object(value_of(entry), &members, &count)) return false;
    sorted = malloc((count + 2) * sizeof *sorted);
    for (size_t n = 0; n < count; n++) {
        buffer_t one = {0};
        if (!put_canonical(&one, members[n].value, 1)) return false;
        json_insert(sorted, &kept, members[n].name, text_of(&one));
    }
    // The epoch is written down: marked, a record's revision is no longer that at which it was taken.
    buffer_t number = {0}, name = {0}, all = {0};
    put_number(&number, epoch);
    put_text(&name, by);
    json_insert(sorted, &kept, TEXT("epoch"), text_of(&number));
    json_insert(sorted, &kept, TEXT("step_down"), text_of(&name));
    put_object(&all, sorted, kept);
    *marked = bytes_of(text_of(&all));
    return true;
}

bytes_t record_write(const identity_t *who, uint64_t epoch, text_t taken, text_t renewed) {
    // In this order, to the byte, empty ones left out but for the two times.
    buffer_t to = {0};
    put_byte(&to, '{');
    put_member(&to, "instance", who->instance);
    if (who->host.len > 0) put_member(&to, "host", who->host);
    if (who->build.len > 0) put_member(&to, "build", who->build);
    if (epoch > 0) {
        put_bytes(&to, "\"epoch\":", 8);
        put_number(&to, epoch);
        put_byte(&to, ',');
    }
    put_member(&to, "taken", taken);
    put_member(&to, "renewed", renewed);
    if (who->nonce.len > 0) put_member(&to, "nonce", who->nonce);
    to.at[to.len - 1] = '}';
    return bytes_of(text_of(&to));
}

bool owns(const identity_t *who, const holder_t *holder) {
    // The instance alone would not do: two lease objects of one process would take each other's record for their own.
    return same(who->instance, holder->instance) && same(who->nonce, holder->nonce);
}

text_t not_a_holder(text_t lease, text_t why) {
    return say("the record of the lease \"%t\" is no holder: %t", lease, why);
}
