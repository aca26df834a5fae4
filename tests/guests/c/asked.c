#include "policy_in_c.h"

uint64_t wall_ms(clock_wall_t wall) {
    // Before 1970 it is zero.
    uint64_t seconds = wall.seconds < 0 ? 0 : (uint64_t)wall.seconds;
    uint64_t ms = seconds > UINT64_MAX / 1000 ? UINT64_MAX : seconds * 1000;
    return saturating_add(ms, wall.nanoseconds / 1000000);
}

clock_wall_t wall_of_ms(uint64_t ms) {
    return (clock_wall_t){(int64_t)(ms / 1000), (uint32_t)(ms % 1000) * 1000000};
}

static bool hex(uint8_t byte, uint64_t *digit) {
    uint8_t small = byte | 0x20;
    if (byte >= '0' && byte <= '9') {
        *digit = (uint64_t)(byte - '0');
    } else if (small >= 'a' && small <= 'f') {
        *digit = (uint64_t)(small - 'a' + 10);
    } else {
        return false;
    }
    return true;
}

// `build-<unix milliseconds>-…`
static bool build_ms(text_t id, uint64_t *ms) {
    enum { PREFIX = 6 };
    if (!begins(id, "build-")) return false;
    size_t end = PREFIX;
    uint64_t sum = 0;
    for (; end < id.len && id.ptr[end] != '-'; end++) {
        uint8_t byte = id.ptr[end];
        if (byte < '0' || byte > '9' || sum > (UINT64_MAX - (uint64_t)(byte - '0')) / 10) return false;
        sum = sum * 10 + (uint64_t)(byte - '0');
    }
    *ms = sum;
    return end > PREFIX && end < id.len;
}

// A UUIDv7 (RFC 9562 section 5.7): its first 48 bits.
static bool uuid7_ms(text_t id, uint64_t *ms) {
    if (id.len != 36) return false;
    *ms = 0;
    for (size_t n = 0; n < id.len; n++) {
        uint8_t byte = id.ptr[n];
        uint64_t digit;
        if (n == 8 || n == 13 || n == 18 || n == 23) {
            if (byte != '-') return false;
            continue;
        }
        if (!hex(byte, &digit)) return false;
        if (n == 14 && digit != 7) return false;
        // The variant.
        if (n == 19 && (digit < 8 || digit > 11)) return false;
        if (n < 13) *ms = *ms << 4 | digit;
    }
    return true;
}

// A ULID: its first ten digits.
static bool ulid_ms(text_t id, uint64_t *ms) {
    static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    // 26 digits of 5 bits hold 128 bits, so the first is at most 7.
    if (id.len != 26 || id.ptr[0] > '7') return false;
    *ms = 0;
    for (size_t n = 0; n < id.len; n++) {
        uint8_t byte = id.ptr[n];
        if (byte >= 'a' && byte <= 'z') byte -= 'a' - 'A';
        uint64_t digit = 0;
        while (digit < 32 && (uint8_t)crockford[digit] != byte) digit++;
        if (digit == 32) return false;
        if (n < 10) *ms = *ms << 5 | digit;
    }
    return true;
}

// Its id says, or else the queue, or else it is taken as asked now, so that it is never let through on a guess.
uint64_t asked_ms(const queue_ask_t *ask, clock_wall_t now) {
    static const char *const member[] = {"id"};
    uint64_t ms, now_ms = wall_ms(now);
    text_t id, body = {ask->body.ptr, ask->body.len};
    bool known = json_texts(body, 1, member, &id) && (build_ms(id, &ms) || uuid7_ms(id, &ms) || ulid_ms(id, &ms));
    if (!known) ms = ask->stored.is_some ? wall_ms(ask->stored.val) : now_ms;
    return ms < now_ms ? ms : now_ms;
}
