//! Hostile components, at each place where one could come in: offered to a running process, on probation past the
//! rehearsal, and as the version that is proven. The host lives, the cause is named, another's gate never opens, and
//! one's own is shut by its time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use incumbent::policies::source::Offer;
use incumbent::policies::{Policies, PoliciesOptions};
use incumbent::policy::{BUILT_IN, Probation, Version};
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::{Guest, faulty};
use incumbent_tests::world::{TTL, World};
use tokio::sync::OnceCell;

const NEVER: Probation = Probation { calls: u32::MAX, time: Duration::ZERO };
const FOR_EVER: &str = "(loop (br 0)) unreachable";

/// Every export that a held lease asks.
const ASKED: [&str; 2] = ["lease#renew", "gate#pass"];

async fn runtime() -> &'static Runtime {
    static RUNTIME: OnceCell<Runtime> = OnceCell::const_new();
    RUNTIME.get_or_init(async || Runtime::new().expect("the engine runs here")).await
}

fn everywhere(body: &str) -> Guest {
    ASKED.iter().fold(Guest::new(), |guest, name| guest.export(name, body))
}

fn post_return(of: &str, body: &str) -> Guest {
    let (interface, function) = of.split_once('#').unwrap_or((of, ""));
    everywhere("i32.const 128").field(&format!(
        "(func (export \"cabi_post_incumbent:policy/{interface}@0.1.0#{function}\") (param i32) {body})"
    ))
}

/// Those that load: their names and bytes.
fn loadable() -> Result<Vec<(String, Vec<u8>)>> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, guest: Guest| -> Result<()> {
        all.push((name.into(), guest.component().with_context(|| name.to_owned())?));
        Ok(())
    };
    let get = r#"(import "incumbent:policy/kv@0.1.0" "get" (func $get (param i32 i32 i32 i32)))"#;
    let log = r#"(import "incumbent:policy/log@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let keys = r#"(import "incumbent:policy/kv@0.1.0" "keys" (func $keys (param i32 i32 i32 i32 i32 i32)))"#;
    add("traps in every export", Guest::new())?;
    add("loops in every export", everywhere(FOR_EVER))?;
    add("loops after it answered", post_return("lease#renew", FOR_EVER))?;
    add("traps after it answered", post_return("gate#pass", "unreachable"))?;
    add("loops while it is handed its arguments", Guest::new().realloc(FOR_EVER))?;
    add("hands out a place outside its memory", Guest::new().realloc("i32.const -16"))?;
    add("hands out an odd place", Guest::new().realloc("i32.const 3"))?;
    add(
        "recurses without end",
        everywhere("(drop (call $deeper (i64.const 0))) i32.const 128").field(
            "(func $deeper (param i64) (result i64) (i64.add (call $deeper (local.get 0)) (i64.const 1)))",
        ),
    )?;
    add("wants all memory", everywhere("(loop (drop (memory.grow (i32.const 16))) (br 0)) unreachable"))?;
    add("wants 4 GiB at once", everywhere("(drop (memory.grow (i32.const 65535))) i32.const 128"))?;
    add(
        "wants a table without bound",
        everywhere("(loop (drop (table.grow $t (ref.null func) (i32.const 1000))) (br 0)) unreachable")
            .field("(table $t 1 funcref)"),
    )?;
    add("reads outside its memory", everywhere("(i32.load (i32.const -8))"))?;
    add("divides by zero", everywhere("(i32.div_u (i32.const 1) (i32.const 0))"))?;
    add("answers outside its memory", everywhere("i32.const -8"))?;
    add("answers at an odd address", everywhere("i32.const 1025"))?;
    add(
        "answers a case that does not exist",
        everywhere("i32.const 200").field(r#"(data (i32.const 200) "\09\00\00\00\09\00\00\00")"#),
    )?;
    add(
        "answers a text of 4 GiB",
        everywhere("i32.const 200").field(
            r#"(data (i32.const 200) "\03\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\ff\ff\ff\ff")"#,
        ),
    )?;
    add("answers a text that is not UTF-8", everywhere("i32.const 200").field(
        r#"(data (i32.const 200) "\03\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\f0\00\00\00\02\00\00\00") (data (i32.const 240) "\ff\fe")"#,
    ))?;
    add(
        "calls an unreachable place of a table",
        everywhere("(call_indirect (result i32) (i32.const 7))").field("(table 1 funcref)"),
    )?;
    add("talks without end", everywhere("(loop (call $log (i32.const 3) (i32.const 0) (i32.const 60000) (i32.const 0) (i32.const 60000)) (br 0)) unreachable").field(log))?;
    add("reads another's key without end", everywhere(
        "(loop (call $get (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 2048)) (br 0)) unreachable",
    ).field(get))?;
    add("lists without end", everywhere(
        "(loop (call $keys (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 2048)) (br 0)) unreachable",
    ).field(keys))?;
    add(
        "gives the host a text outside its memory",
        everywhere("(call $get (i32.const 0) (i32.const -8) (i32.const 100) (i32.const 2048)) unreachable")
            .field(get),
    )?;
    add(
        "gives the host a text that is not UTF-8",
        everywhere("(call $get (i32.const 0) (i32.const 240) (i32.const 2) (i32.const 2048)) unreachable")
            .field(get)
            .field(r#"(data (i32.const 240) "\ff\fe")"#),
    )?;
    add(
        "wants an answer outside its memory",
        everywhere("(call $get (i32.const 0) (i32.const 16) (i32.const 4) (i32.const -8)) unreachable")
            .field(get),
    )?;
    add(
        "asks for a role that does not exist",
        everywhere("(call $get (i32.const 9) (i32.const 16) (i32.const 4) (i32.const 2048)) unreachable")
            .field(get),
    )?;
    // Tenures that are lies: `kept`, at address 1032 the epoch, the revision, created, the time, until, sure.
    for (name, epoch, revision, until) in [
        ("an epoch above every other", "-1", "1", "0"),
        ("the epoch before", "0", "1", "0"),
        ("a revision never written", "1", "-1", "0"),
        ("a gate open for ever", "1", "1", "-1"),
    ] {
        add(name, everywhere("unreachable").export("lease#renew", &format!(
            "(i64.store (i32.const 1032) (i64.const {epoch})) (i64.store (i32.const 1040) (i64.const {revision}))
             (i64.store (i32.const 1064) (i64.const {until})) (i32.const 1024)"
        )))?;
    }
    for number in 70..=74 {
        all.push((format!("sound in the rehearsal only ({number})"), faulty(number)?));
    }
    Ok(all)
}

/// Those that do not even load.
fn unloadable() -> Result<Vec<(String, Vec<u8>)>> {
    let module = Guest::new().module()?;
    let kinds: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("text", b"(component)".to_vec()),
        ("a core module", module),
        ("native code", [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 200]].concat()),
        ("zeros", vec![0; 1 << 16]),
        ("half of one", BUILT_IN[..BUILT_IN.len() / 2].to_vec()),
        ("one and something behind it", [BUILT_IN, b"\xff\xff\xff"].concat()),
        ("loops when it starts", Guest::new().start("(loop (br 0))").component()?),
        ("traps when it starts", Guest::new().start("unreachable").component()?),
        ("loops when asked who it is", Guest::new().export("describe#describe", FOR_EVER).component()?),
        ("has 64-bit memory", with("(memory i64 1)")?),
        ("has shared memory", with("(memory 1 1 shared)")?),
        ("has two memories", with("(memory 1) (memory 1)")?),
    ];
    Ok(kinds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect())
}

