//! How a transcript tells each call.

use crate::imports::Role;
use crate::policy::rehearsal::parse::{time_text, value_text};

pub(super) const FLOOR: &str = "floor";
pub(super) const LAST_SEQUENCE: &str = "last-sequence";

pub(super) fn get(role: Role, key: &str) -> String {
    format!("get {} {key}", role_text(role))
}

pub(super) fn create(role: Role, key: &str, value: &[u8]) -> String {
    format!("create {} {key} {}", role_text(role), value_text(value))
}

pub(super) fn update(role: Role, key: &str, value: &[u8], expected: u64) -> String {
    format!("update {} {key} at {expected} {}", role_text(role), value_text(value))
}

pub(super) fn delete(role: Role, key: &str, expected: u64) -> String {
    format!("delete {} {key} at {expected}", role_text(role))
}

pub(super) fn keys(role: Role, after: Option<&str>, most: u32) -> String {
    let after = after.map_or(String::new(), |after| format!(" after {after}"));
    format!("keys {}{after} at most {most}", role_text(role))
}

pub(super) fn info(role: Role) -> String {
    format!("info {}", role_text(role))
}

pub(super) fn purge_below(sequence: u64) -> String {
    format!("purge-below {sequence}")
}

pub(super) fn moved(was: u64, floor: u64) -> String {
    format!("moved was={was} floor={floor}")
}

pub(super) fn oldest_waiting(queue: &str) -> String {
    format!("oldest-waiting {queue}")
}

pub(super) fn fetch(queue: &str, within_ns: u64) -> String {
    format!("take {queue} within {}", time_text(within_ns))
}

pub(super) fn hand_back(ticket: u64, delay_ns: u64) -> String {
    format!("hand-back {ticket} delay {}", time_text(delay_ns))
}

pub(super) fn log(level: &str, target: &str, message: &str) -> String {
    format!("log {level} {target}: {message}")
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Lease => "lease",
        Role::Plans => "plans",
        Role::Running => "running",
    }
}
