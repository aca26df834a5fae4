//! What is said between `run` and its guardian: one short line a message, parsed strictly, because a
//! deadline that was half understood is worse than none.

use std::fmt;

use rustix::process::Signal;

use crate::clock::Steady;

/// No message is longer; a longer one is malformed.
pub(super) const MESSAGE_BYTES: usize = 64;

/// From `run` to the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Everything must be dead before this instant. The last one said counts.
    Until(Steady),
    /// Pass this signal on to the command's process group.
    Signal(Signal),
    /// End the command now.
    End,
}

/// From the guardian to `run`; `Failed` also from the command's process to the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The process that is to become the command, and its process group. Nothing of the command has run.
    Born(i32),
    /// The command runs, as this process and process group.
    Started(i32),
    /// The command could not be executed, for this error number.
    Failed(i32),
    /// The command's time runs out, and it is being ended.
    Overdue,
    /// The command exited by itself, with this code.
    Exited(i32),
    /// The command was ended by this signal.
    Signaled(i32),
    /// The command and everything it left behind is dead.
    Gone,
}

impl Order {
    /// The order in `message`, none when it is malformed in any way.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        match words(message)? {
            ("until", Some(at)) => Some(Self::Until(Steady(number(at)?))),
            ("signal", Some(signal)) => Signal::from_named_raw(number(signal)?).map(Self::Signal),
            ("end", None) => Some(Self::End),
            _ => None,
        }
    }
}

impl Report {
    /// The report in `message`, none when it is malformed in any way.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        match words(message)? {
            ("born", Some(pid)) => Some(Self::Born(number(pid)?)),
            ("started", Some(pid)) => Some(Self::Started(number(pid)?)),
            ("failed", Some(error)) => Some(Self::Failed(number(error)?)),
            ("exited", Some(code)) => Some(Self::Exited(number(code)?)),
            ("signaled", Some(signal)) => Some(Self::Signaled(number(signal)?)),
            ("overdue", None) => Some(Self::Overdue),
            ("gone", None) => Some(Self::Gone),
            _ => None,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(at) => write!(f, "until {}", at.0),
            Self::Signal(signal) => write!(f, "signal {}", signal.as_raw()),
            Self::End => f.write_str("end"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Born(pid) => write!(f, "born {pid}"),
            Self::Started(pid) => write!(f, "started {pid}"),
            Self::Failed(error) => write!(f, "failed {error}"),
            Self::Exited(code) => write!(f, "exited {code}"),
            Self::Signaled(signal) => write!(f, "signaled {signal}"),
            Self::Overdue => f.write_str("overdue"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

/// The word of a message and its argument.
fn words(message: &[u8]) -> Option<(&str, Option<&str>)> {
    let text = std::str::from_utf8(message).ok()?;
    Some(match text.split_once(' ') {
        Some((word, argument)) => (word, Some(argument)),
        None => (text, None),
    })
}

/// A number of decimal digits alone: `parse` by itself would take a plus sign too.
pub(super) fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_read_back_and_fits() {
        for order in [Order::Until(Steady(u64::MAX)), Order::Signal(Signal::TERM), Order::End] {
            let said = order.to_string();
            assert!(said.len() <= MESSAGE_BYTES);
            assert_eq!(Order::parse(said.as_bytes()), Some(order));
        }
        let reports = [
            Report::Born(i32::MAX),
            Report::Started(i32::MAX),
            Report::Failed(2),
            Report::Exited(255),
            Report::Signaled(9),
            Report::Gone,
        ];
        for report in reports {
            let said = report.to_string();
            assert!(said.len() <= MESSAGE_BYTES);
            assert_eq!(Report::parse(said.as_bytes()), Some(report));
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        let malformed: [&[u8]; 15] = [
            b"",
            b"until",
            b"until ",
            b"until +1",
            b"until -1",
            b"until 1 ",
            b"until  1",
            b"until 1\n",
            b"until 18446744073709551616",
            b"signal 0",
            b"signal 65",
            b"end 1",
            b"END",
            b"gone",
            b"until \xff",
        ];
        for message in malformed {
            assert_eq!(Order::parse(message), None, "{}", message.escape_ascii());
        }
        assert_eq!(Report::parse(b"started -1"), None);
        assert_eq!(Report::parse(b"gone now"), None);
    }
}
