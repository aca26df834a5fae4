#include "policy_in_c.h"

#include <stdarg.h>
#include <stdlib.h>

void put_bytes(buffer_t *to, const void *bytes, size_t len) {
    if (len > to->room - to->len) {
        size_t room = to->room * 2 + len + 64;
        uint8_t *at = malloc(room);
        memcpy(at, to->at, to->len);
        to->at = at;
        to->room = room;
    }
    memcpy(to->at + to->len, bytes, len);
    to->len += len;
}

void put_byte(buffer_t *to, uint8_t byte) {
    put_bytes(to, &byte, 1);
}

void put_number(buffer_t *to, uint64_t number) {
    uint8_t digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_bytes(to, digits + at, sizeof digits - at);
}

void put_span(buffer_t *to, uint64_t ns) {
    if (ns % 1000000000 == 0) {
        put_number(to, ns / 1000000000);
        put_bytes(to, " s", 2);
    } else if (ns % 1000000 == 0) {
        put_number(to, ns / 1000000);
        put_bytes(to, " ms", 3);
    } else {
        put_number(to, ns);
        put_bytes(to, " ns", 3);
    }
}

text_t text_of(const buffer_t *from) {
    return (text_t){from->at, from->len};
}

bytes_t bytes_of(text_t text) {
    return (bytes_t){text.ptr, text.len};
}

bool same(text_t one, text_t other) {
    return one.len == other.len && memcmp(one.ptr, other.ptr, one.len) == 0;
}

bool before(text_t one, text_t other) {
    int order = memcmp(one.ptr, other.ptr, one.len < other.len ? one.len : other.len);
    return order < 0 || (order == 0 && one.len < other.len);
}

bool begins(text_t text, const char *with) {
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

text_t say(const char *form, ...) {
    buffer_t said = {0};
    va_list what;
    va_start(what, form);
    for (; *form != 0; form++) {
        if (*form != '%') {
            put_byte(&said, (uint8_t)*form);
            continue;
        }
        form++;
        if (*form == 't') {
            text_t text = va_arg(what, text_t);
            put_bytes(&said, text.ptr, text.len);
        } else if (*form == 'n') {
            put_number(&said, va_arg(what, uint64_t));
        } else if (*form == 's') {
            put_span(&said, va_arg(what, uint64_t));
        } else {
            abort();
        }
    }
    va_end(what);
    return text_of(&said);
}

fault_t unavailable(text_t why) {
    return (fault_t){.tag = KV_FAULT_UNAVAILABLE, .val.unavailable = why};
}

uint64_t saturating_add(uint64_t one, uint64_t other) {
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

uint64_t saturating_sub(uint64_t from, uint64_t less) {
    return from < less ? 0 : from - less;
}
