//! Which versions of the contract fit this host: every patch of its minor version, and no other; and what is told of one
//! that does not.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use incumbent::clock::Clock;
use incumbent::imports::{Imports, Level};
use incumbent::limits::REHEARSAL;
use incumbent::policy::rehearsal::rehearse;
use incumbent::policy::{BUILT_IN, LoadError};
use incumbent::{Policy, Runtime, Terms};
use incumbent_tests::guests::Guest;

const TERMS: Terms =
    Terms { ttl_ns: 15_000_000_000, renew_every_ns: 5_000_000_000, margin_ns: 3_000_000_000, poll_ns: 1 };

/// Grants a clock, and hears what is said.
struct Hearing(Arc<Mutex<Vec<String>>>);

impl Imports for Hearing {
    fn clock(&self) -> Clock {
        Clock::machine()
    }

    fn log(&mut self, _level: Level, target: &str, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{target}: {message}"));
    }
}

/// A policy that says "test" and answers that any terms fit.
fn talking() -> Guest {
    Guest::new()
        .field(
            r#"(import "incumbent:policy/log@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#,
        )
        .export(
            "lease#check",
            "(call $log (i32.const 2) (i32.const 16) (i32.const 4) (i32.const 24) (i32.const 5)) (i32.const 4096)",
        )
}

/// What came with a later patch.
const LOCK: (&str, &str) = ("interface kv {", "interface kv {\n    lock: func(key: string) -> bool;\n");

async fn load(guest: &Guest) -> Result<Result<Policy, LoadError>> {
    Ok(Policy::load(&Runtime::new()?, &guest.component()?).await)
}

async fn refused(guest: &Guest) -> Result<String> {
    Ok(load(guest).await?.err().context("it was loaded")?.to_string())
}

#[tokio::test]
async fn a_policy_of_a_later_patch_is_called_and_calls() -> Result<()> {
    for version in ["0.1.0", "0.1.7", "0.1.7+build.5"] {
        let policy = load(&talking().version(version)).await??;
        let heard = Arc::<Mutex<Vec<String>>>::default();
        assert_eq!(policy.check(Hearing(heard.clone()), TERMS).await?, Ok(()), "{version}");
        assert_eq!(*heard.lock().unwrap_or_else(PoisonError::into_inner), ["test: 0.1.0"], "{version}");
    }
    Ok(())
}

/// Every import and every export of the built-in policy, under the names of a later patch.
#[tokio::test]
async fn all_of_the_contract_is_found_under_the_name_of_a_later_patch() -> Result<()> {
    let (was, is) = (b"@0.1.0".as_slice(), b"@0.1.7".as_slice());
    let mut later = BUILT_IN.to_vec();
    let mut renamed = 0;
    for at in 0..later.len() - was.len() {
        if later[at..].starts_with(was) {
            later[at..at + is.len()].copy_from_slice(is);
            renamed += 1;
        }
    }
    ensure!(renamed >= 10, "six interfaces are imported and four exported, {renamed} were found");
    let policy = Policy::load(&Runtime::new()?, &later).await?;
    rehearse(&policy, REHEARSAL).await?;
    Ok(())
}

#[tokio::test]
async fn what_a_later_patch_adds_is_no_hindrance_while_it_is_not_called() -> Result<()> {
    let guest = talking()
        .version("0.1.7")
        .amended(LOCK.0, LOCK.1)
        .amended("import kv;", "import kv;\n    import bells;")
        .amended("interface kv {", "interface bells {\n    ring: func();\n}\ninterface kv {");
    load(&guest).await??;
    Ok(())
}

#[tokio::test]
async fn what_this_host_does_not_have_yet_is_named() -> Result<()> {
    let lock = talking()
        .version("0.1.7")
        .amended(LOCK.0, LOCK.1)
        .field(r#"(import "incumbent:policy/kv@0.1.0" "lock" (func (param i32 i32) (result i32)))"#);
    assert_eq!(
        refused(&lock).await?,
        "it calls kv.lock of the contract incumbent:policy@0.1.7, which this host does not have yet \
         (it has 0.1.0): use a newer host"
    );
    let bells = talking()
        .version("0.1.7")
        .amended("import kv;", "import kv;\n    import bells;")
        .amended("interface kv {", "interface bells {\n    ring: func();\n}\ninterface kv {")
        .field(r#"(import "incumbent:policy/bells@0.1.0" "ring" (func))"#);
    assert!(refused(&bells).await?.contains("it calls bells.ring of"));
    Ok(())
}

#[tokio::test]
async fn another_minor_version_and_a_pre_release_are_refused_by_number() -> Result<()> {
    for version in ["0.2.0", "0.0.9", "1.0.0", "1.1.0", "0.1.7-rc.1"] {
        for guest in [Guest::new(), talking()] {
            assert_eq!(
                refused(&guest.version(version)).await?,
                format!(
                    "it is made for the contract incumbent:policy@{version}, and this host has 0.1.0: \
                     build it for that, or use a host that has {version}"
                )
            );
        }
    }
    Ok(())
}

/// No patch may do this; one that does is refused, and the place is named.
#[tokio::test]
async fn a_changed_record_is_refused_under_any_number() -> Result<()> {
    let import = r#"(import "incumbent:policy/kv@0.1.0" "info" (func (param i32 i32)))"#;
    let wider = Guest::new()
        .field(import)
        .version("0.1.7")
        .amended("record bucket-info {", "record bucket-info {\n        replicas: u32,\n");
    let why = refused(&wider).await?;
    assert!(why.contains("it is a component of another world: ") && why.contains("`info`"), "{why}");
    let narrower = Guest::new().version("0.1.7").amended("        poll-ns: u64,\n", "");
    let why = narrower.component().err().map(|why| why.to_string());
    assert!(why.is_some(), "its exports have other parameters then");
    Ok(())
}
