//! What holds of all values, where a table names only some: drawn by a fixed seed, so every run tries the same.

use incumbent_policy::gate::{Standing, admit, pass};
use incumbent_policy::imports::Wall;
use incumbent_policy::lease::{Certainty, Sighting, Tenure, Terms, Vacancy};
use incumbent_policy::record::rfc3339;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

/// Any number, and often one of those at which sums overflow.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..20_u64, (u64::MAX - 20)..=u64::MAX]
}

fn terms() -> impl Strategy<Value = Terms> {
    (number(), number(), number(), number()).prop_map(|(ttl_ns, renew_every_ns, margin_ns, poll_ns)| Terms {
        ttl_ns,
        renew_every_ns,
        margin_ns,
        poll_ns,
    })
}

fn standing() -> impl Strategy<Value = Standing> {
    let certainty =
        prop_oneof![Just(Certainty::Sure), Just(Certainty::Unsure), number().prop_map(Certainty::Doubted)];
    let tenure = (number(), number(), certainty).prop_map(|(epoch, until_ns, certainty)| Tenure {
        epoch,
        revision: epoch,
        created: 7,
        taken: String::new(),
        until_ns,
        certainty,
    });
    prop_oneof![
        Just(Standing::Candidate),
        Just(Standing::Released),
        Just(Standing::Lost),
        tenure.prop_map(Standing::Held)
    ]
}

/// A look of a candidate: after so long it sees the record at this revision, or none, in this bucket.
fn looks() -> impl Strategy<Value = Vec<(u64, Option<u64>, u64)>> {
    let revision = prop_oneof![Just(None), (1..3_u64).prop_map(Some)];
    prop::collection::vec((0..12_u64, revision, prop_oneof![9 => Just(7_u64), 1 => Just(8_u64)]), 1..12)
}

