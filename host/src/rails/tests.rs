//! What is believed and what is not, one rule a test.

use super::*;

const VALIDITY: Duration = Duration::from_secs(12);
const FOR_EVER: Steady = Steady(u64::MAX);

fn at(seconds: u64) -> Steady {
    Steady(seconds * 1_000_000_000)
}

fn entry(revision: u64, value: &[u8]) -> Entry {
    Entry { revision, value: value.to_vec() }
}

/// Rails of a lease taken at this revision, by a write sent at 100 s.
fn taken(revision: u64) -> Rails {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"taken", at(100));
    rails.acknowledged(ticket, revision);
    assert_eq!(rails.believe_taken(revision, revision, FOR_EVER, revision - 1), Ok(at(112)));
    rails
}

#[test]
fn a_tenure_at_a_revision_never_written_is_not_believed() {
    let mut rails = Rails::new(VALIDITY);
    assert_eq!(rails.believe_taken(57, 57, at(101), 0), Err(Lie::NotOurs(57)));
    assert_eq!(taken(57).believe(57, 58, at(101)), Err(Lie::NotOurs(58)));
    assert!(!rails.owns(57));
}

#[test]
fn a_write_is_meant_for_the_bucket_that_was_known_when_it_was_sent() {
    let mut rails = Rails::new(VALIDITY);
    let before = rails.sending(b"a", at(100));
    rails.acknowledged(before, 57);
    rails.saw_bucket(7);
    let known = rails.sending(b"b", at(101));
    // Raised again while it was on its way.
    rails.saw_bucket(8);
    rails.acknowledged(known, 58);
    assert_eq!((rails.meant_for(57), rails.meant_for(58), rails.meant_for(59)), (None, Some(7), None));
    // One whose answer was lost.
    rails.sending(b"c", at(102));
    rails.saw_bucket(8);
    assert_eq!(rails.saw(&entry(59, b"c")), Whose::Ours);
    assert_eq!(rails.meant_for(59), Some(8));
    // In another bucket it is a write that came late: not ours to go on from.
    rails.saw_bucket(10);
    assert_eq!(rails.saw(&entry(60, b"c")), Whose::Stray);
    assert!(!rails.owns(60));
    assert_eq!(rails.saw(&entry(60, b"x")), Whose::Others);
    rails.saw_bucket(9);
    // A revision given once more is that of the last write.
    let again = rails.sending(b"d", at(103));
    rails.acknowledged(again, 57);
    assert_eq!(rails.meant_for(57), Some(9));
    // One that was acknowledged, and came into the bucket that was told of later; another's at its revision is not it.
    assert_eq!(rails.saw(&entry(57, b"d")), Whose::Ours);
    rails.saw_bucket(11);
    assert_eq!(rails.saw(&entry(57, b"d")), Whose::Stray);
    assert_eq!(rails.saw(&entry(57, b"bob")), Whose::Others);
}

#[test]
fn a_write_surely_not_applied_makes_nothing_ones_own() {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"a", at(100));
    rails.not_applied(ticket);
    // Nor does a late answer to it, nor an entry like it.
    rails.acknowledged(ticket, 57);
    rails.saw(&entry(57, b"a"));
    assert!(!rails.owns(57));
}

#[test]
fn another_epoch_than_the_one_taken_is_not_believed() {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"a", at(100));
    rails.acknowledged(ticket, 57);
    // One that was never its own, and one above the revision.
    let lie = |said| Err(Lie::OtherEpoch { said, known: 0 });
    assert_eq!(rails.believe_taken(41, 57, FOR_EVER, 0), lie(41));
    assert_eq!(rails.believe_taken(58, 57, FOR_EVER, 0), lie(58));
    // Nothing goes on that was not taken.
    assert_eq!(rails.believe(57, 57, FOR_EVER), lie(57));
    let other = Lie::OtherEpoch { said: 58, known: 57 };
    assert_eq!(taken(57).believe(58, 57, FOR_EVER), Err(other));
    // Both its own: an epoch lies at the revision or below, never above.
    let ticket = rails.sending(b"b", at(104));
    rails.acknowledged(ticket, 58);
    assert_eq!(rails.believe_taken(58, 57, FOR_EVER, 0), lie(58));
    assert_eq!(rails.believe_taken(57, 58, FOR_EVER, 0), Ok(at(116)));
}

