//! The contract is not for one language: a policy in C, without a line of the built-in one, passes the rehearsal and
//! keeps a lease. `guests/c/build.sh` made the component, which is committed so that no C compiler is needed here.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use incumbent::clock::{Clock, Steady};
use incumbent::imports::{Ask, Imports, Role};
use incumbent::limits::{CHECK_QUEUES, REHEARSAL};
use incumbent::policy::BUILT_IN;
use incumbent::policy::rehearsal::{Report, Scene, TABLES, rehearse};
use incumbent::store::{Entry, Fault, Reading, Write};
use incumbent::{Policy, Runtime};
use incumbent_tests::world::{RENEW, World};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use wasmparser::{Parser, Payload};

const IN_C: &[u8] = include_bytes!("guests/c/policy.wasm");

/// Paths as `sha256sum` was given them in `guests/c`, and digests.
const SOURCES: &str = include_str!("guests/c/policy.wasm.sources");

/// When this fails: run `tests/guests/c/build.sh`, which says what it needs, and commit what it makes.
#[test]
fn it_was_built_from_the_sources_that_are_here() -> Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/c");
    let mut files: BTreeSet<PathBuf> = ["build.sh", "policy.wasm"].map(PathBuf::from).into();
    for (directory, ends) in [(".", [".c", ".h"]), ("libc", [".h"; 2]), ("../../../wit", [".wit"; 2])] {
        for entry in fs::read_dir(home.join(directory))? {
            let name = entry?.file_name().into_string().ok().context("a plain name")?;
            if ends.iter().any(|end| name.ends_with(end)) {
                files.insert(Path::new(directory).join(name));
            }
        }
    }
    let mut here = Vec::new();
    for file in files {
        let mut line = String::new();
        for byte in Sha256::digest(fs::read(home.join(&file))?) {
            write!(line, "{byte:02x}")?;
        }
        here.push(format!("{line}  {}", file.display()));
    }
    let mut known: Vec<_> = SOURCES.lines().map(str::to_owned).collect();
    here.sort();
    known.sort();
    assert_eq!(here, known, "policy.wasm is not of these sources");
    Ok(())
}

#[test]
fn it_imports_the_world_and_nothing_else() -> Result<()> {
    let imports = imports(IN_C)?;
    assert!(imports.iter().all(|name| name.starts_with("incumbent:policy/")), "{imports:?}");
    assert_eq!(imports, self::imports(BUILT_IN)?);
    Ok(())
}

#[tokio::test]
async fn it_says_who_it_is() -> Result<()> {
    let policy = load().await?;
    let about = policy.version();
    let about = about.about();
    assert_eq!(about.name, "incumbent-in-c");
    let needs: BTreeSet<_> =
        about.needs.iter().map(|need| format!("incumbent:policy/{need}@0.1.0")).collect();
    assert_eq!(needs, imports(IN_C)?);
    Ok(())
}

#[tokio::test]
async fn it_plays_every_scene() -> Result<()> {
    let scenes = TABLES.iter().map(|(_, text)| Scene::of_table(text).len()).sum();
    assert_eq!(rehearse(&load().await?, REHEARSAL).await, Ok(Report { scenes }));
    Ok(())
}

/// The built-in policy reads its record, and so the other way round: alice and bob may be of different builds.
#[tokio::test(start_paused = true)]
async fn it_keeps_a_lease_beside_the_built_in_policy() -> Result<()> {
    let mut world = World::new().await;
    let bob = world.stand("bob").await;
    world.policy = load().await?;
    let alice = world.stand("alice").await;

    let epoch = alice.lease.try_take().await?;
    world.pass(4 * RENEW).await;
    assert!(alice.lease.held(), "renewals keep it");
    let holder = world.holder().await.context("alice holds it")?;
    assert_eq!((holder.instance.as_str(), holder.epoch), ("alice", epoch));
    assert!(holder.revision > epoch, "it was renewed");
    assert!(bob.lease.try_take().await.is_err(), "bob waits");

    alice.lease.release().await;
    assert_eq!(world.holder().await, None);
    let next = bob.lease.try_take().await?;
    assert!(next > epoch);
    assert!(alice.lease.try_take().await.is_err());
    Ok(())
}

