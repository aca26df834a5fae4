//! The words of a script and of a command, read.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::imports::Ask;
use crate::store::{BucketInfo, Entry, Fault, Reading, Write};

/// A time: `100s`, `111.999999999s`, `20ms`, `1ns` or `max`.
///
/// # Errors
/// It is none.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no time; one looks like 100s, 1.5s, 20ms, 1ns or max");
    if text == "max" {
        return Ok(u64::MAX);
    }
    let whole = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
    let scaled = |digits: &str, by: u64| whole(digits)?.checked_mul(by).ok_or_else(wrong);
    if let Some(digits) = text.strip_suffix("ms") {
        return scaled(digits, 1_000_000);
    }
    if let Some(digits) = text.strip_suffix("ns") {
        return whole(digits);
    }
    let digits = text.strip_suffix('s').ok_or_else(wrong)?;
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if fraction.len() > 9 {
        return Err(wrong());
    }
    scaled(seconds, 1_000_000_000)?.checked_add(whole(&format!("{fraction:0<9}"))?).ok_or_else(wrong)
}

/// A time as the tables show it, exact.
#[must_use]
pub(crate) fn time_text(ns: u64) -> String {
    if ns == u64::MAX {
        return "max".into();
    }
    let fraction = format!("{:09}", ns % 1_000_000_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{}s", ns / 1_000_000_000),
        digits => format!("{}.{digits}s", ns / 1_000_000_000),
    }
}

/// A command's arguments: `name=value`, where a value with spaces is in round brackets, and plain words.
#[derive(Debug, Default)]
pub(crate) struct Args {
    named: BTreeMap<String, String>,
    plain: Vec<String>,
}

impl Args {
    /// The arguments in this text.
    ///
    /// # Errors
    /// A name twice, or a bracket that does not close.
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        let mut args = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let mut depth = 0i32;
            let end = rest.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                c == ' ' && depth == 0
            });
            if end.is_none() && depth != 0 {
                return Err(format!("a bracket does not close in {rest:?}"));
            }
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after.trim_start();
            match word.split_once('=') {
                Some((name, value)) => {
                    let value = value.strip_prefix('(').and_then(|v| v.strip_suffix(')')).unwrap_or(value);
                    if args.named.insert(name.into(), value.into()).is_some() {
                        return Err(format!("{name} is said twice"));
                    }
                }
                None => args.plain.push(word.into()),
            }
        }
        Ok(args)
    }

    /// The value of this name.
    pub(crate) fn value(&mut self, name: &str) -> Option<String> {
        self.named.remove(name)
    }

    /// The text of this name, or the default.
    pub(crate) fn text(&mut self, name: &str, default: &str) -> String {
        self.value(name).unwrap_or_else(|| default.into())
    }

    /// The number of this name, or the default; `max` is the largest.
    ///
    /// # Errors
    /// It is no number.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, String> {
        self.value(name).map_or(Ok(default), |text| number(&text))
    }

    /// The time of this name, or the default.
    ///
    /// # Errors
    /// It is no time.
    pub(crate) fn time(&mut self, name: &str, default: &str) -> Result<u64, String> {
        time(&self.text(name, default))
    }

    /// The next plain word.
    pub(crate) fn word(&mut self) -> Option<String> {
        (!self.plain.is_empty()).then(|| self.plain.remove(0))
    }

    /// Whether this plain word is said.
    pub(crate) fn says(&mut self, word: &str) -> bool {
        let at = self.plain.iter().position(|said| said == word);
        at.map(|at| self.plain.remove(at)).is_some()
    }

    /// Nothing may be left that was not understood.
    ///
    /// # Errors
    /// Something is.
    pub(crate) fn end(self) -> Result<(), String> {
        let left: Vec<_> = self.named.into_keys().chain(self.plain).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("not understood: {}", left.join(", "))) }
    }
}

/// A number; `max` is the largest.
///
/// # Errors
/// It is none.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    match text {
        "max" => Ok(u64::MAX),
        _ => text.parse().map_err(|_| format!("{text:?} is no number")),
    }
}

type Said<T> = Result<Result<T, Fault>, String>;

/// A fault where the text is one, else what `good` makes of it.
fn or_fault<T>(text: &str, good: impl FnOnce(&str, &str) -> Result<T, String>) -> Said<T> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words = || rest.trim().trim_matches('"').to_owned();
    Ok(Err(match word {
        "denied" => Fault::Denied(words()),
        "missing-bucket" => Fault::MissingBucket(words()),
        "too-large" => Fault::TooLarge(words()),
        "unavailable" => Fault::Unavailable(words()),
        "unknown" => Fault::Unknown(words()),
        _ => return good(word, rest.trim()).map(Ok),
    }))
}