proptest! {
    #![proptest_config(config(5000))]

    #[test]
    fn a_gate_once_shut_stays_shut_and_is_open_no_longer_than_its_tenure(
        standing in standing(), one in number(), other in number(),
    ) {
        let (early, late) = (one.min(other), one.max(other));
        match (pass(&standing, early), pass(&standing, late), &standing) {
            (Err(_), later, _) => prop_assert!(later.is_err()),
            (Ok(open), later, Standing::Held(tenure)) => {
                prop_assert!(early < open.until_ns && open.until_ns <= tenure.until_ns);
                prop_assert_eq!(open.epoch, tenure.epoch);
                prop_assert_eq!(later.is_ok(), late < open.until_ns);
            }
            (Ok(_), ..) => prop_assert!(false, "open for one who holds nothing"),
        }
    }

    #[test]
    fn terms_fit_exactly_when_a_renewal_and_the_margin_fit_the_ttl(terms in terms()) {
        let (renew, margin) = (u128::from(terms.renew_every_ns), u128::from(terms.margin_ns));
        let positive = [terms.ttl_ns, terms.renew_every_ns, terms.margin_ns, terms.poll_ns].iter().all(|ns| *ns > 0);
        prop_assert_eq!(terms.check().is_ok(), positive && renew + margin < u128::from(terms.ttl_ns));
    }

    #[test]
    fn a_write_counts_for_the_ttl_less_the_margin_and_at_most_for_ever(
        terms in terms(), sent in number(), later in number(),
    ) {
        let valid = u128::from(terms.ttl_ns.saturating_sub(terms.margin_ns));
        let until = (u128::from(sent) + valid).min(u128::from(u64::MAX));
        prop_assert_eq!(u128::from(terms.until(sent)), until);
        prop_assert!(terms.until(sent.max(later)) >= terms.until(sent.min(later)));
    }

    #[test]
    fn what_a_receiver_heard_never_falls(epochs in prop::collection::vec(prop_oneof![0..9_u64, number()], 1..20)) {
        let mut heard = 0;
        for epoch in epochs {
            match admit(heard, epoch) {
                Ok(now) => {
                    prop_assert!(epoch > 0 && epoch >= heard);
                    prop_assert_eq!(now, epoch);
                    heard = now;
                }
                Err(than) => {
                    prop_assert!(epoch == 0 || epoch < heard);
                    prop_assert_eq!(than, heard);
                }
            }
        }
    }

    #[test]
    fn an_absence_counts_from_when_what_was_seen_stood_unchanged(looks in looks()) {
        let terms = Terms { ttl_ns: 15, renew_every_ns: 5, margin_ns: 3, poll_ns: 1 };
        for rule in [Vacancy::Trusted, Vacancy::Watched, Vacancy::Delayed] {
            let (mut seen, mut now, mut bucket_seen) = (None, 0, 7);
            // The record that stands unchanged, since when and until when; and since when nothing is there.
            let mut record: Option<(u64, u64, u64)> = None;
            let mut absent = None;
            // Two polls, which are no less than half a renew interval.
            let gap = 2;
            for &(pause, revision, bucket) in &looks {
                now += pause;
                // Where the store may forget, what may have come and gone between two looks counts.
                if rule == Vacancy::Delayed && pause > gap {
                    absent = None;
                }
                if bucket_seen != bucket {
                    (record, absent, bucket_seen) = (None, None, bucket);
                }
                let (sighting, since) = match revision {
                    Some(revision) => {
                        let first = record.filter(|(of, ..)| *of == revision).map_or(now, |(_, first, _)| first);
                        (record, absent) = (Some((revision, first, now)), None);
                        (Sighting::of_record(seen, bucket, revision, now), first)
                    }
                    None => {
                        // Only one that its holder could not renew any more had stood unchanged.
                        record = record.filter(|(_, first, last)| rule != Vacancy::Delayed && *last >= first + 12);
                        let nothing = *absent.get_or_insert(now);
                        let since = record.map_or(nothing, |(_, first, _)| first);
                        (Sighting::of_absence(seen, bucket, rule, &terms, now, now), since)
                    }
                };
                prop_assert_eq!((sighting.created, sighting.since_ns), (bucket, since), "{:?} at {}", rule, now);
                prop_assert!(sighting.last_ns <= now);
                seen = Some(sighting);
            }
        }
    }

    #[test]
    fn a_change_that_is_known_never_makes_a_lease_free_earlier(
        since in 0..40_u64, last in 0..40_u64, later in 0..40_u64, revision in prop_oneof![Just(None), (1..3_u64).prop_map(Some)],
    ) {
        let terms = Terms { ttl_ns: 15, renew_every_ns: 5, margin_ns: 3, poll_ns: 1 };
        let seen = Sighting { created: 7, revision, since_ns: since, last_ns: since + last };
        let now = seen.last_ns + later;
        let absent = |seen, created, rule| Sighting::of_absence(seen, created, rule, &terms, now, now).since_ns;
        let watched = absent(Some(seen), 7, Vacancy::Watched);
        prop_assert!(absent(Some(seen), 8, Vacancy::Watched) >= watched, "in another bucket");
        prop_assert!(absent(None, 7, Vacancy::Watched) >= watched, "with nothing seen before");
        prop_assert!(absent(Some(seen), 7, Vacancy::Delayed) >= watched, "under the stricter rule");
        let renewed = Sighting::of_record(Some(seen), 7, 9, now);
        prop_assert!(absent(Some(renewed), 7, Vacancy::Watched) >= watched, "with a record seen meanwhile");
        prop_assert_eq!(renewed.since_ns, now);
    }

    #[test]
    fn times_are_rfc_3339(seconds in prop_oneof![-70_000_000_000..300_000_000_000_i64, any::<i64>()], nanoseconds in prop_oneof![0..1_000_000_000_u32, any::<u32>()]) {
        prop_assert_eq!(rfc3339(Wall { seconds, nanoseconds }), plainly(seconds, nanoseconds));
    }
}

/// RFC 3339 by counting days from 0000-03-01, as the calendar repeats every 400 years.
fn plainly(seconds: i64, nanoseconds: u32) -> String {
    let zero = || String::from("0001-01-01T00:00:00Z");
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let Some(day) = days.checked_add(719_468) else { return zero() };
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    if !(0..=9999).contains(&year) || nanoseconds > 999_999_999 {
        return zero();
    }
    let fraction = format!(".{nanoseconds:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}{fraction}Z", second % 60)
}
