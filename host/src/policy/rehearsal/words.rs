//! The types of a decision, read from a command and told in words.
//!
//! The policy's own types and the contract's are different types of one shape. This file is compiled twice, over
//! the types of `tests/quick` and over `component::types`, so that a difference between two transcripts is a difference
//! between two decisions. In an outcome, what stands in quotes is free text for people, and ends its line.

use super::parse::{Args, number, time, time_text};
use super::types::{
    Admitted, Attempt, Building, Certainty, Closed, HeldLease, Holder, Identity, Kept, Loss, Open,
    PolicyFault, ReleaseOutcome, Renewal, Report, Request, Sighting, Standing, Tenure, Terms, Trouble,
    Vacancy, Verdict,
};

/// When what is under way in a table of holds began, unless the table says otherwise.
pub(super) const SINCE: &str = "2027-01-15T08:00:00Z";

pub(super) fn terms(args: &mut Args) -> Result<Terms, String> {
    Ok(Terms {
        ttl_ns: args.time("ttl", "15s")?,
        renew_every_ns: args.time("every", "5s")?,
        margin_ns: args.time("margin", "3s")?,
        poll_ns: args.time("poll", "1s")?,
    })
}

pub(super) fn identity(args: &mut Args) -> Identity {
    Identity {
        lease: args.text("lease", "controller"),
        instance: args.text("instance", "alice"),
        host: args.text("host", ""),
        build: args.text("build", ""),
        nonce: args.text("nonce", "n1"),
    }
}

pub(super) fn vacancy(args: &mut Args) -> Result<Vacancy, String> {
    match args.text("rule", "trusted").as_str() {
        "trusted" => Ok(Vacancy::Trusted),
        "watched" => Ok(Vacancy::Watched),
        "delayed" => Ok(Vacancy::Delayed),
        rule => Err(format!("{rule:?} is no vacancy rule")),
    }
}

pub(super) fn sighting(args: &mut Args) -> Result<Option<Sighting>, String> {
    let Some(text) = args.value("seen") else { return Ok(None) };
    let mut args = Args::of(&text)?;
    let revision = args.value("revision").map(|text| number(&text)).transpose()?;
    let created = args.number("created", 7)?;
    let since_ns = args.time("since", "100s")?;
    let last_ns = args.time("last", &time_text(since_ns))?;
    args.end()?;
    Ok(Some(Sighting { created, revision, since_ns, last_ns }))
}

pub(super) fn tenure(args: &mut Args) -> Result<Tenure, String> {
    let certainty = match args.value("doubted") {
        Some(since) => Certainty::Doubted(time(&since)?),
        None if args.says("unsure") => Certainty::Unsure,
        None => Certainty::Sure,
    };
    Ok(Tenure {
        epoch: args.number("epoch", 41)?,
        revision: args.number("revision", 57)?,
        created: args.number("created", 7)?,
        taken: args.text("taken", "2027-01-15T08:00:00Z"),
        until_ns: args.time("until", "107s")?,
        certainty,
    })
}

pub(super) fn standing(args: &mut Args) -> Result<Standing, String> {
    match args.word().as_deref() {
        Some("candidate") => Ok(Standing::Candidate),
        Some("held") => Ok(Standing::Held(tenure(args)?)),
        Some("released") => Ok(Standing::Released),
        Some("lost") => Ok(Standing::Lost),
        other => Err(format!("{other:?} is no standing")),
    }
}

/// How many rows a list asks for.
pub(super) fn most(args: &mut Args) -> Result<u32, String> {
    u32::try_from(args.number("most", 100)?).map_err(|why| why.to_string())
}

/// The queues of a command, with commas between.
pub(super) fn queues(args: &mut Args) -> Vec<String> {
    let text = args.text("queues", "checks");
    text.split(',').filter(|queue| !queue.is_empty()).map(String::from).collect()
}

pub(super) fn checked(answer: &Result<(), String>) -> String {
    match answer {
        Ok(()) => "fits".into(),
        Err(why) => format!("does not fit: {why:?}"),
    }
}

