// A policy in C: every decision of the contract, without a line of the built-in one.
//
// The rules are told by wit/ and by tests/decisions; what is commented here is what C adds to them, or what would
// be easy to get wrong. Nothing is ever freed, since each call has an instance of its own (runtime.c).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "policy.h"

// The generated types, by shorter names.
typedef policy_string_t text_t;
typedef policy_list_u8_t bytes_t;
typedef policy_list_string_t texts_t;
typedef kv_fault_t fault_t;
typedef exports_lease_terms_t terms_t;
typedef exports_lease_identity_t identity_t;
typedef exports_lease_holder_t holder_t;
typedef exports_lease_sighting_t sighting_t;
typedef exports_lease_waiting_t waiting_t;
typedef exports_lease_tenure_t tenure_t;
typedef exports_lease_trouble_t trouble_t;
typedef exports_lease_attempt_t attempt_t;
typedef exports_lease_loss_t loss_t;
typedef exports_lease_renewal_t renewal_t;

// An epoch above 2^53 is never issued: a reader that keeps JSON numbers as doubles would confuse neighbours.
#define EPOCH_HIGHEST ((uint64_t)1 << 53)

// text.c: text, and putting it together.

#define TEXT(literal) ((text_t){(uint8_t *)(literal), sizeof(literal) - 1})

typedef struct {
    uint8_t *at;
    size_t len, room;
} buffer_t;

void put_byte(buffer_t *to, uint8_t byte);
void put_bytes(buffer_t *to, const void *bytes, size_t len);
void put_number(buffer_t *to, uint64_t number);
// A duration for people: exact, in the largest unit that keeps it whole.
void put_span(buffer_t *to, uint64_t ns);
text_t text_of(const buffer_t *from);
bytes_t bytes_of(text_t text);
bool same(text_t one, text_t other);
// The order of bytes.
bool before(text_t one, text_t other);
bool begins(text_t text, const char *with);
// For people: %t is a text, %n a number, %s a span.
text_t say(const char *form, ...);
fault_t unavailable(text_t why);
uint64_t saturating_add(uint64_t one, uint64_t other);
uint64_t saturating_sub(uint64_t from, uint64_t less);

// time.c

// RFC 3339 in UTC, trailing zeros of the fraction left out.
text_t rfc3339(clock_wall_t wall);
uint64_t steady_now(void);

// json.c: a reader as strict as RFC 8259, and a writer whose bytes other programs expect.

// A member of an object: its name, and its value as it stands there.
typedef struct {
    text_t name, value;
} member_t;

// The members of an object, in their order, and nothing behind it. Values are checked as far as needed to tell where
// they end.
bool json_object(text_t from, member_t **members, size_t *count);
// A value that is just a text, or just a whole number.
bool json_text(text_t from, text_t *text);
bool json_u64(text_t from, uint64_t *number);
// The texts of these members of an object: none twice, none missing; others are passed over. An array of just so many
// texts will do as well.
bool json_texts(text_t from, size_t count, const char *const *names, text_t *values);

// A value once more, checked wholly: without spaces, members in the order of their names, of two with one name the
// later. `within` is how many objects and arrays it stands in.
bool put_canonical(buffer_t *to, text_t value, unsigned within);
// Into members that are in the order of their names and have room for one more.
void json_insert(member_t *members, size_t *count, text_t name, text_t value);
void put_object(buffer_t *to, const member_t *members, size_t count);
void put_text(buffer_t *to, text_t text);
// `"name":"text",` of an object's members, the last comma to be taken off.
void put_member(buffer_t *to, const char *name, text_t text);

// record.c

// The holder that an entry names, and who asked it to give way (empty: nobody). Where it is none, says why.
bool record_read(const kv_entry_t *entry, holder_t *holder, text_t *asked, text_t *why);
// The record of an entry once more, marked; all else stays.
bool record_mark(const kv_entry_t *entry, uint64_t epoch, text_t by, bytes_t *marked);
// `epoch` zero is "not known yet".
bytes_t record_write(const identity_t *who, uint64_t epoch, text_t taken, text_t renewed);
bool owns(const identity_t *who, const holder_t *holder);
text_t not_a_holder(text_t lease, text_t why);

// terms.c

bool terms_fit(const terms_t *terms, const kv_bucket_info_t *bucket, text_t *why);
// The instant at which the gate shuts when the last good write was sent at `sent_ns`.
uint64_t terms_until(const terms_t *terms, uint64_t sent_ns);

// For the delayed rule: the longest time between two looks that does not break a watch, from the beginning of the one
// to the end of the other; how long a record stands before it is acted on; and whether there is room for that.
uint64_t terms_gap(const terms_t *terms);
uint64_t terms_announced(const terms_t *terms);
bool terms_fit_delayed(const terms_t *terms, text_t *why);

// sighting.c: what a candidate has seen. `seen` is null where it saw nothing yet.

sighting_t sighting_new(uint64_t created, uint64_t now_ns);
sighting_t sighting_of_record(const sighting_t *seen, uint64_t created, uint64_t revision, uint64_t now_ns);
sighting_t sighting_of_absence(const sighting_t *seen, uint64_t created, exports_lease_vacancy_t rule,
                               const terms_t *terms, uint64_t began_ns, uint64_t now_ns);

// take.c

// A record of one's own that is not yet known to be above the floor: nothing may act on it.
typedef struct {
    uint64_t epoch, revision;
    text_t taken;
    // A steady reading made before the write at `revision` was sent.
    uint64_t sent_ns;
    // The bucket that it was meant for.
    uint64_t created;
} provisional_t;

typedef enum { WRITTEN, LOST, FAILED } written_t;

// Write the record of a key that has none, in the bucket of `ours`.
written_t provisional_create(identity_t *who, provisional_t *ours, fault_t *fault);
// Write one's own record once more at its revision.
written_t provisional_renew(identity_t *who, provisional_t *ours, fault_t *fault);
// Give a provisional record back, so that nobody waits for it. What cannot be deleted expires. Only in the bucket that it
// was meant for.
void give_back(const terms_t *terms, identity_t *who, const provisional_t *ours);

// floor.c

typedef enum { CLEAR, TAKEN_OVER, TROUBLED } cleared_t;

// Make sure that a provisional record's epoch was never issued, moving the revisions past the floor where it must be.
cleared_t floor_clear(const terms_t *terms, identity_t *who, provisional_t *ours, trouble_t *trouble);

// asked.c: when a check was asked, in milliseconds since 1970; never ahead of now.

uint64_t wall_ms(clock_wall_t wall);
clock_wall_t wall_of_ms(uint64_t ms);
uint64_t asked_ms(const queue_ask_t *ask, clock_wall_t now);
