//! The built-in component is what the contract says and nothing more, and what is no policy is refused in words.

use std::path::Path;

use anyhow::{Context as _, Result};
use incumbent::clock::Clock;
use incumbent::imports::Imports;
use incumbent::policy::{BUILT_IN, LoadError};
use incumbent::{Policy, Runtime, Terms};
use incumbent_tests::guests::{Guest, other_world};
use sha2::{Digest as _, Sha256};
use wasmparser::{Parser, Payload};

const TERMS: Terms =
    Terms { ttl_ns: 15_000_000_000, renew_every_ns: 5_000_000_000, margin_ns: 3_000_000_000, poll_ns: 1 };

/// Grants nothing but a clock.
struct ClockOnly;

impl Imports for ClockOnly {
    fn clock(&self) -> Clock {
        Clock::machine()
    }
}

#[test]
fn the_component_imports_and_exports_the_world_and_nothing_else() -> Result<()> {
    let (imports, exports) = surface(BUILT_IN)?;
    assert_eq!(imports, world("import")?);
    assert_eq!(exports, world("export")?);
    assert!(!imports.iter().chain(&exports).any(|name| name.starts_with("wasi:")));
    Ok(())
}

#[tokio::test]
async fn what_it_says_it_needs_is_what_it_imports() -> Result<()> {
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let mut needs: Vec<_> =
        policy.version().about().needs.iter().map(|need| format!("incumbent:policy/{need}@0.1.0")).collect();
    needs.sort();
    assert_eq!(needs, surface(BUILT_IN)?.0);
    assert_eq!(policy.version().about().name, "incumbent");
    assert_eq!(policy.version().size(), BUILT_IN.len());
    Ok(())
}

#[tokio::test]
async fn the_digest_is_that_of_its_bytes() -> Result<()> {
    let runtime = Runtime::new()?;
    let text: String = Sha256::digest(BUILT_IN).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(Policy::built_in(&runtime).await?.version().digest(), text);
    // An empty custom section more is another policy, though it decides the same.
    let other = [BUILT_IN, &[0, 2, 1, b'x']].concat();
    let other = Policy::load(&runtime, &other).await?;
    assert_ne!(other.version().digest(), text);
    assert_eq!(other.version().digest().len(), 64);
    Ok(())
}

#[tokio::test]
async fn what_is_no_component_is_refused_and_named() -> Result<()> {
    let elf = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 200]].concat();
    let cases: [(&[u8], &str); 8] = [
        (b"", "it is empty, not a WebAssembly component"),
        (b"(component)", "it is something else, not a WebAssembly component"),
        (b"#!/bin/sh\nexit 0\n", "it is something else, not a WebAssembly component"),
        (&[0; 8], "it is something else, not a WebAssembly component"),
        (b"\0as", "it is something else, not a WebAssembly component"),
        (b"\0asm\x0e\0\x01\0", "it is WebAssembly of an unknown version, not a WebAssembly component"),
        (&elf, "it is precompiled code, which is never run, not a WebAssembly component"),
        (
            &Guest::new().module()?,
            "it is a core module (componentise it, as host/build.rs does), not a WebAssembly component",
        ),
    ];
    for (bytes, words) in cases {
        assert_eq!(refused(bytes).await?.to_string(), words);
    }
    Ok(())
}

#[tokio::test]
async fn more_bytes_than_a_policy_may_have_are_refused_unread() -> Result<()> {
    let large = [BUILT_IN, &vec![0; 5 << 20]].concat();
    assert_eq!(refused(&large).await?, LoadError::TooLarge(large.len()));
    Ok(())
}

#[tokio::test]
async fn a_component_of_another_world_is_refused() -> Result<()> {
    // One that exports nothing of ours.
    let other = other_world(
        "package other:thing; world other { export run: func(); }",
        r#"(module (func (export "run")))"#,
    )?;
    // One that wants more than we offer.
    let greedy = other_world(
        "package wasi:clocks@0.2.0;
         interface wall-clock { resolution: func() -> u64; }
         world other { import wall-clock; export run: func(); }",
        r#"(module (import "wasi:clocks/wall-clock@0.2.0" "resolution" (func $now (result i64)))
            (func (export "run") (drop (call $now))))"#,
    )?;
    for (bytes, named) in [(other, "incumbent:policy"), (greedy, "wasi:clocks/wall-clock@0.2.0")] {
        let why = refused(&bytes).await?;
        assert!(matches!(why, LoadError::OtherWorld(_)), "{why:?}");
        assert!(why.to_string().contains(named), "{why}");
    }
    Ok(())
}