#[test]
fn an_epoch_at_or_below_the_floor_is_not_believed() {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"a", at(100));
    rails.acknowledged(ticket, 57);
    for floor in [57, 58] {
        let lie = Lie::BelowFloor { said: 57, floor };
        assert_eq!(rails.believe_taken(57, 57, FOR_EVER, floor), Err(lie));
    }
    assert_eq!(rails.believe_taken(57, 57, FOR_EVER, 56), Ok(at(112)));
}

#[test]
fn until_is_cut_to_what_the_write_allows_and_never_stretched() {
    let mut rails = taken(57);
    assert_eq!(rails.believe(57, 57, at(105)), Ok(at(105)));
    let ticket = rails.sending(b"renewed", at(104));
    rails.acknowledged(ticket, 58);
    assert_eq!(rails.believe(57, 58, FOR_EVER), Ok(at(116)));
    // The older write allows no more than it did.
    assert_eq!(rails.believe(57, 57, FOR_EVER), Ok(at(112)));
}

#[test]
fn a_revision_given_once_more_counts_from_the_write_that_won_it_last() {
    let mut rails = taken(57);
    let ticket = rails.sending(b"in a bucket raised again", at(104));
    rails.acknowledged(ticket, 57);
    assert_eq!(rails.believe(57, 57, FOR_EVER), Ok(at(116)));
}

#[test]
fn a_lost_answer_is_found_again_by_its_very_bytes() {
    let mut rails = taken(57);
    rails.sending(b"renewed", at(104));
    rails.saw(&entry(58, b"renewed by another"));
    assert!(!rails.owns(58));
    rails.saw(&entry(58, b"renewed"));
    assert_eq!(rails.believe(57, 58, FOR_EVER), Ok(at(116)));
}

#[test]
fn a_lost_answer_is_found_at_a_revision_given_once_more() {
    let mut rails = taken(57);
    rails.sending(b"in a bucket raised again", at(104));
    rails.saw(&entry(57, b"in a bucket raised again"));
    rails.saw(&entry(57, b"in a bucket raised again"));
    assert_eq!(rails.believe(57, 57, FOR_EVER), Ok(at(116)));
    assert_eq!(rails.own.len(), 2);
}

const WRITTEN: &[u8] = br#"{"instance":"alice","epoch":57,"nonce":"n1"}"#;

