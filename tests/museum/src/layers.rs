//! What finds a bug: the tables, the simulation with its guard rails, the model.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use anyhow::Result;
use incumbent::Policy;
use incumbent::Vacancy;
use incumbent::policy::Version;
use incumbent::policy::rehearsal::{Scene, Script, TABLES};
use incumbent::simulate::{Finding, Mishap, Narrow, Simulation};
use incumbent_model::{Config, Report, runs};

/// A policy with one bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Names it.
    pub name: &'static str,
    /// What it does that must not be.
    pub does: &'static str,
    pub(crate) version: fn() -> Version,
    pub(crate) explore: fn(&Config) -> Result<Report, String>,
}

/// A part of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A scene of the decision tables comes out otherwise.
    Tables,
    /// A seed of the simulation breaks something, or the guard rails do not believe it.
    Simulation,
    /// A state of the model breaks an invariant, or what must happen at some time never does.
    Model,
}

/// What a layer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Which.
    pub by: Layer,
    /// In what.
    pub what: String,
}

/// What is decided natively.
const DECIDED: [&str; 6] = ["check", "take", "renew", "release", "step-down", "pass"];

/// Simulated for each seed, how many seeds are tried, and how many where no other layer finds it.
const LENGTH: Duration = Duration::from_secs(15 * 60);
const SEEDS: u64 = 200;
const MORE_SEEDS: u64 = 4000;

/// What shows when a few things come together: under this rule, in a weather of nothing but these.
const NARROW: &[(&str, Vacancy, &[Mishap])] = &[
    // One stands still while the lease is taken, forgotten, and cannot be renewed.
    ("WatchesAcrossGaps", Vacancy::Delayed, &[Mishap::Suspended, Mishap::Forgotten, Mishap::Cut]),
    ("StaysInItsBucket", Vacancy::Watched, WIPES),
    ("RemembersAnotherBucket", Vacancy::Watched, WIPES),
    ("JumpsByOne", Vacancy::Watched, WIPES),
];
const WIPES: &[Mishap] = &[Mishap::Wiped, Mishap::Suspended, Mishap::Cut, Mishap::UpdateLate];

impl Bug {
    /// What finds it: the first two layers that do, the cheaper ones first.
    ///
    /// # Errors
    /// A layer cannot be played.
    pub fn caught(&self) -> Result<Vec<Caught>> {
        let mut caught: Vec<Caught> = self.by_tables()?.into_iter().collect();
        caught.extend(self.by_simulation(0..SEEDS)?);
        if caught.len() < 2 {
            caught.extend(self.by_model()?);
        }
        if caught.len() < 2 {
            caught.extend(self.by_simulation(SEEDS..MORE_SEEDS)?);
        }
        Ok(caught)
    }

    /// The first scene that comes out otherwise than with the built-in decisions.
    fn by_tables(&self) -> Result<Option<Caught>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let [built_in, _] = incumbent_native::built_in();
        let (sound, bent) = (Policy::of(built_in), Policy::of((self.version)()));
        for (table, text) in TABLES {
            for scene in
                Scene::of_table(text).into_iter().filter(|scene| DECIDED.contains(&scene.command().0))
            {
                let play = async |policy: &Policy| {
                    let script = Script::new(&scene.answers).without_logs();
                    let outcome = scene.decide(policy, &script).await.map_err(|why| why.to_string());
                    (script.calls(), outcome)
                };
                if runtime.block_on(play(&sound)) != runtime.block_on(play(&bent)) {
                    let what = format!("{table}.txt:{} ({})", scene.command.number, scene.shown());
                    return Ok(Some(Caught { by: Layer::Tables, what }));
                }
            }
        }
        Ok(None)
    }

    fn narrow(&self) -> Option<Narrow> {
        let (_, vacancy, mishaps) = NARROW.iter().find(|(name, ..)| *name == self.name)?;
        Some(Narrow { vacancy: *vacancy, mishaps: mishaps.to_vec() })
    }

    fn by_simulation(&self, seeds: Range<u64>) -> Result<Option<Caught>> {
        let [_, proven] = incumbent_native::built_in();
        let simulation = Simulation {
            candidate: (self.version)(),
            proven,
            length: LENGTH,
            calm: false,
            narrow: self.narrow(),
            keep: false,
        };
        let mut first: Option<(u64, Finding)> = None;
        simulation.run_each(seeds, |seed, run| {
            if let Some(found) = run.findings.first()
                && first.as_ref().is_none_or(|(before, _)| seed < *before)
            {
                first = Some((seed, found.what.clone()));
            }
            if first.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(first.map(|(seed, what)| Caught { by: Layer::Simulation, what: format!("seed {seed}: {what}") }))
    }

    fn by_model(&self) -> Result<Option<Caught>> {
        for run in runs(2, 0) {
            let report = (self.explore)(&run.config).map_err(anyhow::Error::msg)?;
            let what = match (&report.violation, report.missing.first()) {
                (Some(violation), _) => violation.invariant.name().to_string(),
                (None, Some(missing)) => format!("it never happens: {missing:?}"),
                (None, None) => continue,
            };
            return Ok(Some(Caught { by: Layer::Model, what: format!("{}: {what}", run.what) }));
        }
        Ok(None)
    }
}
