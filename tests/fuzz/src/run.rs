//! Running targets: over their corpus, and over what is drawn near it.

use std::any::Any;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use crate::{LET_THROUGH, TARGETS, Target, mutate};

/// Inputs that one thread draws before it takes the next part: few enough that the slowest target is spread.
const PART: u64 = 10_000;

/// Failures told; beyond it they are only counted.
const TOLD: usize = 20;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// How many inputs were tried.
    pub executions: u64,
    /// How many of them ended in a panic that let nothing through.
    pub panics: u64,
    /// How many of them let something through.
    pub let_through: u64,
    /// The first of these.
    pub failures: Vec<Failure>,
}

/// An input at which something does not hold.
#[derive(Debug)]
pub struct Failure {
    /// The target.
    pub target: &'static str,
    /// What it was drawn by; none for an input of the corpus.
    pub seed: Option<u64>,
    /// What did not hold.
    pub why: String,
    /// The input, hexadecimal.
    pub input: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { target, seed, why, input } = self;
        match seed {
            Some(seed) => write!(f, "{target}, seed {seed}: {why}\n  {input}"),
            None => write!(f, "{target}, corpus: {why}\n  {input}"),
        }
    }
}

/// Every input of every corpus, once.
///
/// # Errors
/// A corpus cannot be read.
pub fn run_corpus() -> io::Result<Report> {
    let report = Mutex::default();
    for target in TARGETS {
        for input in corpus(target)? {
            execute(target, None, &input, &report);
        }
    }
    Ok(report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// So many inputs near the corpus, shared out among the targets, on every core. The seeds begin at `seed`; each draws
/// one input of each target that is not through yet.
///
/// # Errors
/// A corpus cannot be read.
pub fn run(executions: u64, seed: u64) -> io::Result<Report> {
    let corpora: Vec<_> = TARGETS.iter().map(corpus).collect::<Result<_, _>>()?;
    let mut parts = Vec::new();
    for (target, corpus) in TARGETS.iter().zip(&corpora) {
        let its = (executions * target.share).div_ceil(1_000_000);
        // A slow target's part is one input.
        let part = (PART * target.share / 100_000).clamp(1, PART);
        parts.extend(
            (0..its)
                .step_by(usize::try_from(part).unwrap_or(1))
                .map(|from| (target, corpus, seed + from..seed + (from + part).min(its))),
        );
    }
    // The slow ones come first, so that no thread is left with them at the end.
    parts.sort_by_key(|(target, ..)| target.share);
    let (next, report) = (AtomicU64::new(0), Mutex::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mine = || usize::try_from(next.fetch_add(1, Ordering::Relaxed)).ok();
                while let Some((target, corpus, seeds)) = mine().and_then(|at| parts.get(at)) {
                    for seed in seeds.clone() {
                        let input = mutate::mutated(corpus, &mut Rng::with_seed(seed));
                        execute(target, Some(seed), &input, &report);
                    }
                }
            });
        }
    });
    Ok(report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn execute(target: &Target, seed: Option<u64>, input: &[u8], report: &Mutex<Report>) {
    let ended = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.executions += 1;
    let Err(panic) = ended else { return };
    let why = words(panic.as_ref());
    match why.starts_with(LET_THROUGH) {
        true => report.let_through += 1,
        false => report.panics += 1,
    }
    if report.failures.len() < TOLD {
        let input = hex(input);
        report.failures.push(Failure { target: target.name, seed, why, input });
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".into())
}

fn hex(input: &[u8]) -> String {
    let mut text = String::new();
    for byte in input {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// In the order of their names, so that a seed draws the same input everywhere.
fn corpus(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut files: Vec<_> = match fs::read_dir(&folder) {
        Ok(files) => files.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(why) => return Err(why),
    };
    files.sort();
    let mut inputs: Vec<_> = files.iter().map(fs::read).collect::<Result<_, _>>()?;
    inputs.extend((target.more)());
    if inputs.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the corpus of {} is empty", target.name),
        ));
    }
    Ok(inputs)
}
