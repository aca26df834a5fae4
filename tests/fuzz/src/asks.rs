//! Asks of a check queue: what whoever asks wrote, its id before all.

use incumbent_policy::holds;
use incumbent_policy::imports::{Ask, Entry, Wall, Write};
use serde_json::Value;

use crate::answers::Answers;
use crate::must_refuse;

const QUEUE: &str = "checks";

/// An ask is let through only when its id, or else the queue, says that it is old enough: never on a guess, and never
/// from the future.
///
/// Two bytes say how long after it was asked it is now, and what the queue knows; the rest is the body.
pub(crate) fn ask(input: &[u8]) {
    let Some((&[told, wait], body)) = input.split_first_chunk::<2>() else { return };
    let nobody = Entry { revision: 57, value: Vec::new() };
    let mut io = Answers::new(nobody, Write::Written(58));
    // Two ids are none, and fields that nobody asks for need not be right: the plain reading below cannot tell.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let twice = String::from_utf8_lossy(body).matches("d\"").count() > 1;
    if is_object && (twice || serde_json::from_slice::<Value>(body).is_err()) {
        return;
    }
    let now_ms = ms(io.now.wall);
    let stored =
        (told & 1 == 1).then(|| Wall { seconds: 1_799_999_000 + i64::from(told) * 8, nanoseconds: 5 });
    let after_ms = u64::from(wait) * 10_000;
    io.ask = Some(Ask { sequence: 1, stored, body: body.to_vec() });

    let admitted = holds::let_one_through(&mut io, &[QUEUE.into()], "seat-1", after_ms * 1_000_000, 1);
    let asked_ms = said(body).or(stored.map(ms)).unwrap_or(now_ms).min(now_ms);
    let old_enough = now_ms - asked_ms >= after_ms;
    match admitted.expect("the store and the queue answer") {
        Some(admitted) => {
            must_refuse!(old_enough, "asked {} ms ago, let through after {after_ms} ms", now_ms - asked_ms);
            must_refuse!(ms(admitted.asked) <= now_ms, "asked in the future");
            assert_eq!(ms(admitted.asked), asked_ms, "asked at another time than it says");
        }
        None => {
            assert!(!old_enough, "asked {} ms ago, not let through after {after_ms} ms", now_ms - asked_ms);
            must_refuse!(io.created == 0, "the key was taken for an ask that is too young");
        }
    }
}

fn ms(wall: Wall) -> u64 {
    u64::try_from(wall.seconds).unwrap_or(0) * 1000 + u64::from(wall.nanoseconds / 1_000_000)
}

/// The time in the id of a body, read in the plainest way.
fn said(body: &[u8]) -> Option<u64> {
    let body: Value = serde_json::from_slice(body).ok()?;
    // A list of one text is read as the id too, by every policy.
    let id = match body.as_array() {
        Some(list) if list.len() == 1 => list[0].as_str()?,
        Some(_) => return None,
        None => body.get("id")?.as_str()?,
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    if let ["build", number, _, ..] = id.split('-').collect::<Vec<_>>()[..]
        && digits(number)
    {
        return number.parse().ok();
    }
    let parts: Vec<_> = id.split('-').collect();
    let shape = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
    let hex = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if shape && hex && parts[2].starts_with('7') && parts[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']) {
        return u64::from_str_radix(&format!("{}{}", parts[0], parts[1]), 16).ok();
    }
    let letters: Vec<u64> = id
        .bytes()
        .map(|byte| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".find(char::from(byte.to_ascii_uppercase())))
        .map(|at| at.and_then(|at| u64::try_from(at).ok()))
        .collect::<Option<_>>()?;
    (letters.len() == 26 && letters[0] < 8)
        .then(|| letters[..10].iter().fold(0, |ms, letter| ms * 32 + letter))
}