/// What the tables do not try: both policies read the same bytes for the same, and write the same.
#[tokio::test]
async fn it_reads_and_writes_json_as_the_built_in_policy_does() -> Result<()> {
    let (built_in, in_c) = (Policy::built_in(&Runtime::new()?).await?, load().await?);
    let mut dice = Dice(20_260_214);
    let mut values: Vec<_> = VALUES.iter().map(|value| value.to_vec()).collect();
    for _ in 0..ROUNDS {
        let mut value = VALUES[dice.below(VALUES.len())].to_vec();
        dice.damage(&mut value);
        values.push(value);
    }
    // As many members as a record can have, and as many things in one another as are read, and one more.
    values.push(format!("{{\"instance\":\"bob\"{}}}", ",\"\":0".repeat(1_300)).into());
    values.push(format!("{{\"instance\":\"bob\",\"x\":[0{}]}}", ",[]".repeat(2_600)).into());
    values.push(format!("{{\"id\":\"a\"{}", ",\"\":{}".repeat(2_600)).into());
    for depth in [126, 127, 4_000] {
        for (begin, end) in [("[", "]"), ("{\"\":", "}")] {
            let (begin, end) = (begin.repeat(depth), end.repeat(depth));
            values.push(format!("{{\"instance\":\"bob\",\"x\":{begin}0{end}}}").into());
        }
    }
    for value in values {
        let said = format!("{:?}", String::from_utf8_lossy(&value));
        let at = Steady(dice.next());
        assert_eq!(answers(&built_in, &value, at).await?, answers(&in_c, &value, at).await?, "{said}");
    }
    Ok(())
}

/// How many damaged values are tried beside those that are whole.
const ROUNDS: usize = 500;

/// Values that are read: records, let-through keys, plans and asks, and what is nearly one.
const VALUES: &[&[u8]] = &[
    br#"{"instance":"bob","host":"m1","build":"v1","epoch":41,"taken":"t","renewed":"r","nonce":"b1"}"#,
    br#" { "z" : [ 1 , -2 , true , { } , [ ] ] , "instance" : "bob" , "epoch" : 41 , "a" : null } "#,
    br#"{"instance":"b\u00f6b\ud83d\ude00\"\\\/\b\f\n\r\t\u0000\u001f\u007f","x":"\u00e9"}"#,
    "{\"instance\":\"b\u{f6}b\u{1f600}\u{7f}\u{2028}\",\"\u{e9}\":{\"b\":1,\"a\":2,\"b\":3}}".as_bytes(),
    br#"{"instance":"bob","epoch":18446744073709551615,"x":18446744073709551615,"y":-9223372036854775808}"#,
    br#"{"instance":"bob","epoch":0,"step_down":"","nonce":""}"#,
    br#"{"inst\u0061nce":"bob","epoch":7,"taken":"","renewed":""}"#,
    br#"{"instance":"bob","x":{"instance":"eve","instance":"eve"},"y":[{"z":[[[[]]]]}]}"#,
    br#"{"instance":"bob","x":1,"x":2,"epoch":3}"#,
    br#"{"instance":"bob","x":"\ud800"}"#,
    br#"{"instance":"bob","x":[-0,0.5,1E5,2.5e-7,1e308],"y":9223372036854775808}"#,
    br#"{"instance":"bob","x":1e309}"#,
    br#"{"instance":"bob\ud800\u0041"}"#,
    br#"{"instance":"bob","epoch":-0}"#,
    br#"{"instance":"bob","epoch":01}"#,
    br#"{"instance":"bob","epoch":1e2}"#,
    br#"{"instance":"bob","epoch":null}"#,
    br#"{"instance":"bob","host":null}"#,
    br#"{"instance":"bob",}"#,
    br#"{"instance":"bob","x":[1,]}"#,
    br#"{"instance":"bob" "x":1}"#,
    br#"{"builder":"seat-1","since":"2027-01-15T08:01:40Z","more":1}"#,
    br#"["seat-1","2027-01-15T08:01:40Z"]"#,
    br#"["seat-1","2027-01-15T08:01:40Z",1]"#,
    br#"{"plan":"plan-7","since":"2027-01-15T08:01:40Z","seen":"2027-01-15T08:01:50Z"}"#,
    br#"["plan-7","2027-01-15T08:01:40Z","2027-01-15T08:01:50Z"]"#,
    br#"{"id":"build-1799998300123-abc"}"#,
    br#"{"id":"017F22E2-79B0-7CC3-98C4-DC0C0C07398F","more":{"id":1}}"#,
    br#"["01ARYZ6S41TSV4RRFFQ69G5FAV"]"#,
    b"",
    b"{",
    b"{}",
];

