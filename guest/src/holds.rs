//! Checks wait while a delivery builds, and after half an hour one of them is let through.
//!
//! Keys and layouts are those that other readers and writers of the same buckets know: a key a plan
//! (`plan-<digits>`, value `{plan, since, seen}`), and the one key `let-through` with `{builder, since}`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::asked::{asked_ms, millis, wall};
use crate::imports::{Ask, Fault, Imports, Reading, Role, Wall, Write};
use crate::record::rfc3339;

/// The key of the one check let through, in the bucket of the checks that run.
pub const LET_THROUGH: &str = "let-through";

/// Plans named when checks are held. One is enough to decide.
const PLANS_NAMED: usize = 64;

/// Keys read at a time while looking for plans.
const PAGE: u32 = 256;

/// How long a check that was taken too early stays out of the queue, so that the older one behind it is
/// reached at the next look, nanoseconds.
const HAND_BACK_DELAY_NS: u64 = 5_000_000_000;

/// Whether checks may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No delivery builds.
    Free,
    /// Checks wait for these plans.
    Held(Vec<String>),
}

/// The check let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetThrough {
    /// The builder that runs it.
    pub builder: String,
    /// When it was taken, RFC 3339.
    pub since: String,
}

/// A check taken under the let-through key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The queue it came from.
    pub queue: String,
    /// The ask, towards the host.
    pub ticket: u64,
    /// When it was asked.
    pub asked: Wall,
    /// When the key was taken, RFC 3339.
    pub since: String,
    /// The revision of the key.
    pub revision: u64,
}

/// How keeping a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Kept, at this revision.
    Kept(u64),
    /// Somebody else's now, or gone.
    Lost,
}

/// A plan's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Building {
    /// Since when it builds, RFC 3339.
    pub since: String,
    /// The revision of its key.
    pub revision: u64,
}

/// Why checks wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The plans that build.
    pub plans: Vec<String>,
    /// The check let through.
    pub let_through: Option<LetThrough>,
}

#[derive(Serialize, Deserialize)]
struct PlanLayout {
    plan: String,
    since: String,
    seen: String,
}

/// Whether a delivery builds.
///
/// # Errors
/// The bucket cannot be read.
pub fn assess(io: &mut impl Imports) -> Result<Verdict, Fault> {
    let plans = plans(io)?;
    Ok(if plans.is_empty() { Verdict::Free } else { Verdict::Held(plans) })
}

/// Take the oldest check of these queues under the one let-through key, when it has waited long enough.
///
/// # Errors
/// The key or the queue cannot be used.
pub fn let_one_through(
    io: &mut impl Imports,
    queues: &[String],
    builder: &str,
    after_ns: u64,
    within_ns: u64,
) -> Result<Option<Admitted>, Fault> {
    let now = io.now().wall;
    let old_enough = |ask: &Ask| millis(now).saturating_sub(asked_ms(ask, now)) >= after_ns / 1_000_000;
    let Some((queue, oldest)) = oldest(io, queues, now) else { return Ok(None) };
    if !old_enough(&oldest) {
        return Ok(None);
    }
    let since = rfc3339(now);
    let value = json(&LetThrough { builder: builder.into(), since: since.clone() });
    let revision = match io.create(Role::Running, LET_THROUGH, &value) {
        Ok(Write::Written(revision)) => revision,
        Ok(Write::Stale(_)) => return Ok(None),
        // The answer was lost. A key that nobody runs under would hold up the next one until it ages out.
        Err(fault @ Fault::Unknown(_)) => match own(io, &value) {
            Some(revision) => revision,
            None => return Err(fault),
        },
        Err(fault) => return Err(fault),
    };

    match io.take(queue, within_ns) {
        // Somebody was faster between the look and the fetch, and what came is a younger check.
        Ok(Some(taken)) if !old_enough(&taken.ask) => {
            let handed = io.hand_back(taken.ticket, HAND_BACK_DELAY_NS);
            drop(io, revision)?;
            handed.map(|()| None)
        }
        Ok(Some(taken)) => Ok(Some(Admitted {
            queue: queue.clone(),
            ticket: taken.ticket,
            asked: wall(asked_ms(&taken.ask, now)),
            since,
            revision,
        })),
        Ok(None) => drop(io, revision).map(|()| None),
        Err(fault) => {
            drop(io, revision)?;
            Err(fault)
        }
    }
}

/// The revision of the let-through key where it has this value, which holds the builder and the instant of
/// taking, so nobody else wrote it.
fn own(io: &mut impl Imports, value: &[u8]) -> Option<u64> {
    match io.get(Role::Running, LET_THROUGH) {
        Ok(Reading::Found(entry)) if entry.value == value => Some(entry.revision),
        _ => None,
    }
}

/// The queue whose oldest ask waits longest. One that cannot be read is passed over; the host says so.
fn oldest<'a>(io: &mut impl Imports, queues: &'a [String], now: Wall) -> Option<(&'a String, Ask)> {
    let mut oldest: Option<(&String, Ask)> = None;
    for queue in queues {
        if let Ok(Some(ask)) = io.oldest_waiting(queue)
            && oldest.as_ref().is_none_or(|(_, other)| asked_ms(&ask, now) < asked_ms(other, now))
        {
            oldest = Some((queue, ask));
        }
    }
    oldest
}

