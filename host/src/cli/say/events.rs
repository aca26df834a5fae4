//! What happens to a lease, to policies and to jobs, in a line each.

use incumbent::holds::{self, Job};
use incumbent::lease::{Event, Released};
use incumbent::policies;
use serde_json::{Value, json};

use super::super::show::holder_json;
use super::tell;

/// What happened to a lease. Renewals are said only when more was asked for.
pub(crate) fn event(lease: &str, event: &Event) {
    if matches!(event, Event::Renewed { .. }) && !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    tell(&format!("{lease}: {event}"), || lease_json(lease, event));
}

fn lease_json(lease: &str, event: &Event) -> Value {
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
        line["holder"] = holder_json(holder);
    }
    line
}

/// What happened to the versions of a policy.
pub(crate) fn policies(event: &policies::Event) {
    let name = match event {
        policies::Event::Published { .. } => "policy-published",
        policies::Event::Proven { .. } => "policy-proven",
        policies::Event::RolledBack { .. } => "policy-rolled-back",
        policies::Event::Refused(_) => "policy-refused",
        _ => "policy-trouble",
    };
    tell(&event.to_string(), || json!({ "event": name, "message": event.to_string() }));
}

/// What happened to check holds.
pub(crate) fn holds(event: &holds::Event) {
    let (name, plans) = match event {
        holds::Event::Held { plans } => ("held", plans.as_slice()),
        holds::Event::Free => ("free", [].as_slice()),
        _ => ("trouble", [].as_slice()),
    };
    tell(&event.to_string(), || json!({ "event": name, "plans": plans, "message": event.to_string() }));
}

/// What becomes of a job.
pub(crate) fn job(what: &str, job: &Job) {
    let (kind, sequence, queue, deliveries) = (job.kind(), job.ask().sequence, job.queue(), job.deliveries());
    let id = job.id();
    let shown = id.as_deref().map_or_else(String::new, |id| format!(" ({})", id.escape_debug()));
    let again = if deliveries > 1 { format!(", given {deliveries} times") } else { String::new() };
    tell(&format!("{what}: {kind} {sequence} of {queue}{shown}{again}"), || {
        json!({
            "event": what.replace(' ', "-"), "kind": kind.to_string(), "queue": queue, "sequence": sequence,
            "id": id, "deliveries": deliveries,
        })
    });
}
