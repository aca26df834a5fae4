#include "policy_in_c.h"

#include <stdlib.h>

// How many objects and arrays may stand in one another where a value is read wholly.
enum { DEEPEST = 127 };

typedef struct {
    const uint8_t *at, *end;
    // What stands open where something is skipped; made at the first need, for as many as there are bytes.
    uint8_t *open;
} json_t;

static void spaces(json_t *json) {
    while (json->at < json->end) {
        switch (*json->at) {
        case ' ':
        case '\t':
        case '\n':
        case '\r':
            json->at++;
            break;
        default:
            return;
        }
    }
}

static bool next_is(json_t *json, uint8_t byte) {
    if (json->at == json->end || *json->at != byte) return false;
    json->at++;
    return true;
}

// As `next_is`, with spaces before it.
static bool mark(json_t *json, uint8_t byte) {
    spaces(json);
    return next_is(json, byte);
}

static bool digits(json_t *json) {
    const uint8_t *begin = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
    return json->at > begin;
}

static bool skip_number(json_t *json) {
    next_is(json, '-');
    // No zero leads.
    if (!next_is(json, '0') && !digits(json)) return false;
    if (json->at[-1] == '0' && json->at < json->end && *json->at >= '0' && *json->at <= '9') return false;
    if (next_is(json, '.') && !digits(json)) return false;
    if (next_is(json, 'e') || next_is(json, 'E')) {
        if (!next_is(json, '+')) next_is(json, '-');
        if (!digits(json)) return false;
    }
    return true;
}

static bool skip_word(json_t *json, const char *word) {
    for (; *word != 0; word++) {
        if (!next_is(json, (uint8_t)*word)) return false;
    }
    return true;
}

static bool hex4(json_t *json, uint32_t *unit) {
    *unit = 0;
    for (unsigned n = 0; n < 4; n++) {
        if (json->at == json->end) return false;
        uint8_t byte = *json->at++, small = byte | 0x20;
        if (byte >= '0' && byte <= '9') {
            *unit = *unit << 4 | (uint32_t)(byte - '0');
        } else if (small >= 'a' && small <= 'f') {
            *unit = *unit << 4 | (uint32_t)(small - 'a' + 10);
        } else {
            return false;
        }
    }
    return true;
}

// A text's bytes are not looked at, nor are the characters of its escapes.
static bool skip_text(json_t *json) {
    if (!next_is(json, '"')) return false;
    while (json->at < json->end) {
        uint8_t byte = *json->at++;
        if (byte == '"') return true;
        if (byte < 0x20) return false;
        if (byte != '\\') continue;
        if (json->at == json->end) return false;
        switch (*json->at++) {
        case '"':
        case '\\':
        case '/':
        case 'b':
        case 'f':
        case 'n':
        case 'r':
        case 't':
            break;
        case 'u': {
            uint32_t unit;
            if (!hex4(json, &unit)) return false;
            break;
        }
        default:
            return false;
        }
    }
    return false;
}

// One value of any kind, however deep: what stands open is kept in memory, not on the stack.
static bool skip(json_t *json) {
    spaces(json);
    if (json->open == NULL) json->open = malloc((size_t)(json->end - json->at));
    uint8_t *open = json->open;
    size_t depth = 0;
    for (;;) {
        // A value begins here.
        spaces(json);
        if (json->at == json->end) return false;
        uint8_t first = *json->at;
        if (first == '{' || first == '[') {
            json->at++;
            bool object = first == '{';
            if (!mark(json, object ? '}' : ']')) {
                open[depth++] = first;
                if (object && !(skip_text(json) && mark(json, ':'))) return false;
                continue;
            }
        } else if (first == '"') {
            if (!skip_text(json)) return false;
        } else if (first == 't') {
            if (!skip_word(json, "true")) return false;
        } else if (first == 'f') {
            if (!skip_word(json, "false")) return false;
        } else if (first == 'n') {
            if (!skip_word(json, "null")) return false;
        } else if (!skip_number(json)) {
            return false;
        }
        // A value ended here, and with it perhaps what it stands in.
        while (depth > 0 && mark(json, open[depth - 1] == '{' ? '}' : ']')) depth--;
        if (depth == 0) return true;
        if (!mark(json, ',')) return false;
        if (open[depth - 1] == '{') {
            spaces(json);
            if (!(skip_text(json) && mark(json, ':'))) return false;
        }
    }
}

// What stands between, without spaces around it.
static bool slice(json_t *json, text_t *value) {
    spaces(json);
    const uint8_t *begin = json->at;
    if (!skip(json)) return false;
    *value = (text_t){(uint8_t *)begin, (size_t)(json->at - begin)};
    return true;
}

static json_t json_of(text_t text) {
    return (json_t){text.ptr, text.ptr + text.len, NULL};
}

static bool ends(json_t *json) {
    spaces(json);
    return json->at == json->end;
}