fn no_answer<T>(word: &str) -> Result<T, String> {
    Err(format!("{word:?} is no answer here"))
}

/// `absent`, `deleted REVISION`, `aged REVISION`, `erased REVISION` or `found REVISION VALUE`.
pub(super) fn reading(text: &str) -> Said<Reading> {
    or_fault(text, |word, rest| match word {
        "absent" => Ok(Reading::Absent),
        "deleted" => Ok(Reading::Deleted(number(rest)?)),
        "aged" => Ok(Reading::Aged(number(rest)?)),
        "erased" => Ok(Reading::Erased(number(rest)?)),
        "found" => Ok(Reading::Found(entry(rest)?)),
        word => no_answer(word),
    })
}

/// `written REVISION`, `stale` or `stale REVISION VALUE`.
pub(super) fn write(text: &str) -> Said<Write> {
    or_fault(text, |word, rest| match word {
        "written" => Ok(Write::Written(number(rest)?)),
        "stale" if rest.is_empty() => Ok(Write::Stale(None)),
        "stale" => Ok(Write::Stale(Some(entry(rest)?))),
        word => no_answer(word),
    })
}

/// `created=7 ttl=15s`, which are also the defaults.
pub(super) fn info(text: &str) -> Said<BucketInfo> {
    or_fault(text, |_, _| {
        let mut args = Args::of(text)?;
        let created = args.number("created", 7)?;
        let ttl = Duration::from_nanos(args.time("ttl", "15s")?);
        args.end()?;
        Ok(BucketInfo { created, ttl, markers: true })
    })
}

/// `none`, or the keys.
pub(super) fn keys(text: &str) -> Said<Vec<String>> {
    or_fault(text, |_, _| match text {
        "none" => Ok(Vec::new()),
        keys => Ok(keys.split(' ').map(String::from).collect()),
    })
}

/// A number.
pub(super) fn count(text: &str) -> Said<u64> {
    or_fault(text, |word, _| number(word))
}

/// `ok`.
pub(super) fn done(text: &str) -> Said<()> {
    or_fault(text, |word, _| if word == "ok" { Ok(()) } else { no_answer(word) })
}

/// `none`, or an ask: `[sequence=1] [stored=1799999000s] BODY`, the stored time since 1970.
pub(super) fn ask(text: &str) -> Said<Option<Ask>> {
    or_fault(text, |word, _| if word == "none" { Ok(None) } else { one_ask(text).map(Some) })
}

/// `none`, or `TICKET` and an ask.
pub(super) fn taken(text: &str) -> Said<Option<(u64, Ask)>> {
    or_fault(text, |word, rest| match word {
        "none" => Ok(None),
        ticket => Ok(Some((number(ticket)?, one_ask(rest)?))),
    })
}

fn one_ask(text: &str) -> Result<Ask, String> {
    let (mut sequence, mut stored, mut body) = (1, None, text);
    while let Some((word, rest)) = body.split_once(' ') {
        match word.split_once('=') {
            Some(("sequence", at)) => sequence = number(at)?,
            Some(("stored", at)) => stored = Some(Duration::from_nanos(time(at)?)),
            _ => break,
        }
        body = rest.trim_start();
    }
    Ok(Ask { sequence, stored, body: value(body)? })
}

fn entry(text: &str) -> Result<Entry, String> {
    let (revision, rest) = text.split_once(' ').ok_or_else(|| format!("{text:?} has no value"))?;
    Ok(Entry { revision: number(revision)?, value: value(rest.trim())? })
}

/// A value: its text as it is, `empty`, `hex:ff00`, or `padded:9000 TEXT` for a text with spaces behind it up
/// to that size.
fn value(text: &str) -> Result<Vec<u8>, String> {
    if text == "empty" {
        return Ok(Vec::new());
    }
    if let Some(digits) = text.strip_prefix("hex:") {
        let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        return bytes.ok_or_else(|| format!("{digits:?} are no hexadecimal bytes"));
    }
    if let Some(rest) = text.strip_prefix("padded:") {
        let (size, rest) = rest.split_once(' ').ok_or("padded:SIZE needs a text")?;
        let mut bytes = rest.as_bytes().to_vec();
        bytes.resize(size.parse().map_err(|_| format!("{size:?} is no size"))?, b' ');
        return Ok(bytes);
    }
    Ok(text.as_bytes().to_vec())
}

/// A value as the tables show it: its text, or `hex:` where it has none.
pub(super) fn value_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.into(),
        _ => bytes.iter().fold(String::from("hex:"), |text, byte| format!("{text}{byte:02x}")),
    }
}
