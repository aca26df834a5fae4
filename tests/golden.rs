//! The components of every release, kept in `golden/` as they were built then, load in this host and decide.
//!
//! `policy-VERSION.wasm` is the built-in policy at that version of the contract, `imports-VERSION.wasm` one that imports
//! all there was to import. Those of the version at work are written anew by
//!
//! ```sh
//! UPDATE_GOLDEN=1 cargo test --workspace golden
//! ```
//!
//! which is for a contract that was not released yet. Those of a release stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use incumbent::lease::Released;
use incumbent::limits::REHEARSAL;
use incumbent::policy::BUILT_IN;
use incumbent::policy::rehearsal::rehearse;
use incumbent::{Policy, Runtime};
use incumbent_tests::guests::{CONTRACT, Guest, contract};
use incumbent_tests::world::{RENEW, TTL, World};

/// What to do.
const ADVICE: &str = "\
    this policy was made for an earlier state of the contract in wit/, and does not fit it any more.\n\
    \n\
    If that version of the contract was released, others have policies like this one, which this host would refuse: \
    take the change back. Imported interfaces and functions may be added, and nothing else within a minor version: no \
    field of a record, no case of an enum or variant, no exported function. What must change is a new minor version \
    of the package in wit/world.wit, and the files here of the minor version before it go.\n\
    \n\
    If it was not released yet: UPDATE_GOLDEN=1 cargo test --workspace golden";

/// What to do where a policy fits, and decides otherwise than the tables say by now.
const DECIDES_OTHERWISE: &str = "\
    this policy fits the contract, and does not pass the rehearsal any more: the tables in tests/decisions ask for \
    decisions that a released policy did not make, and this host would refuse it.\n\
    \n\
    If it was released, let the table allow both. If not: UPDATE_GOLDEN=1 cargo test --workspace golden";

/// A component kept, and its file's name.
struct Golden {
    name: String,
    bytes: Vec<u8>,
}

impl Golden {
    async fn load(&self) -> Result<Policy> {
        let loaded = Policy::load(&Runtime::new()?, &self.bytes).await;
        loaded.map_err(|why| anyhow!("golden/{}: {why}\n\n{ADVICE}", self.name))
    }

    /// Whether it fits a contract, in words that name what does not.
    fn fits(&self, amendments: &[(&str, &str)]) -> Result<()> {
        let owned: Vec<_> = amendments.iter().map(|&(was, is)| (was.to_owned(), is.to_owned())).collect();
        let (resolve, package) = contract(&owned)?;
        let world = resolve.select_world(&[package], Some("policy"))?;
        wit_component::targets(&resolve, world, &self.bytes, true)
            .map_err(|why| anyhow!("golden/{}: {why:#}\n\n{ADVICE}", self.name))
    }
}

/// Those kept whose name begins so, written anew before where that is wanted.
fn kept(kind: &str) -> Result<Vec<Golden>> {
    static WRITTEN: OnceLock<Result<(), String>> = OnceLock::new();
    let wanted = std::env::var_os("UPDATE_GOLDEN").is_some();
    let written =
        WRITTEN.get_or_init(|| if wanted { write().map_err(|why| format!("{why:#}")) } else { Ok(()) });
    written.clone().map_err(anyhow::Error::msg)?;

    let mut kept = Vec::new();
    for file in fs::read_dir(folder())? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with(kind) {
            kept.push(Golden { bytes: fs::read(file.path())?, name });
        }
    }
    ensure!(!kept.is_empty(), "nothing is kept of {kind}");
    Ok(kept)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn write() -> Result<()> {
    fs::create_dir_all(folder())?;
    fs::write(folder().join(format!("policy-{CONTRACT}.wasm")), BUILT_IN)?;
    Ok(fs::write(folder().join(format!("imports-{CONTRACT}.wasm")), importing_all().component()?)?)
}