/// Keep the let-through key.
///
/// # Errors
/// It could not be kept for now; it is not lost yet.
pub fn keep(io: &mut impl Imports, builder: &str, since: &str, revision: u64) -> Result<Kept, Fault> {
    let value = json(&LetThrough { builder: builder.into(), since: since.into() });
    if let Write::Written(revision) = io.update(Role::Running, LET_THROUGH, &value, revision)? {
        return Ok(Kept::Kept(revision));
    }
    // It moved: by an earlier keeping whose answer was lost, or by somebody else.
    match own(io, &value).filter(|newer| *newer > revision) {
        Some(newer) => io.update(Role::Running, LET_THROUGH, &value, newer).map(kept),
        None => Ok(Kept::Lost),
    }
}

/// Drop the let-through key; one that moved is left alone.
///
/// # Errors
/// It could not be dropped and ages out.
pub fn drop(io: &mut impl Imports, revision: u64) -> Result<(), Fault> {
    io.delete(Role::Running, LET_THROUGH, revision).map(|_| ())
}

/// Why checks wait.
///
/// # Errors
/// A bucket cannot be read.
pub fn status(io: &mut impl Imports) -> Result<Report, Fault> {
    let plans = plans(io)?;
    let let_through = match io.get(Role::Running, LET_THROUGH)? {
        Reading::Found(entry) => serde_json::from_slice(&entry.value).ok(),
        Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => None,
    };
    Ok(Report { plans, let_through })
}

/// A plan's build phase begins, or goes on under a new controller, which keeps the time it began.
///
/// # Errors
/// The name is no plan id, or the bucket cannot be written.
pub fn begin(io: &mut impl Imports, plan: &str) -> Result<Building, Fault> {
    if !is_plan(plan) {
        return Err(Fault::Denied(format!("{plan:?} is no plan id; one looks like plan-1652")));
    }
    let now = rfc3339(io.now().wall);
    let (since, write) = match io.get(Role::Plans, plan)? {
        Reading::Found(entry) => {
            let known = serde_json::from_slice::<PlanLayout>(&entry.value).map(|layout| layout.since);
            let since = known.unwrap_or(now.clone());
            let value = plan_value(plan, &since, &now);
            (since, io.update(Role::Plans, plan, &value, entry.revision)?)
        }
        Reading::Deleted(_) | Reading::Aged(_) | Reading::Absent | Reading::Erased(_) => {
            let value = plan_value(plan, &now, &now);
            (now, io.create(Role::Plans, plan, &value)?)
        }
    };
    match write {
        Write::Written(revision) => Ok(Building { since, revision }),
        Write::Stale(_) => {
            Err(Fault::Unavailable(format!("another controller writes {plan} at the same time")))
        }
    }
}

/// A plan still builds. A key that aged out is put again, since it began when it did; one that was ended, or
/// that somebody else wrote, is left alone.
///
/// # Errors
/// It could not be said for now.
pub fn seen(io: &mut impl Imports, plan: &str, known: &Building) -> Result<Kept, Fault> {
    let value = plan_value(plan, &known.since, &rfc3339(io.now().wall));
    if let Write::Written(revision) = io.update(Role::Plans, plan, &value, known.revision)? {
        return Ok(Kept::Kept(revision));
    }
    match io.get(Role::Plans, plan)? {
        Reading::Aged(_) | Reading::Absent => io.create(Role::Plans, plan, &value).map(kept),
        Reading::Found(_) | Reading::Deleted(_) | Reading::Erased(_) => Ok(Kept::Lost),
    }
}

/// A plan's build phase ended; a key that moved is left alone.
///
/// # Errors
/// It could not be said, and the key ages out.
pub fn end(io: &mut impl Imports, plan: &str, revision: u64) -> Result<(), Fault> {
    io.delete(Role::Plans, plan, revision).map(|_| ())
}

fn plans(io: &mut impl Imports) -> Result<Vec<String>, Fault> {
    let mut plans = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let keys = io.keys(Role::Plans, after.as_deref(), PAGE)?;
        let last = keys.last().cloned();
        plans.extend(keys.into_iter().filter(|key| is_plan(key)));
        plans.truncate(PLANS_NAMED);
        // A page that does not end after the last one would go round for ever.
        if last.is_none() || last <= after || plans.len() == PLANS_NAMED {
            return Ok(plans);
        }
        after = last;
    }
}

fn is_plan(key: &str) -> bool {
    key.strip_prefix("plan-").is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

fn plan_value(plan: &str, since: &str, seen: &str) -> Vec<u8> {
    json(&PlanLayout { plan: plan.into(), since: since.into(), seen: seen.into() })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings only: there is nothing in it that could fail to be written.
    serde_json::to_vec(value).unwrap_or_default()
}

fn kept(write: Write) -> Kept {
    match write {
        Write::Written(revision) => Kept::Kept(revision),
        Write::Stale(_) => Kept::Lost,
    }
}
