//! A path in words.

use crate::calls::Ask;
use crate::check::passes;
use crate::state::{Answer, Object, Phase, Rev, State, Value, Write};
use crate::step::{Step, Stepper};

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// A step, with the true time before it.
pub(crate) fn step(stepper: &mut Stepper<'_>, was: &State, next: &State, step: Step) -> String {
    let what = match step {
        Step::Tick => "a tick passes".into(),
        Step::Gains(i) => format!("a tick passes, and {}'s clock gains one", NAMES[i]),
        Step::Loses(i) => format!("a tick passes, and {}'s clock loses one", NAMES[i]),
        Step::StoreSteps => "the store's clock steps ahead".into(),
        Step::Expires(true) => "the record ages out, and leaves a marker".into(),
        Step::Expires(false) => "the record ages out, and leaves nothing".into(),
        Step::Wiped => "the bucket is raised again from nothing".into(),
        Step::Forgotten(true) => "the store forgets the last renewal".into(),
        Step::Forgotten(false) => "the store forgets the last create".into(),
        Step::Marked => "an operator marks the record".into(),
        Step::Lands(from, write, answer) => {
            format!("late, {}'s {}: {}", object(from), writes(write), says(answer))
        }
        Step::Begins(i) => format!("{} calls {}", NAMES[i], called(stepper, was, next, i)),
        Step::Serves(i, answer) => format!("{}'s {}: {}", NAMES[i], asks(stepper, was, i), says(answer)),
        Step::ServesStale(i, answer) => {
            format!("{}'s {} is stale: {}", NAMES[i], asks(stepper, was, i), says(answer))
        }
        Step::ServesTwice(i, answer) => {
            format!("{}'s {}: {}; it is on its way once more", NAMES[i], asks(stepper, was, i), says(answer))
        }
        Step::Hears(i, answer) => format!("{} hears: {}", NAMES[i], says(answer)),
        Step::AnswerLost(i, answer) => format!("{} hears instead: {}", NAMES[i], says(answer)),
        Step::Delayed(i) => format!("{}'s {} is on its way, unanswered", NAMES[i], asks(stepper, was, i)),
        Step::Refused(i, answer) => {
            format!("{}'s {} is refused: {}", NAMES[i], asks(stepper, was, i), says(answer))
        }
        Step::CutOff(i) => format!("{}'s call is cut off", NAMES[i]),
        Step::Raises(i) => format!("{} raises the floor", NAMES[i]),
        Step::Opens(i) => format!("{} asks for the gate", NAMES[i]),
        Step::Overdue(i) => format!("{} finds its time over", NAMES[i]),
        Step::Dies(i) => format!("{} dies", NAMES[i]),
        Step::StandsAnew(i) => format!("{} stands anew", NAMES[i]),
    };
    let mut line = format!("{:>2}  {what}", was.now - crate::state::BEGIN);
    for i in 0..was.instances.len() {
        line += &became(was, next, i);
    }
    if matches!(was.store.record.value, Value::Live(..))
        && !matches!(next.store.record.value, Value::Live(..))
    {
        line += "; the record is gone";
    }
    line
}

/// What changed for an instance.
fn became(was: &State, next: &State, i: usize) -> String {
    let (one, then) = (&was.instances[i], &next.instances[i]);
    let mut text = String::new();
    if then.phase != one.phase {
        let phase = match then.phase {
            Phase::Candidate => "is a candidate",
            Phase::Taken => "has taken it",
            Phase::Held if one.phase != Phase::Renewing => "holds it",
            Phase::Asked => "is asked to give way",
            Phase::Over => "is over",
            _ => "",
        };
        if !phase.is_empty() {
            text += &format!("; {} {phase}", NAMES[i]);
        }
    }
    if passes(next, i) && (then.gate != one.gate || !passes(was, i)) {
        let open = i16::from(then.gate) - i16::from(then.ahead) - i16::from(crate::state::BEGIN);
        text += &format!(
            "; {}'s gate is open at epoch {}, before {open} by the true time",
            NAMES[i],
            revision(then.tenure.epoch)
        );
    } else if passes(was, i) && !passes(next, i) {
        text += &format!("; {}'s gate is shut", NAMES[i]);
    }
    text
}

fn called(stepper: &mut Stepper<'_>, was: &State, next: &State, i: usize) -> String {
    match next.instances[i].phase {
        Phase::Taking => "take".into(),
        Phase::Renewing => "renew".into(),
        Phase::Returning | Phase::Releasing => "release".into(),
        _ => {
            let call = was.instances[i].call;
            if call == 0 { "and is answered".into() } else { format!("{:?}", stepper.calls.next(call)) }
        }
    }
}

fn asks(stepper: &mut Stepper<'_>, state: &State, i: usize) -> String {
    match stepper.calls.next(state.instances[i].call) {
        Err(Ask::Get) => "read".into(),
        Err(Ask::Info) => "look at the bucket".into(),
        Err(Ask::Keys) => "list of keys".into(),
        Err(Ask::Last) => "look at the last revision".into(),
        Err(Ask::Floor) => "look at the floor".into(),
        Err(Ask::Write(write)) => writes(write),
        Ok(_) => "nothing".into(),
    }
}

fn writes(write: Write) -> String {
    match write {
        Write::Create(..) => "create".into(),
        Write::Update(_, expected) => format!("update at {}", revision(expected)),
        Write::Delete(expected, _) => format!("delete at {}", revision(expected)),
        Write::Purge(below) => format!("purge below {}", revision(below)),
    }
}

fn says(answer: Answer) -> String {
    match answer {
        Answer::Now(tick) => format!("it is {tick}"),
        Answer::Floor(floor) => format!("the floor is {}", revision(floor)),
        Answer::Info(created) => format!("bucket {created}"),
        Answer::Found(at, _) => format!("found at {}", revision(at)),
        Answer::Deleted(at) => format!("deleted at {}", revision(at)),
        Answer::Aged(at) => format!("aged, {}", revision(at)),
        Answer::Absent => "absent".into(),
        Answer::Erased(at) => format!("erased at {}", revision(at)),
        Answer::Written(at) => format!("written at {}", revision(at)),
        Answer::Stale => "lost the race".into(),
        Answer::NoKeys => "no other keys".into(),
        Answer::Last(last) => format!("last revision {}", revision(last)),
        Answer::Purged => "purged".into(),
        Answer::Unavailable => "unavailable".into(),
        Answer::Denied => "denied".into(),
        Answer::Unknown => "no answer".into(),
    }
}

fn object(object: Object) -> &'static str {
    NAMES[object.instance()]
}

/// A revision: `1` or, past the first stride, `2³²·1+1`.
fn revision(revision: Rev) -> String {
    let (moved, rest) = (revision.number() >> 32, revision.number() & 0xffff_ffff);
    if moved == 0 { rest.to_string() } else { format!("2³²·{moved}+{rest}") }
}