#[tokio::test]
async fn golden_policies_load() -> Result<()> {
    for golden in kept("")? {
        golden.load().await?;
    }
    Ok(())
}

#[test]
fn golden_policies_fit_the_contract() -> Result<()> {
    for golden in kept("")? {
        golden.fits(&[])?;
    }
    Ok(())
}

/// That the test above fails when it should.
#[test]
fn golden_policies_tell_which_changes_of_the_contract_break_them() -> Result<()> {
    let breaking = [
        ("a field more", "record bucket-info {", "record bucket-info { replicas: u32,"),
        ("a case more", "variant fault {", "variant fault { busy,"),
        ("a level less", "        trace,\n", ""),
        ("a function that every policy must have", "check: func(", "ping: func();\n    check: func("),
        ("an import taken away", "    moved: func(was: u64, floor: u64);\n", ""),
        ("another minor version", "policy@0.1.0;", "policy@0.2.0;"),
    ];
    let fitting = [
        ("a function more to import", "interface kv {", "interface kv { lock: func(key: string) -> bool;"),
        ("an interface more to import", "import kv;", "import kv; import bells: interface { ring: func(); }"),
        ("a patch", "policy@0.1.0;", "policy@0.1.7;"),
    ];
    for golden in kept("imports-")? {
        for (what, was, is) in breaking {
            ensure!(golden.fits(&[(was, is)]).is_err(), "{}: {what} was not noticed", golden.name);
        }
        for (what, was, is) in fitting {
            golden.fits(&[(was, is)]).context(what)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn golden_policies_pass_the_rehearsal() -> Result<()> {
    for golden in kept("policy-")? {
        let played = rehearse(&golden.load().await?, REHEARSAL).await;
        played.map_err(|why| anyhow!("golden/{}: {why}\n\n{DECIDES_OTHERWISE}", golden.name))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn golden_policies_take_keep_and_release_a_lease() -> Result<()> {
    for golden in kept("policy-")? {
        let mut world = World::new().await;
        world.policy = golden.load().await?;
        let alice = world.stand("alice").await;
        let epoch = alice.lease.try_take().await?;
        world.pass(TTL + 2 * RENEW).await;
        assert_eq!(alice.lease.epoch(), Ok(epoch), "kept for longer than it lives unrenewed");
        assert_eq!(alice.lease.release().await, Released::GivenBack);
        let bob = world.stand("bob").await;
        assert!(bob.lease.try_take().await? > epoch, "{}", golden.name);
    }
    Ok(())
}

/// A policy that imports every function of the contract.
fn importing_all() -> Guest {
    IMPORTS.iter().fold(Guest::new(), |guest, (name, parameters)| {
        let (interface, function) = name.split_once('#').unwrap_or((name, ""));
        guest.field(&format!(
            "(import \"incumbent:policy/{interface}@{CONTRACT}\" \"{function}\" (func (param {parameters})))\n"
        ))
    })
}

/// Every import of the world and its flat parameters; results of more than one part go where the last one points.
const IMPORTS: &[(&str, &str)] = &[
    ("kv#get", "i32 i32 i32 i32"),
    ("kv#create", "i32 i32 i32 i32 i32 i32"),
    ("kv#update", "i32 i32 i32 i32 i32 i64 i32"),
    ("kv#delete", "i32 i32 i32 i64 i32"),
    ("kv#keys", "i32 i32 i32 i32 i32 i32"),
    ("kv#info", "i32 i32"),
    ("streams#last-sequence", "i32"),
    ("streams#purge-below", "i64 i32"),
    ("queue#oldest-waiting", "i32 i32 i32"),
    ("queue#take", "i32 i32 i64 i32"),
    ("queue#hand-back", "i64 i64 i32"),
    ("epochs#floor", "i32"),
    ("epochs#moved", "i64 i64"),
    ("clock#now", "i32"),
    ("log#log", "i32 i32 i32 i32 i32"),
];
