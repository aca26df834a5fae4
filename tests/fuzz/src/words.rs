//! Words that people and other processes write: names, URLs, command lines, the guardian's messages.

use std::str::FromStr;

use clap::Parser as _;
use incumbent::limits::{NAME_BYTES, TTL_LONGEST};
use incumbent::store::open::StoreUrl;
use incumbent::store::{check_key, name};

use crate::must_refuse;
use crate::protocol::{Order, Report};

#[path = "../../../host/src/cli"]
mod cli {
    #[expect(dead_code, unused_imports, reason = "what the command does with them is not looked at here")]
    pub(super) mod args;
}

/// A name is a token of a NATS subject and back, and no two names share one.
pub(crate) fn name(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let token = name::encode(text);
    assert_eq!(name::decode(&token).as_deref(), Some(text), "another name came back");
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-=".contains(&byte);
    must_refuse!(token.bytes().all(allowed), "a character that a NATS key does not allow in {token:?}");
    if let Some(name) = name::decode(text) {
        must_refuse!(name::encode(&name) == text, "two tokens are one name");
    }
    must_refuse!(
        check_key(text).is_ok() == (1..=NAME_BYTES).contains(&text.len()),
        "a name of {} bytes",
        text.len()
    );
}

/// A message of the guardian or to it is exactly one of those there are.
pub(crate) fn message(input: &[u8]) {
    if let Some(order) = Order::parse(input) {
        must_refuse!(plain(input) == order.to_string(), "{} was read as {order}", input.escape_ascii());
    }
    if let Some(report) = Report::parse(input) {
        must_refuse!(plain(input) == report.to_string(), "{} was read as {report}", input.escape_ascii());
    }
}

/// A message without the zeros before its number.
fn plain(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input).into_owned();
    let Some((word, number)) = text.split_once(' ') else { return text };
    let number = number.trim_start_matches('0');
    format!("{word} {}", if number.is_empty() { "0" } else { number })
}

/// A store's URL is read or refused, and what is shown of it names no user.
pub(crate) fn store_url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(url) = StoreUrl::from_str(text) else { return };
    let shown = url.to_string();
    match &url {
        StoreUrl::Nats(_) => must_refuse!(!shown.contains('@'), "a user's words in {shown}"),
        StoreUrl::Sqlite(path) => must_refuse!(!path.as_os_str().is_empty(), "a file without a name"),
        StoreUrl::Memory => must_refuse!(text.eq_ignore_ascii_case("memory:"), "{text:?} is memory"),
    }
    let again = StoreUrl::from_str(&shown).expect("what is shown is a URL");
    match (&again, &url) {
        (StoreUrl::Nats(_), StoreUrl::Nats(_)) => {}
        _ => assert_eq!(again, url, "{shown} is another store"),
    }
    assert_eq!(format!("{url:?}"), format!("StoreUrl({shown})"));
}

/// A command line is refused, or its durations are above zero and at most a day. Words are separated by line ends.
pub(crate) fn arguments(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let words = std::iter::once("incumbent").chain(text.split('\n'));
    let Ok(read) = cli::args::Cli::try_parse_from(words) else { return };
    let durations = match read.command {
        cli::args::Command::Run(run) => {
            must_refuse!(!run.command.is_empty(), "nothing to run");
            vec![run.ttl, run.renew_every, run.margin, run.poll, Some(run.grace)]
        }
        cli::args::Command::Bucket { command: cli::args::BucketCommand::Create(bucket) } => {
            vec![Some(bucket.ttl)]
        }
        _ => Vec::new(),
    };
    for duration in durations.into_iter().flatten() {
        must_refuse!(!duration.is_zero() && duration <= TTL_LONGEST, "a duration of {duration:?}");
    }
}