/// A component around a module with this field, which no host here takes: a component's preamble, and the module as
/// its one section.
fn with(field: &str) -> Result<Vec<u8>> {
    let module = wat::parse_str(format!("(module {field})"))?;
    let mut length = module.len();
    let mut bytes = b"\0asm\x0d\0\x01\0\x01".to_vec();
    // LEB128.
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f)? | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length)?);
    Ok([bytes, module].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offered_to_a_running_process_each_is_refused_and_named() -> Result<()> {
    let policies = Policies::open(runtime().await, PoliciesOptions::default()).await?;
    let built_in = policies.status().serving.digest().to_owned();
    let all = [loadable()?, unloadable()?].concat();
    ensure!(all.len() >= 40, "{} are too few", all.len());
    for (name, bytes) in all {
        let rehearses = name.starts_with("sound in the rehearsal");
        let offered = policies.offer(&Offer { bytes, signature: None, from: name.clone() }).await;
        match offered {
            Err(why) => ensure!(!rehearses && !why.why.is_empty() && why.why.len() < 8192, "{name}: {why}"),
            Ok(_) => {
                ensure!(rehearses, "{name} serves");
                policies.roll_back("the test goes on").await?;
            }
        }
        ensure!(policies.status().serving.digest() == built_in, "{name}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn on_probation_each_is_rolled_back_and_the_call_is_answered() -> Result<()> {
    for (name, bytes) in loadable()? {
        let world = World::new().await;
        let (alice, bob) = world.alice_holds().await;
        let (epoch, first) = (alice.lease.epoch()?, world.policy.version().digest().to_owned());
        world.policy.swap(Version::load(runtime().await, &bytes).await?, Some(NEVER));
        ensure!(alice.lease.renew().await == Ok(epoch), "{name}");
        ensure!(world.policy.version().digest() == first, "{name} still serves");
        ensure!(!bob.lease.held() && alice.lease.held(), "{name}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn proven_ones_lose_the_lease_at_most_and_open_no_gate() -> Result<()> {
    for (name, bytes) in loadable()? {
        let world = World::new().await;
        let (alice, bob) = world.alice_holds().await;
        let until = alice.lease.until().context("held")?;
        world.policy.swap(Version::load(runtime().await, &bytes).await?, None);
        let _ = alice.lease.renew().await;
        // Longer than the last write that was really made allows: the world looks for two open gates, and for writes
        // over another's record.
        world.clock.advance(TTL);
        tokio::time::advance(TTL).await;
        ensure!(!alice.lease.held() || alice.lease.until() > Some(until), "{name} stays open past its time");
        let _ = bob.lease.try_take().await;
        world.settle().await;
        ensure!(!(alice.lease.held() && bob.lease.held()), "{name}: two gates are open");
        ensure!(world.faulty.foreign().is_empty(), "{name} wrote over another's record");
    }
    // The host lives.
    let good = Policy::built_in(runtime().await).await?;
    ensure!(good.version().about().name == "incumbent");
    Ok(())
}
