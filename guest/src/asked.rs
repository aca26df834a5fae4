//! When a check was asked: its id says, or else the queue, or else it is taken as asked now, so that it is
//! never let through on a guess.

use alloc::borrow::Cow;

use serde::Deserialize;

use crate::imports::{Ask, Wall};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// When an ask was asked, by the time of day, in milliseconds since 1970. A time ahead of `now` is now.
pub(crate) fn asked_ms(ask: &Ask, now: Wall) -> u64 {
    let now = millis(now);
    serde_json::from_slice::<Body<'_>>(&ask.body)
        .ok()
        .and_then(|body| id_ms(&body.id))
        .or(ask.stored.map(millis))
        .unwrap_or(now)
        .min(now)
}

/// The time of day in milliseconds; zero before 1970.
pub(crate) fn millis(wall: Wall) -> u64 {
    u64::try_from(wall.seconds).unwrap_or(0).saturating_mul(1000) + u64::from(wall.nanoseconds / 1_000_000)
}

/// The time of day from milliseconds since 1970.
pub(crate) fn wall(ms: u64) -> Wall {
    Wall {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        nanoseconds: u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    }
}

/// The time in an id: `build-<unix milliseconds>-…`, a UUIDv7 (RFC 9562 section 5.7) or a ULID.
fn id_ms(id: &str) -> Option<u64> {
    build_ms(id).or_else(|| uuid7_ms(id)).or_else(|| ulid_ms(id))
}

fn build_ms(id: &str) -> Option<u64> {
    let (digits, _) = id.strip_prefix("build-")?.split_once('-')?;
    // `parse` takes a sign, an id does not.
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

fn uuid7_ms(id: &str) -> Option<u64> {
    let bytes = id.as_bytes();
    let shaped = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'7',
            19 => matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'),
            _ => byte.is_ascii_hexdigit(),
        });
    if !shaped {
        return None;
    }
    let high = u64::from_str_radix(id.get(..8)?, 16).ok()?;
    let low = u64::from_str_radix(id.get(9..13)?, 16).ok()?;
    Some(high << 16 | low)
}

fn ulid_ms(id: &str) -> Option<u64> {
    const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |byte: u8| CROCKFORD.iter().position(|at| *at == byte.to_ascii_uppercase());
    // 26 digits of 5 bits hold 128 bits, so the first is at most 7.
    if id.len() != 26 || id.as_bytes().first()? > &b'7' || !id.bytes().all(|byte| digit(byte).is_some()) {
        return None;
    }
    id.bytes().take(10).try_fold(0, |ms, byte| Some(ms << 5 | u64::try_from(digit(byte)?).ok()?))
}
