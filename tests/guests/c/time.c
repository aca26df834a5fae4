#include "policy_in_c.h"

// 0000-01-01T00:00:00Z, and the last instant that is written: a day short of the year 9999's end, so that no zone
// an instant may be shown in reaches the year 10000.
#define FIRST_SECOND (-62167219200)
#define LAST_SECOND 253402207200

static void put_padded(buffer_t *to, uint64_t number, unsigned digits) {
    uint64_t unit = 1;
    for (unsigned n = 1; n < digits; n++) unit *= 10;
    for (; unit > 0; unit /= 10) put_byte(to, (uint8_t)('0' + number / unit % 10));
}

text_t rfc3339(clock_wall_t wall) {
    if (wall.seconds < FIRST_SECOND || wall.seconds > LAST_SECOND || wall.nanoseconds > 999999999) {
        return TEXT("0001-01-01T00:00:00Z");
    }
    // Days and seconds since 0000-03-01, so that the leap day is a year's last; the first two months count with an
    // era of 400 years (146,097 days) added.
    uint64_t since = (uint64_t)(wall.seconds - FIRST_SECOND) + (146097 - 60) * (uint64_t)86400;
    uint64_t second = since % 86400, day = since / 86400;
    uint64_t era = day / 146097, of_era = day % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, over and over: 153 days in five.
    uint64_t shifted = (5 * of_year + 2) / 153;
    uint64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    year += era * 400 + (month <= 2) - 400;

    buffer_t to = {0};
    put_padded(&to, year, 4);
    put_byte(&to, '-');
    put_padded(&to, month, 2);
    put_byte(&to, '-');
    put_padded(&to, of_year - (153 * shifted + 2) / 5 + 1, 2);
    put_byte(&to, 'T');
    put_padded(&to, second / 3600, 2);
    put_byte(&to, ':');
    put_padded(&to, second / 60 % 60, 2);
    put_byte(&to, ':');
    put_padded(&to, second % 60, 2);
    if (wall.nanoseconds > 0) {
        put_byte(&to, '.');
        put_padded(&to, wall.nanoseconds, 9);
        while (to.at[to.len - 1] == '0') to.len--;
    }
    put_byte(&to, 'Z');
    return text_of(&to);
}

uint64_t steady_now(void) {
    clock_moment_t now;
    clock_now(&now);
    return now.steady_ns;
}
