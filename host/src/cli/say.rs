//! What is said on standard error; standard output belongs to answers, and to the command that runs.

use incumbent::lease::{Event, Released};
use serde_json::{Value, json};

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
    eprintln!("incumbent: {why}");
}

/// Says what happened to a lease, in one line. Renewals are said only when more was asked for.
pub(crate) fn event(lease: &str, event: &Event, as_json: bool, verbose: bool) {
    if matches!(event, Event::Renewed { .. }) && !verbose {
        return;
    }
    if as_json {
        eprintln!("{}", to_json(lease, event));
    } else {
        eprintln!("incumbent: {lease}: {event}");
    }
}

fn to_json(lease: &str, event: &Event) -> Value {
    let (name, epoch) = match event {
        Event::Waiting { .. } => ("waiting", None),
        Event::Retrying { .. } => ("retrying", None),
        Event::Moved { .. } => ("moved", None),
        Event::Taken { epoch, .. } => ("taken", Some(epoch)),
        Event::Renewed { .. } => ("renewed", None),
        Event::RenewalFailed { .. } => ("renewal-failed", None),
        Event::Refused { .. } => ("refused", None),
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