pub(super) fn attempt(answer: &Result<Attempt, Trouble>) -> String {
    match answer {
        Ok(Attempt::Taken(tenure)) => format!("taken: {}", tenure_text(tenure)),
        Ok(Attempt::Waiting(waiting)) => {
            let holder = waiting.holder.as_ref().map_or("nobody".into(), holder_text);
            let Sighting { created, revision, since_ns, last_ns } = waiting.sighting;
            let revision = revision.map_or(String::new(), |at| format!(" revision={at}"));
            let again = waiting.again_at_ns.map_or("at the poll".into(), time_text);
            format!(
                "waiting for: {holder}\nseen: created={created}{revision} since={} last={}\nagain: {again}",
                time_text(since_ns),
                time_text(last_ns)
            )
        }
        Err(trouble) => trouble_text(trouble),
    }
}

pub(super) fn renewal(answer: &Renewal) -> String {
    match answer {
        Renewal::Kept(tenure) => format!("kept: {}", tenure_text(tenure)),
        Renewal::Failed(set) => format!("failed: {:?}\n{}", set.why, tenure_text(&set.tenure)),
        Renewal::Refused(set) => format!("refused: {:?}\n{}", set.why, tenure_text(&set.tenure)),
        Renewal::Asked(set) => format!("asked by: {}\n{}", set.why, tenure_text(&set.tenure)),
        Renewal::Lost(Loss::Overdue) => "lost: overdue".into(),
        Renewal::Lost(Loss::Superseded(holder)) => format!("lost to: {}", holder_text(holder)),
        Renewal::Lost(Loss::Overwritten(what)) => format!("lost, overwritten: {what:?}"),
        Renewal::Lost(Loss::Gone) => "lost: gone".into(),
        Renewal::Lost(Loss::RaisedAgain) => "lost: the bucket was raised again".into(),
    }
}

pub(super) fn release(answer: &ReleaseOutcome) -> String {
    match answer {
        ReleaseOutcome::GivenBack => "given back".into(),
        ReleaseOutcome::NotOurs => "not ours".into(),
        ReleaseOutcome::Left(fault) => format!("left to expire: {}", fault_text(fault)),
    }
}

pub(super) fn request(answer: &Result<Request, Trouble>) -> String {
    match answer {
        Ok(Request::Asked(holder)) => format!("asked: {}", holder_text(holder)),
        Ok(Request::AskedBefore(holder)) => format!("asked before: {}", holder_text(holder)),
        Ok(Request::Nobody) => "nobody".into(),
        Err(trouble) => trouble_text(trouble),
    }
}

pub(super) fn current(answer: &Result<Option<Holder>, Trouble>) -> String {
    match answer {
        Ok(Some(holder)) => format!("held by: {}", holder_text(holder)),
        Ok(None) => "nobody".into(),
        Err(trouble) => trouble_text(trouble),
    }
}

pub(super) fn list(answer: &Result<Vec<HeldLease>, Trouble>) -> String {
    let row = |held: &HeldLease| match &held.holder {
        Ok(holder) => format!("{}: {}", held.name, holder_text(holder)),
        Err(what) => format!("{}: {what:?}", held.name),
    };
    match answer {
        Ok(leases) if leases.is_empty() => "none".into(),
        Ok(leases) => leases.iter().map(row).collect::<Vec<_>>().join("\n"),
        Err(trouble) => trouble_text(trouble),
    }
}

pub(super) fn pass(answer: &Result<Open, Closed>) -> String {
    match answer {
        Ok(open) => format!("open: epoch={} until={}", open.epoch, time_text(open.until_ns)),
        Err(Closed::NotHeld) => "shut: not held".into(),
        Err(Closed::Doubted) => "shut: doubted".into(),
        Err(Closed::Overdue) => "shut: overdue".into(),
        Err(Closed::Released) => "shut: released".into(),
        Err(Closed::Lost) => "shut: lost".into(),
    }
}

pub(super) fn admit(answer: Result<u64, u64>) -> String {
    match answer {
        Ok(highest) => format!("admitted: heard={highest}"),
        Err(heard) => format!("refused: heard={heard}"),
    }
}