#[test]
fn a_record_of_ones_own_that_was_marked_stays_ones_own() {
    let mut rails = taken(57);
    let ticket = rails.sending(WRITTEN, at(104));
    rails.acknowledged(ticket, 58);
    rails.saw(&entry(59, br#"{"epoch":57,"instance":"alice","nonce":"n1","step_down":"ops"}"#));
    // No longer than the write it was put on allows.
    assert_eq!(rails.believe(57, 59, FOR_EVER), Ok(at(116)));
    // Of a write whose answer was lost too.
    rails.sending(br#"{"instance":"alice","epoch":57,"nonce":"n1","renewed":"later"}"#, at(108));
    rails.saw(&entry(
        61,
        br#"{"epoch":57,"instance":"alice","nonce":"n1","renewed":"later","step_down":"ops"}"#,
    ));
    assert_eq!(rails.believe(57, 61, FOR_EVER), Ok(at(120)));
}

#[test]
fn a_mark_at_a_revision_given_once_more_counts_from_the_write_it_is_on() {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"in the bucket before", at(50));
    rails.acknowledged(ticket, 58);
    let ticket = rails.sending(WRITTEN, at(104));
    rails.acknowledged(ticket, 57);
    rails.saw(&entry(58, br#"{"epoch":57,"instance":"alice","nonce":"n1","step_down":"ops"}"#));
    assert_eq!(rails.until(58), Ok(at(116)));
}

#[test]
fn a_marked_record_that_differs_in_anything_else_is_anothers() {
    let mut rails = taken(57);
    let ticket = rails.sending(WRITTEN, at(104));
    rails.acknowledged(ticket, 58);
    for other in [
        &br#"{"instance":"alice","epoch":57,"nonce":"n2","step_down":"ops"}"#[..],
        br#"{"instance":"alice","epoch":58,"nonce":"n1","step_down":"ops"}"#,
        br#"{"instance":"alice","epoch":57,"nonce":"n1","step_down":""}"#,
        br#"{"instance":"alice","epoch":57,"nonce":"n1","step_down":1}"#,
        br#"{"instance":"alice","epoch":57,"nonce":"n1","host":"x","step_down":"ops"}"#,
        br#"{"instance":"alice","epoch":57,"nonce":"n1"}"#,
        br#"["alice"]"#,
        b"garbage",
    ] {
        rails.saw(&entry(59, other));
        assert!(!rails.owns(59), "{}", String::from_utf8_lossy(other));
    }
}

#[test]
fn the_epoch_that_a_mark_writes_down_is_the_records_revision() {
    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(br#"{"instance":"alice","nonce":"n1"}"#, at(100));
    rails.acknowledged(ticket, 57);
    rails.saw(&entry(58, br#"{"instance":"alice","nonce":"n1","epoch":56,"step_down":"ops"}"#));
    assert!(!rails.owns(58));
    rails.saw(&entry(58, br#"{"instance":"alice","nonce":"n1","epoch":57,"step_down":"ops"}"#));
    assert!(rails.owns(58));
}

#[test]
fn what_was_rewritten_stands_at_the_new_revision_until_the_old_one_is_given_once_more() {
    let mut rails = taken(57);
    assert_eq!(rails.standing(), Some((57, b"taken".to_vec())));
    let ticket = rails.sending(b"taken", at(104));
    rails.acknowledged(ticket, 58);
    rails.rewrote(57, 58);
    assert_eq!((rails.stands_at(57), rails.stands_at(58), rails.stands_at(56)), (58, 58, 56));
    let ticket = rails.sending(b"in a bucket raised again", at(108));
    rails.acknowledged(ticket, 57);
    assert_eq!(rails.stands_at(57), 57);
}

#[test]
fn of_equal_writes_the_earliest_counts() {
    let mut rails = taken(57);
    rails.sending(b"renewed", at(104));
    rails.sending(b"renewed", at(108));
    rails.saw(&entry(58, b"renewed"));
    assert_eq!(rails.believe(57, 58, FOR_EVER), Ok(at(116)));
}

#[test]
fn a_deletion_sent_voids_what_was_written_before_it() {
    let mut rails = taken(57);
    rails.sending(b"in flight", at(104));
    rails.deleting();
    assert_eq!(rails.believe(57, 57, FOR_EVER), Err(Lie::NotOurs(57)));
    rails.saw(&entry(58, b"in flight"));
    assert_eq!(rails.believe(57, 58, FOR_EVER), Err(Lie::NotOurs(58)));
    assert_eq!((rails.latest(), rails.owns_key(at(105))), (None, false));
    // It may still be deleted once more.
    assert!(rails.owns(57) && rails.owns(58));
    let ticket = rails.sending(b"anew", at(106));
    rails.acknowledged(ticket, 60);
    assert_eq!((rails.latest(), rails.owns_key(at(107))), (Some(60), true));
}

#[test]
fn the_key_is_owned_until_its_time_and_not_after_the_end() {
    let mut rails = taken(57);
    assert!(rails.owns_key(Steady(at(112).0 - 1)));
    assert!(!rails.owns_key(at(112)));
    assert!(!rails.is_finished());
    rails.finish();
    assert!(rails.is_finished() && !rails.owns_key(at(101)));
    assert!(!Rails::new(VALIDITY).owns_key(at(0)));
}

#[test]
fn a_refusal_stands_until_a_write_wins_or_the_lease_is_taken() {
    let mut rails = taken(57);
    let refused = |rails: &mut Rails| {
        let ticket = rails.sending(b"renewed", at(104));
        rails.refused(ticket);
        assert!(rails.is_refused() && !rails.is_unsettled());
    };
    assert!(!rails.is_refused());
    refused(&mut rails);
    // A read may be an old one.
    rails.saw(&entry(57, b"taken"));
    assert!(rails.is_refused());
    let ticket = rails.sending(b"renewed", at(105));
    rails.acknowledged(ticket, 58);
    assert!(!rails.is_refused());

    let mut rails = Rails::new(VALIDITY);
    let ticket = rails.sending(b"taken", at(100));
    rails.acknowledged(ticket, 57);
    refused(&mut rails);
    assert_eq!(rails.believe_taken(57, 57, FOR_EVER, 0), Ok(at(112)));
    assert!(!rails.is_refused());
}

#[test]
fn a_purge_may_arrive_until_it_is_answered() {
    let mut rails = taken(57);
    assert!(!rails.may_purge());
    rails.purging();
    assert!(rails.may_purge());
    rails.purged();
    assert!(!rails.may_purge());
}

#[test]
fn what_is_remembered_is_bounded_and_the_latest_stays() {
    let mut rails = taken(1);
    for revision in 2..=1000 {
        let ticket = rails.sending(b"renewed", at(100));
        rails.acknowledged(ticket, revision);
        rails.sending(b"lost", at(100));
    }
    assert_eq!((rails.own.len(), rails.pending.len()), (OWN, PENDING));
    assert!(rails.owns(1000) && !rails.owns(1));
    assert_eq!(rails.believe(1, 1000, FOR_EVER), Ok(at(112)));
}

#[test]
fn what_a_version_on_probation_claims_is_judged_and_not_cut() {
    let rails = taken(57);
    let (last, later) = (at(112), Steady(at(112).0 + 1));
    let too_long = || Err(Lie::TooLong { by: Duration::from_nanos(1) });
    assert_eq!((rails.judge(57, 57, last, None), rails.judge(57, 57, later, None)), (Ok(()), too_long()));
    assert_eq!(rails.judge(58, 57, last, None), Err(Lie::OtherEpoch { said: 58, known: 57 }));
    let (above, at_it) = (Some(56), Some(57));
    assert_eq!((rails.judge(57, 57, last, above), rails.judge(57, 57, later, above)), (Ok(()), too_long()));
    assert_eq!(rails.judge(57, 57, last, at_it), Err(Lie::BelowFloor { said: 57, floor: 57 }));
}

#[test]
fn a_write_is_unsettled_until_it_is_answered() {
    let mut rails = Rails::new(VALIDITY);
    assert!(!rails.is_unsettled());
    let ticket = rails.sending(b"taken", at(100));
    assert!(rails.is_unsettled());
    rails.acknowledged(ticket, 57);
    assert!(!rails.is_unsettled());
}

#[test]
fn what_stands_there_is_known_and_where_it_was_rewritten() {
    let mut rails = taken(57);
    assert_eq!(rails.standing(), Some((57, b"taken".to_vec())));
    assert_eq!(rails.stands_at(57), 57);
    rails.rewrote(57, 59);
    assert_eq!([57, 58, 59].map(|revision| rails.stands_at(revision)), [59, 58, 59]);
    rails.deleting();
    assert_eq!((rails.standing(), Rails::new(VALIDITY).standing()), (None, None));
}
