//! The record of a lease: JSON that an older controller reads and writes too.
//!
//! Fields in this order: `instance, host, build, epoch, taken, renewed, nonce`; times RFC 3339 with
//! nanoseconds; empty fields are left out, but for the two times. `nonce` is one field more than the
//! older layout has. `step_down` is written by whoever asks the holder to give way, never by the holder. Unknown
//! fields are ignored, and kept when a record is marked.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::imports::{Entry, Wall};
use crate::lease::{Holder, Identity};

/// A record over this size is no holder, bytes. Ours have some 300.
const RECORD_BYTES: usize = 8 << 10;

#[derive(Serialize, Deserialize)]
struct Layout<'a> {
    instance: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    host: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    build: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u64,
    #[serde(default)]
    taken: Cow<'a, str>,
    #[serde(default)]
    renewed: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    nonce: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    step_down: Cow<'a, str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The holder that an entry names.
///
/// # Errors
/// The entry is no holder, which is not the same as nobody; the text says why.
pub fn read(entry: &Entry) -> Result<Holder, String> {
    read_marked(entry).map(|(holder, _)| holder)
}

/// The holder that an entry names, and who asked it to give way; empty when nobody did.
///
/// # Errors
/// As [`read`].
pub fn read_marked(entry: &Entry) -> Result<(Holder, String), String> {
    let size = entry.value.len();
    if size > RECORD_BYTES {
        return Err(format!("it has {size} bytes, a holder has at most {RECORD_BYTES}"));
    }
    // A list of the fields' values would be read as well.
    if !entry.value.trim_ascii_start().starts_with(b"{") {
        return Err("it is no JSON object".into());
    }
    let layout: Layout<'_> = serde_json::from_slice(&entry.value).map_err(|why| format!("{why}"))?;
    if layout.instance.is_empty() {
        return Err("its instance is empty".into());
    }
    let holder = Holder {
        instance: layout.instance.into_owned(),
        host: layout.host.into_owned(),
        build: layout.build.into_owned(),
        // Taken and never renewed: the epoch is the revision, which no writer knows beforehand.
        epoch: if layout.epoch == 0 { entry.revision } else { layout.epoch },
        taken: layout.taken.into_owned(),
        renewed: layout.renewed.into_owned(),
        nonce: layout.nonce.into_owned(),
        revision: entry.revision,
    };
    Ok((holder, layout.step_down.into_owned()))
}

/// The bytes of a record that was read, with the mark that `by` asks its holder to give way. All else stays,
/// and the epoch is written down: marked, a record's revision is no longer that at which it was taken.
///
/// # Errors
/// The entry is no JSON object.
pub fn mark(entry: &Entry, epoch: u64, by: &str) -> Result<Vec<u8>, String> {
    let mut record: Map<String, Value> =
        serde_json::from_slice(&entry.value).map_err(|why| format!("{why}"))?;
    record.insert("epoch".into(), epoch.into());
    record.insert("step_down".into(), by.into());
    serde_json::to_vec(&record).map_err(|why| format!("{why}"))
}

/// The bytes of a record; `epoch` zero is "not known yet".
#[must_use]
pub fn write(who: &Identity, epoch: u64, taken: &str, renewed: &str) -> Vec<u8> {
    let layout = Layout {
        instance: who.instance.as_str().into(),
        host: who.host.as_str().into(),
        build: who.build.as_str().into(),
        epoch,
        taken: taken.into(),
        renewed: renewed.into(),
        nonce: who.nonce.as_str().into(),
        step_down: "".into(),
    };
    // Strings and a number: there is nothing in it that could fail to be written.
    serde_json::to_vec(&layout).unwrap_or_default()
}

/// The time of day as RFC 3339 in UTC, trailing zeros of the fraction left out, as the older layout does.
/// A time of day outside the years 0 to 9999 becomes the zero time `0001-01-01T00:00:00Z`.
#[must_use]
pub fn rfc3339(wall: Wall) -> String {
    i32::try_from(wall.nanoseconds)
        .ok()
        .and_then(|nanoseconds| Timestamp::new(wall.seconds, nanoseconds).ok())
        .map(|at| at.to_string())
        .filter(|text| !text.starts_with('-'))
        .unwrap_or_else(|| "0001-01-01T00:00:00Z".into())
}