static void put_character(buffer_t *to, uint32_t character) {
    if (character < 0x80) {
        put_byte(to, (uint8_t)character);
        return;
    }
    if (character < 0x800) {
        put_byte(to, (uint8_t)(0xc0 | character >> 6));
    } else {
        if (character < 0x10000) {
            put_byte(to, (uint8_t)(0xe0 | character >> 12));
        } else {
            put_byte(to, (uint8_t)(0xf0 | character >> 18));
            put_byte(to, (uint8_t)(0x80 | (character >> 12 & 0x3f)));
        }
        put_byte(to, (uint8_t)(0x80 | (character >> 6 & 0x3f)));
    }
    put_byte(to, (uint8_t)(0x80 | (character & 0x3f)));
}

// UTF-8 by RFC 3629: nothing longer than needed, no surrogates, nothing above U+10FFFF. The host takes no other text.
static bool is_utf8(text_t text) {
    const uint8_t *at = text.ptr, *end = at + text.len;
    while (at < end) {
        uint8_t first = *at++;
        if (first < 0x80) continue;
        unsigned more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || (size_t)(end - at) < more) return false;
        uint8_t lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (*at < lowest || *at > highest) return false;
        for (at++, more--; more > 0; at++, more--) {
            if (*at < 0x80 || *at > 0xbf) return false;
        }
    }
    return true;
}

bool json_text(text_t from, text_t *text) {
    json_t whole = json_of(from);
    if (!skip_text(&whole) || whole.at != whole.end) return false;
    // Its escapes are known to be well formed, and its end to be the end.
    json_t json = {from.ptr + 1, from.ptr + from.len - 1, NULL};
    buffer_t to = {0};
    while (json.at < json.end) {
        uint8_t byte = *json.at++;
        if (byte != '\\') {
            put_byte(&to, byte);
            continue;
        }
        uint32_t unit, low;
        switch (byte = *json.at++) {
        case 'b':
            put_byte(&to, '\b');
            break;
        case 'f':
            put_byte(&to, '\f');
            break;
        case 'n':
            put_byte(&to, '\n');
            break;
        case 'r':
            put_byte(&to, '\r');
            break;
        case 't':
            put_byte(&to, '\t');
            break;
        case 'u':
            if (!hex4(&json, &unit)) return false;
            // A high surrogate goes with a low one, and neither alone.
            if (unit >= 0xdc00 && unit <= 0xdfff) return false;
            if (unit >= 0xd800 && unit <= 0xdbff) {
                if (!(next_is(&json, '\\') && next_is(&json, 'u') && hex4(&json, &low))) return false;
                if (low < 0xdc00 || low > 0xdfff) return false;
                unit = 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
            }
            put_character(&to, unit);
            break;
        default:
            put_byte(&to, byte);
        }
    }
    *text = text_of(&to);
    return is_utf8(*text);
}