#[tokio::test]
async fn one_that_cannot_say_who_it_is_is_refused() -> Result<()> {
    let nameless = Guest::new().export("describe#describe", "i32.const 1024");
    // A name of two line feeds.
    let unprintable = Guest::new()
        .field(r#"(data (i32.const 200) "\0a\0a") (data (i32.const 208) "\c8\00\00\00\02\00\00\00\18\00\00\00\05\00\00\00")"#)
        .export("describe#describe", "i32.const 208");
    let panics = Guest::new().export("describe#describe", "unreachable");
    for (guest, words) in [
        (nameless, "it does not say who it is: its name, version or needs are not 1 to 100 plain bytes"),
        (unprintable, "it does not say who it is: its name, version or needs are not 1 to 100 plain bytes"),
        (panics, "it does not say who it is: it trapped: it panicked"),
    ] {
        assert_eq!(refused(&guest.component()?).await?.to_string(), words);
    }
    Ok(())
}

#[tokio::test]
async fn a_component_cut_off_is_refused_wherever_it_is_cut() -> Result<()> {
    for twentieth in 0..20 {
        let cut = BUILT_IN.len() * twentieth / 20 + usize::from(twentieth > 0);
        let why = refused(&BUILT_IN[..cut]).await?;
        assert_refused_in_words(&why, cut);
    }
    let why = refused(&BUILT_IN[..BUILT_IN.len() - 1]).await?;
    assert_refused_in_words(&why, BUILT_IN.len() - 1);
    Ok(())
}

/// Refused, or still called; whatever it then answers, the host lives.
#[tokio::test]
async fn a_damaged_component_does_no_harm() -> Result<()> {
    let runtime = Runtime::new()?;
    let small = Guest::new().export("lease#check", "i32.const 128").component()?;
    let (mut dice, mut called) = (Dice(20_260_101), 0);
    // More of them on demand.
    let flips = std::env::var("INCUMBENT_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(240);
    for (bytes, flips) in [(small.as_slice(), flips), (BUILT_IN, flips / 15)] {
        for _ in 0..flips {
            let at = dice.below(bytes.len());
            let bit = dice.below(8);
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << bit;
            match Policy::load(&runtime, &damaged).await {
                Err(why) => assert_refused_in_words(&why, at),
                Ok(policy) => {
                    called += 1;
                    // Any answer and any typed failure will do.
                    let _ = policy.check(ClockOnly, TERMS).await;
                    let _ = policy.current(ClockOnly, "controller").await;
                }
            }
        }
    }
    assert!(called > 0, "no damaged component was ever called");
    let good = Policy::built_in(&runtime).await?;
    assert_eq!(good.check(ClockOnly, TERMS).await?, Ok(()));
    Ok(())
}

fn assert_refused_in_words(why: &LoadError, at: usize) {
    let words = why.to_string();
    // A panic of the compiler would be told so.
    assert!(!words.contains("gave up") && words.len() > 20, "at byte {at}: {words}");
}

async fn refused(bytes: &[u8]) -> Result<LoadError> {
    Policy::load(&Runtime::new()?, bytes).await.err().context("it was loaded")
}

/// The names a component imports and exports, sorted.
fn surface(component: &[u8]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    imports.sort();
    exports.sort();
    Ok((imports, exports))
}

/// What `wit/world.wit` imports or exports, sorted.
fn world(word: &str) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/world.wit");
    let text = std::fs::read_to_string(path)?;
    let named = |line: &str| {
        let name = line.trim().strip_prefix(word)?.trim().strip_suffix(';')?;
        Some(format!("incumbent:policy/{name}@0.1.0"))
    };
    let mut names: Vec<_> = text.lines().filter_map(named).collect();
    names.sort();
    Ok(names)
}

/// SplitMix64: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap_or(0)
    }
}