/// What a policy answers, and what it writes, where this value stands under every key and waits in every queue; texts
/// for people left out.
async fn answers(policy: &Policy, value: &[u8], at: Steady) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let shown = |value: Vec<u8>| Everywhere { value, clock: Clock::by_hand(at), written: Arc::default() };
    let value = || shown(value.to_vec());

    told.push(match policy.current(value(), "controller").await? {
        Ok(holder) => format!("{holder:?}"),
        Err(why) => format!("{:?}", discriminant(&why)),
    });
    let asked = value();
    let written = asked.written.clone();
    told.push(match policy.step_down(asked, "controller", "ops").await? {
        Ok(request) => format!("{request:?}"),
        Err(why) => format!("{:?}", discriminant(&why)),
    });
    told.append(&mut written.lock().unwrap_or_else(PoisonError::into_inner));
    told.push(format!("{:?}", policy.holds_status(value()).await?));
    let begun = value();
    let written = begun.written.clone();
    told.push(format!("{:?}", policy.begin_plan(begun, "plan-7").await?));
    told.append(&mut written.lock().unwrap_or_else(PoisonError::into_inner));
    let queues = vec!["checks".into(); CHECK_QUEUES];
    told.push(format!("{:?}", policy.let_one_through(value(), &queues, "seat\u{1}\"", 0, 0).await?));
    Ok(told)
}

/// One value everywhere.
struct Everywhere {
    value: Vec<u8>,
    clock: Clock,
    written: Arc<Mutex<Vec<String>>>,
}

impl Everywhere {
    fn wrote(&self, value: &[u8]) -> Result<Write, Fault> {
        let mut text = String::from_utf8_lossy(value).into_owned();
        if let Ok(mut value) = serde_json::from_slice(value)
            && round(&mut value) > 0
        {
            text = value.to_string();
        }
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(Write::Written(58))
    }

    fn ask(&self) -> Ask {
        Ask { sequence: 1, stored: Some(Duration::from_millis(1_234_567)), body: self.value.clone() }
    }
}

#[async_trait]
impl Imports for Everywhere {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn get(&mut self, _bucket: Role, _key: &str) -> Result<Reading, Fault> {
        Ok(Reading::Found(Entry { revision: 57, value: self.value.clone() }))
    }

    async fn create(&mut self, _bucket: Role, _key: &str, value: &[u8]) -> Result<Write, Fault> {
        self.wrote(value)
    }

    async fn update(&mut self, _bucket: Role, _key: &str, value: &[u8], _at: u64) -> Result<Write, Fault> {
        self.wrote(value)
    }

    async fn keys(&mut self, _bucket: Role, _after: Option<&str>, _most: u32) -> Result<Vec<String>, Fault> {
        Ok(Vec::new())
    }

    async fn oldest_waiting(&mut self, _queue: &str) -> Result<Option<Ask>, Fault> {
        Ok(Some(self.ask()))
    }

    async fn take(&mut self, _queue: &str, _within: Duration) -> Result<Option<(u64, Ask)>, Fault> {
        Ok(Some((9, self.ask())))
    }
}

/// A number that is not whole, or over 64 bits, may be written in more than one way, which differ in the last digit.
/// Answers how many there were.
fn round(value: &mut Value) -> usize {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = format!("{:.9e}", number.as_f64().unwrap_or_default()).into();
            1
        }
        Value::Array(values) => values.iter_mut().map(round).sum(),
        Value::Object(members) => members.values_mut().map(round).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// SplitMix64: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    /// Put a byte in, take one out, or change one; once, or a few times.
    fn damage(&mut self, value: &mut Vec<u8>) {
        const MARKS: &[u8] = b"{}[]\",:\\u0189-+eEaftn \t\n\x0c\x00\x7f\x80\xc3\xa9\xed\xa0\xf4\xff";
        for _ in 0..=self.below(3) {
            let (at, mark) = (self.below(value.len()), MARKS[self.below(MARKS.len())]);
            match self.below(3) {
                0 => value.insert(at, mark),
                _ if value.is_empty() => {}
                1 => value[at] = mark,
                _ => {
                    value.remove(at);
                }
            }
        }
    }
}

async fn load() -> Result<Policy> {
    Ok(Policy::load(&Runtime::new()?, IN_C).await?)
}

/// The names a component imports.
fn imports(component: &[u8]) -> Result<BTreeSet<String>> {
    let (mut imports, mut depth) = (BTreeSet::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.insert(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(imports)
}