bool json_u64(text_t from, uint64_t *number) {
    uint64_t sum = 0;
    for (size_t n = 0; n < from.len; n++) {
        if (from.ptr[n] < '0' || from.ptr[n] > '9') return false;
        uint64_t digit = (uint64_t)(from.ptr[n] - '0');
        if (sum > (UINT64_MAX - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return from.len > 0;
}

bool json_object(text_t from, member_t **members, size_t *count) {
    json_t json = json_of(from);
    if (!mark(&json, '{')) return false;
    // A member has four bytes at least: `"":0`.
    member_t *list = malloc((from.len / 4 + 1) * sizeof *list);
    size_t known = 0;
    if (!mark(&json, '}')) {
        do {
            text_t name;
            spaces(&json);
            const uint8_t *begin = json.at;
            if (!skip_text(&json)) return false;
            name = (text_t){(uint8_t *)begin, (size_t)(json.at - begin)};
            if (!json_text(name, &list[known].name)) return false;
            if (!mark(&json, ':') || !slice(&json, &list[known].value)) return false;
            known++;
        } while (mark(&json, ','));
        if (!mark(&json, '}')) return false;
    }
    *members = list;
    *count = known;
    return ends(&json);
}

// The elements of an array, and nothing behind it.
static bool json_array(text_t from, text_t **elements, size_t *count) {
    json_t json = json_of(from);
    if (!mark(&json, '[')) return false;
    // Each has a byte and a comma, the last one a bracket.
    text_t *list = malloc((from.len / 2 + 1) * sizeof *list);
    size_t known = 0;
    if (!mark(&json, ']')) {
        do {
            if (!slice(&json, &list[known++])) return false;
        } while (mark(&json, ','));
        if (!mark(&json, ']')) return false;
    }
    *elements = list;
    *count = known;
    return ends(&json);
}

bool json_texts(text_t from, size_t count, const char *const *names, text_t *values) {
    member_t *members;
    text_t *elements;
    size_t known;
    if (json_array(from, &elements, &known)) {
        if (known != count) return false;
        for (size_t n = 0; n < count; n++) {
            if (!json_text(elements[n], &values[n])) return false;
        }
        return true;
    }
    if (!json_object(from, &members, &known)) return false;
    for (size_t n = 0; n < count; n++) {
        text_t name;
        policy_string_set(&name, names[n]);
        bool found = false;
        for (size_t m = 0; m < known; m++) {
            if (!same(members[m].name, name)) continue;
            if (found || !json_text(members[m].value, &values[n])) return false;
            found = true;
        }
        if (!found) return false;
    }
    return true;
}

void json_insert(member_t *members, size_t *count, text_t name, text_t value) {
    size_t place = 0;
    while (place < *count && before(members[place].name, name)) place++;
    if (place == *count || !same(members[place].name, name)) {
        memmove(members + place + 1, members + place, (*count - place) * sizeof *members);
        (*count)++;
    }
    members[place] = (member_t){name, value};
}

void put_object(buffer_t *to, const member_t *members, size_t count) {
    put_byte(to, '{');
    for (size_t n = 0; n < count; n++) {
        if (n > 0) put_byte(to, ',');
        put_text(to, members[n].name);
        put_byte(to, ':');
        put_bytes(to, members[n].value.ptr, members[n].value.len);
    }
    put_byte(to, '}');
}

// Whether a number, known to be one, is beyond the largest double: a reader that keeps numbers as doubles could not
// read what is written.
static bool too_large(text_t number) {
    // The largest double's digits and how many of them stand before the point.
    static const char largest[] = "17976931348623157";
    enum { DIGITS = sizeof largest - 1, BEFORE = 309, ENOUGH = 100000 };
    // As 0.digits * 10^power.
    uint8_t first[DIGITS] = {0};
    size_t known = 0, at = 0;
    int64_t power = 0, exponent = 0;
    bool point = false, negative = false;
    for (; at < number.len && (number.ptr[at] | 0x20) != 'e'; at++) {
        uint8_t byte = number.ptr[at];
        if (byte == '.') point = true;
        if (byte < '0' || byte > '9') continue;
        bool leads = known == 0 && byte == '0';
        if (!leads && known < DIGITS) first[known++] = byte;
        if (!point && !leads) power++;
        if (point && leads) power--;
    }
    for (; at < number.len; at++) {
        uint8_t byte = number.ptr[at];
        if (byte == '-') negative = true;
        if (byte >= '0' && byte <= '9' && exponent < ENOUGH) exponent = exponent * 10 + (byte - '0');
    }
    power += negative ? -exponent : exponent;
    return known > 0 && (power > BEFORE || (power == BEFORE && memcmp(first, largest, DIGITS) > 0));
}

bool put_canonical(buffer_t *to, text_t value, unsigned within) {
    size_t count;
    switch (value.ptr[0]) {
    case '"': {
        text_t text;
        if (!json_text(value, &text)) return false;
        put_text(to, text);
        return true;
    }
    case '{': {
        member_t *members, *sorted;
        size_t kept = 0;
        if (within == DEEPEST || !json_object(value, &members, &count)) return false;
        sorted = malloc((count + 1) * sizeof *sorted);
        for (size_t n = 0; n < count; n++) {
            buffer_t one = {0};
            if (!put_canonical(&one, members[n].value, within + 1)) return false;
            json_insert(sorted, &kept, members[n].name, text_of(&one));
        }
        put_object(to, sorted, kept);
        return true;
    }
    case '[': {
        text_t *elements;
        if (within == DEEPEST || !json_array(value, &elements, &count)) return false;
        put_byte(to, '[');
        for (size_t n = 0; n < count; n++) {
            if (n > 0) put_byte(to, ',');
            if (!put_canonical(to, elements[n], within + 1)) return false;
        }
        put_byte(to, ']');
        return true;
    }
    default:
        // A word, or a number, which stays as it is written, however many digits it has.
        if (value.ptr[0] < 'a' && too_large(value)) return false;
        put_bytes(to, value.ptr, value.len);
        return true;
    }
}

void put_text(buffer_t *to, text_t text) {
    put_byte(to, '"');
    for (size_t n = 0; n < text.len; n++) {
        uint8_t byte = text.ptr[n];
        const char *letter = byte == '"' || byte == '\\' ? (const char *)&byte
                             : byte == '\b'              ? "b"
                             : byte == '\t'              ? "t"
                             : byte == '\n'              ? "n"
                             : byte == '\f'              ? "f"
                             : byte == '\r'              ? "r"
                                                         : NULL;
        if (letter != NULL) {
            put_byte(to, '\\');
            put_byte(to, (uint8_t)*letter);
        } else if (byte < 0x20) {
            put_bytes(to, "\\u00", 4);
            put_byte(to, (uint8_t)('0' + (byte >> 4)));
            put_byte(to, (uint8_t) "0123456789abcdef"[byte & 0xf]);
        } else {
            put_byte(to, byte);
        }
    }
    put_byte(to, '"');
}

void put_member(buffer_t *to, const char *name, text_t text) {
    put_byte(to, '"');
    put_bytes(to, name, strlen(name));
    put_bytes(to, "\":", 2);
    put_text(to, text);
    put_byte(to, ',');
}