pub(super) fn assess(answer: &Result<Verdict, PolicyFault>) -> String {
    match answer {
        Ok(Verdict::Free) => "free".into(),
        Ok(Verdict::Held(plans)) => format!("held: {}", plans.join(" ")),
        Err(fault) => fault_text(fault),
    }
}

pub(super) fn admitted(answer: &Result<Option<Admitted>, PolicyFault>) -> String {
    match answer {
        Ok(Some(one)) => format!(
            "let through: queue={} ticket={} asked={}.{:09} since={} revision={}",
            one.queue, one.ticket, one.asked.seconds, one.asked.nanoseconds, one.since, one.revision
        ),
        Ok(None) => "none".into(),
        Err(fault) => fault_text(fault),
    }
}

pub(super) fn kept(answer: &Result<Kept, PolicyFault>) -> String {
    match answer {
        Ok(Kept::Kept(revision)) => format!("kept: revision={revision}"),
        Ok(Kept::Lost) => "lost".into(),
        Err(fault) => fault_text(fault),
    }
}

pub(super) fn building(answer: &Result<Building, PolicyFault>) -> String {
    match answer {
        Ok(plan) => format!("builds: since={} revision={}", plan.since, plan.revision),
        Err(fault) => fault_text(fault),
    }
}

pub(super) fn report(answer: &Result<Report, PolicyFault>) -> String {
    match answer {
        Ok(report) => {
            let plans = if report.plans.is_empty() { "none".into() } else { report.plans.join(" ") };
            let check = report
                .let_through
                .as_ref()
                .map_or("none".into(), |check| format!("builder={} since={}", check.builder, check.since));
            format!("plans: {plans}\nlet through: {check}")
        }
        Err(fault) => fault_text(fault),
    }
}

pub(super) fn done(answer: &Result<(), PolicyFault>) -> String {
    answer.as_ref().map_or_else(fault_text, |()| "done".into())
}

fn tenure_text(tenure: &Tenure) -> String {
    let certainty = match tenure.certainty {
        Certainty::Sure => "sure".into(),
        Certainty::Unsure => "unsure".into(),
        Certainty::Doubted(since) => format!("doubted={}", time_text(since)),
    };
    format!(
        "epoch={} revision={} created={} taken={} until={} {certainty}",
        tenure.epoch,
        tenure.revision,
        tenure.created,
        tenure.taken,
        time_text(tenure.until_ns)
    )
}

fn holder_text(holder: &Holder) -> String {
    let texts = [
        ("host", &holder.host),
        ("build", &holder.build),
        ("taken", &holder.taken),
        ("renewed", &holder.renewed),
        ("nonce", &holder.nonce),
    ];
    let said = texts.iter().filter(|(_, text)| !text.is_empty());
    let rest: String = said.map(|(name, text)| format!(" {name}={text}")).collect();
    format!("{} epoch={} revision={}{rest}", holder.instance, holder.epoch, holder.revision)
}

fn trouble_text(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Misfit(why) => format!("misfit: {why:?}"),
        Trouble::Unreadable(fault) => format!("unreadable: {}", fault_text(fault)),
        Trouble::NotAHolder(why) => format!("not a holder: {why:?}"),
        Trouble::Unwritable(fault) => format!("unwritable: {}", fault_text(fault)),
        Trouble::Unsure(fault) => format!("unsure: {}", fault_text(fault)),
        Trouble::FloorUnreadable(fault) => format!("floor unreadable: {}", fault_text(fault)),
        Trouble::FloorTooHigh(floor) => format!("floor too high: {floor}"),
        Trouble::FloorBlocked(keys) => format!("floor blocked by: {}", keys.join(" ")),
        Trouble::FloorUnmoved(fault) => format!("floor not moved: {}", fault_text(fault)),
    }
}

fn fault_text(fault: &PolicyFault) -> String {
    match fault {
        PolicyFault::Denied(text) => format!("denied {text:?}"),
        PolicyFault::MissingBucket(text) => format!("missing-bucket {text:?}"),
        PolicyFault::TooLarge(text) => format!("too-large {text:?}"),
        PolicyFault::Unavailable(text) => format!("unavailable {text:?}"),
        PolicyFault::Unknown(text) => format!("unknown {text:?}"),
    }
}
