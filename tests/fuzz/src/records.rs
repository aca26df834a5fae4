//! Records of leases: what another program wrote under the key.

use incumbent_policy::imports::{Entry, Write};
use incumbent_policy::lease::Vacancy;
use incumbent_policy::lease::{
    self, Attempt, Certainty, Holder, Identity, Loss, Renewal, Tenure, Terms, Trouble,
};
use incumbent_policy::record;
use serde_json::{Map, Value};

use crate::answers::Answers;
use crate::{must_refuse, rails};

/// The revision that the bytes stand at.
const REVISION: u64 = 60;

/// A record over this size is no holder.
const RECORD_BYTES: usize = 8 << 10;

/// What is read is what was written; what is no holder is never read as one.
pub(crate) fn record(input: &[u8]) {
    let entry = Entry { revision: REVISION, value: input.to_vec() };
    let Ok((holder, by)) = record::read_marked(&entry) else {
        assert!(record::read(&entry).is_err(), "the two readers disagree");
        return;
    };
    assert_eq!(record::read(&entry).as_ref(), Ok(&holder), "the two readers disagree");
    must_refuse!(input.len() <= RECORD_BYTES, "a record of {} bytes", input.len());
    must_refuse!(input.trim_ascii_start().starts_with(b"{"), "a holder that is no JSON object");
    // Fields that nobody asks for are passed over, and need not be right.
    let Some(object) = object(input) else { return };
    let says = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    must_refuse!(!holder.instance.is_empty() && says("instance") == holder.instance, "no instance");
    must_refuse!(says("nonce") == holder.nonce, "a nonce that is not there");
    assert_eq!(by, says("step_down"));
    assert_eq!(holder.revision, REVISION);
    let epoch = object.get("epoch").map_or(0, |epoch| epoch.as_u64().unwrap_or(u64::MAX));
    must_refuse!(holder.epoch == if epoch == 0 { REVISION } else { epoch }, "an epoch that it does not say");

    marked(&entry, &holder);
    written(&holder);
}

/// A marked record names the same holder and who asked, and the guard rails know it for the same.
fn marked(entry: &Entry, holder: &Holder) {
    let value = record::mark(entry, holder.epoch, "ops").expect("a holder can be marked");
    let marked = Entry { revision: REVISION + 1, value };
    if marked.value.len() <= RECORD_BYTES {
        let expected = Holder { revision: REVISION + 1, ..holder.clone() };
        assert_eq!(record::read_marked(&marked), Ok((expected, "ops".to_owned())), "the mark changed more");
    }
    // Numbers that are no integers are written otherwise than they were read; no record of ours has any.
    if !has_fraction(&object(&entry.value).unwrap_or_default()) {
        assert!(
            rails::is_marked(&marked.value, &entry.value, Some(REVISION)),
            "the rails do not know the mark"
        );
    }
    must_refuse!(
        !rails::is_marked(&entry.value, &marked.value, Some(REVISION + 1))
            || record::read_marked(entry).is_ok_and(|(_, by)| !by.is_empty()),
        "an unmarked record counts as marked"
    );
}

fn has_fraction(object: &Map<String, Value>) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Number(number) => number.is_f64(),
            Value::Array(list) => list.iter().any(within),
            Value::Object(object) => object.values().any(within),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }
    object.values().any(within)
}

/// What we write reads back as it was.
fn written(holder: &Holder) {
    let who = Identity {
        lease: "controller".into(),
        instance: holder.instance.clone(),
        host: holder.host.clone(),
        build: holder.build.clone(),
        nonce: holder.nonce.clone(),
    };
    let value = record::write(&who, holder.epoch, &holder.taken, &holder.renewed);
    if value.len() <= RECORD_BYTES {
        let entry = Entry { revision: REVISION, value };
        assert_eq!(record::read_marked(&entry), Ok((holder.clone(), String::new())), "not what was written");
    }
}

fn object(input: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(input).ok()
}

/// Alice meets these bytes, as a candidate and as the holder of epoch 41: whatever they are, they are not nobody, and
/// nothing is written over them unless they are a record of her own.
pub(crate) fn holder(input: &[u8]) {
    let who = Identity {
        lease: "controller".into(),
        instance: "alice".into(),
        host: String::new(),
        build: String::new(),
        nonce: "n1".into(),
    };
    let second = 1_000_000_000;
    let terms =
        Terms { ttl_ns: 15 * second, renew_every_ns: 5 * second, margin_ns: 3 * second, poll_ns: second };
    let entry = Entry { revision: REVISION, value: input.to_vec() };
    let read = record::read(&entry);
    let own = match object(input) {
        Some(object) => {
            ["instance", "nonce"].map(|field| object.get(field).and_then(Value::as_str))
                == [Some("alice"), Some("n1")]
        }
        None => read.as_ref().is_ok_and(|holder| who.owns(holder)),
    };

    let mut io = Answers::new(entry.clone(), Write::Written(REVISION + 1));
    let took = lease::take(&mut io, &terms, &who, Vacancy::Trusted, None);
    if !own {
        must_refuse!(!matches!(took, Ok(Attempt::Taken(_))), "somebody else's lease was taken");
        must_refuse!(
            io.expected.is_empty() && io.created == 0,
            "a candidate wrote over somebody else's record"
        );
    }
    match &read {
        Err(_) => must_refuse!(matches!(took, Err(Trouble::NotAHolder(_))), "no holder, and yet {took:?}"),
        Ok(holder) if !own => assert!(
            matches!(&took, Ok(Attempt::Waiting(waiting)) if waiting.holder.as_ref() == Some(holder)),
            "{took:?}"
        ),
        Ok(_) => {}
    }

    let mut io = Answers::new(entry.clone(), Write::Written(REVISION + 1));
    match (lease::current(&mut io, "controller"), read) {
        (Ok(Some(said)), Ok(holder)) => assert_eq!(said, holder),
        (Err(Trouble::NotAHolder(_)), Err(_)) => {}
        (said, _) => must_refuse!(false, "a record is there, and {said:?} is said of it"),
    }

    for certainty in [Certainty::Unsure, Certainty::Doubted(99 * second)] {
        let mut io = Answers::new(entry.clone(), Write::Written(REVISION + 1));
        let tenure = Tenure {
            epoch: 41,
            revision: REVISION - 3,
            created: 7,
            taken: String::new(),
            until_ns: 107 * second,
            certainty,
        };
        let renewal = lease::renew(&mut io, &terms, &who, tenure);
        if !own {
            let lost = matches!(renewal, Renewal::Lost(Loss::Superseded(_) | Loss::Overwritten(_)));
            must_refuse!(lost && io.expected.is_empty(), "kept over somebody else's record: {renewal:?}");
        }
    }
}
