//! One target of `incumbent-fuzz`: the one that this binary is named for.

#![no_main]

use std::sync::LazyLock;

use incumbent_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env!("CARGO_BIN_NAME");
    TARGETS.iter().find(|target| target.name == name).expect("a target of this name")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.check)(input));
