#include "policy_in_c.h"

bool exports_lease_check(terms_t *terms, text_t *err) {
    const struct {
        const char *name;
        uint64_t ns;
    } each[] = {
        {"the ttl of a lease must be above zero", terms->ttl_ns},
        {"the renew interval of a lease must be above zero", terms->renew_every_ns},
        {"the margin of a lease must be above zero", terms->margin_ns},
        {"the poll of a lease must be above zero", terms->poll_ns},
    };
    for (size_t n = 0; n < sizeof each / sizeof *each; n++) {
        if (each[n].ns == 0) {
            policy_string_set(err, each[n].name);
            return false;
        }
    }
    // Written without a sum, which could go over the largest number.
    if (terms->margin_ns < terms->ttl_ns && terms->renew_every_ns < terms->ttl_ns - terms->margin_ns) return true;
    *err = say("a lease renewed every %s with a margin of %s does not fit a record that lives %s: their sum must be "
               "below it",
               terms->renew_every_ns, terms->margin_ns, terms->ttl_ns);
    return false;
}

bool terms_fit(const terms_t *terms, const kv_bucket_info_t *bucket, text_t *why) {
    terms_t copy = *terms;
    if (!exports_lease_check(&copy, why)) return false;
    if (bucket->ttl_ns == 0) {
        *why = TEXT("the bucket keeps its keys for ever, so a holder that died would hold for ever; give the bucket "
                    "a ttl");
        return false;
    }
    if (bucket->ttl_ns != terms->ttl_ns) {
        *why = say("the bucket keeps its keys for %s, the lease was made for %s", bucket->ttl_ns, terms->ttl_ns);
        return false;
    }
    return true;
}

uint64_t terms_until(const terms_t *terms, uint64_t sent_ns) {
    return saturating_add(sent_ns, saturating_sub(terms->ttl_ns, terms->margin_ns));
}

uint64_t terms_gap(const terms_t *terms) {
    uint64_t half = terms->renew_every_ns / 2;
    uint64_t polls = saturating_add(terms->poll_ns, terms->poll_ns);
    return half > polls ? half : polls;
}

uint64_t terms_announced(const terms_t *terms) {
    uint64_t gap = terms_gap(terms);
    return saturating_add(gap, gap);
}

bool terms_fit_delayed(const terms_t *terms, text_t *why) {
    uint64_t announced = terms_announced(terms), good = terms_until(terms, 0);
    if (good > announced) return true;
    *why = say("a record that stands for %s before it is acted on does not fit one that is good for %s: where an absence "
               "is delayed, the poll must be below a quarter of that",
               announced, good);
    return false;
}
