//! What is said on standard error; standard output belongs to answers, and to the command that runs.

use incumbent::holds::{self, Job};
use incumbent::lease::{Event, Released};
use incumbent::policies;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// One line on standard error. Whoever read it may be gone, which is no reason to stop: what goes on here keeps a lease.
macro_rules! tell {
    ($($told:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($told)*);
    }};
}

/// Says what the libraries log, at the level that was asked for.
pub(crate) fn log(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    // Set once, first thing: it cannot have been set before.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .try_init();
}

/// Says what went wrong.
pub(crate) fn error(why: &str) {
    tell!("incumbent: {why}");
}

/// Says what happened to a lease, in one line. Renewals are said only when more was asked for.
pub(crate) fn event(lease: &str, event: &Event, as_json: bool, verbose: bool) {
    if matches!(event, Event::Renewed { .. }) && !verbose {
        return;
    }
    if as_json {
        tell!("{}", to_json(lease, event));
    } else {
        tell!("incumbent: {lease}: {event}");
    }
}

fn to_json(lease: &str, event: &Event) -> Value {
    let (name, epoch) = match event {
        Event::InLine => ("in-line", None),
        Event::Waiting { .. } => ("waiting", None),
        Event::Retrying { .. } => ("retrying", None),
        Event::Moved { .. } => ("moved", None),
        Event::Taken { epoch, .. } => ("taken", Some(epoch)),
        Event::Renewed { .. } => ("renewed", None),
        Event::RenewalFailed { .. } => ("renewal-failed", None),
        Event::Refused { .. } => ("refused", None),
        Event::Shut { .. } => ("shut", None),
        Event::Asked { .. } => ("asked", None),
        Event::Lost { epoch, .. } => ("lost", Some(epoch)),
        Event::Released { epoch, outcome: Released::GivenBack } => ("given-back", Some(epoch)),
        Event::Released { epoch, .. } => ("not-given-back", Some(epoch)),
    };
    let mut line = json!({ "event": name, "lease": lease, "message": event.to_string() });
    if let Some(epoch) = epoch {
        line["epoch"] = json!(epoch);
    }
    if let Event::Waiting { holder: Some(holder) } = event {
        line["holder"] = super::show::holder_json(holder);
    }
    line
}

/// Says what happened to the versions of a policy, in one line.
pub(crate) fn policies(event: &policies::Event, as_json: bool) {
    if !as_json {
        tell!("incumbent: {event}");
        return;
    }
    let name = match event {
        policies::Event::Published { .. } => "policy-published",
        policies::Event::Proven { .. } => "policy-proven",
        policies::Event::RolledBack { .. } => "policy-rolled-back",
        policies::Event::Refused(_) => "policy-refused",
        _ => "policy-trouble",
    };
    tell!("{}", json!({ "event": name, "message": event.to_string() }));
}

/// Says what happened to check holds, in one line.
pub(crate) fn holds(event: &holds::Event, as_json: bool) {
    if !as_json {
        tell!("incumbent: {event}");
        return;
    }
    let (name, plans) = match event {
        holds::Event::Held { plans } => ("held", plans.as_slice()),
        holds::Event::Free => ("free", [].as_slice()),
        _ => ("trouble", [].as_slice()),
    };
    tell!("{}", json!({ "event": name, "plans": plans, "message": event.to_string() }));
}

/// Says what becomes of a job, in one line.
pub(crate) fn job(what: &str, job: &Job, as_json: bool) {
    let (kind, sequence, queue, deliveries) = (job.kind(), job.ask().sequence, job.queue(), job.deliveries());
    let id = job.id();
    if as_json {
        let event = what.replace(' ', "-");
        let line = json!({
            "event": event, "kind": kind.to_string(), "queue": queue, "sequence": sequence, "id": id,
            "deliveries": deliveries,
        });
        tell!("{line}");
        return;
    }
    let id = id.map_or_else(String::new, |id| format!(" ({})", id.escape_debug()));
    let again = if deliveries > 1 { format!(", given {deliveries} times") } else { String::new() };
    tell!("incumbent: {what}: {kind} {sequence} of {queue}{id}{again}");
}

/// Says something that is no error.
pub(crate) fn note(text: &str, as_json: bool) {
    if as_json {
        tell!("{}", json!({ "message": text }));
    } else {
        tell!("incumbent: {text}");
    }
}

/// Passes a signal on to a child, if it is there still.
pub(crate) fn forward(child: Option<u32>, signal: i32) {
    let pid = child.and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // Gone just now: there is nobody to pass it on to.
        let _ = kill_process(pid, signal);
    }
}
