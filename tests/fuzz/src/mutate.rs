//! Inputs near those of a corpus, drawn by a seed.

use fastrand::Rng;

/// The longest input that grows further, bytes: more than any reader of lines takes.
const LONGEST: usize = 16 << 10;

/// Bytes at which readers decide.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff \t\n\"'\\{}[]:,;-+=@/._0179aAzZ";

/// Words at which they do.
const WORDS: &[&str] = &[
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740993",
    "-1",
    "-0",
    "1e309",
    "0.1",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\u{1F451}",
    "=3A",
    "=3a",
    "=41",
    "//",
    "@",
    "..",
    "build-",
    "until ",
    "\"instance\":\"alice\"",
    "\"nonce\":\"n1\"",
    "\"epoch\":0",
    "\"step_down\":\"ops\"",
    "2027-01-15T08:00:00Z",
];

/// An input near one of these.
pub(crate) fn mutated(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = rng.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..=rng.u8(..4) {
        mutate(&mut input, corpus, rng);
    }
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    let (from, to) = range(input.len(), rng);
    match rng.u8(..9) {
        0 => replace(input, rng, |byte, rng| byte ^ 1 << rng.u8(..8)),
        1 => replace(input, rng, |_, rng| *rng.choice(TELLING).unwrap_or(&0)),
        2 => replace(input, rng, |byte, rng| byte.wrapping_add(rng.u8(..)).wrapping_sub(16)),
        3 => drop(input.drain(from..to)),
        4 => input.truncate(from),
        5 if input.len() < LONGEST => {
            let again = input[from..to].to_vec();
            input.splice(to..to, again);
        }
        6 if input.len() < LONGEST => {
            let other = rng.choice(corpus).map_or(&[][..], Vec::as_slice);
            let (begins, ends) = range(other.len(), rng);
            input.splice(from..to, other[begins..ends].iter().copied());
        }
        7 => drop(input.splice(from..from, [*rng.choice(TELLING).unwrap_or(&0)])),
        _ => {
            let word = rng.choice(WORDS).map_or(&[][..], |word| word.as_bytes());
            let ends = if rng.bool() { from } else { to };
            input.splice(from..ends, word.iter().copied());
        }
    }
}

fn replace(input: &mut [u8], rng: &mut Rng, with: fn(u8, &mut Rng) -> u8) {
    if !input.is_empty() {
        let at = rng.usize(..input.len());
        input[at] = with(input[at], rng);
    }
}

/// Short ranges are drawn more often than long ones.
fn range(len: usize, rng: &mut Rng) -> (usize, usize) {
    let from = rng.usize(..=len);
    let longest = (len - from) >> rng.u8(..6);
    (from, from + rng.usize(..=longest))
}
