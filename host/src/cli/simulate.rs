//! `incumbent simulate`: a policy under everything that may befall those who stand for a lease.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use incumbent::simulate::{Counts, Found, Mishap, Mishaps, Run, Simulation, Timeline};
use serde_json::json;

use super::args::Simulate;
use super::exit::Exit;
use super::{policy, say};

pub(crate) async fn simulate(args: Simulate) -> anyhow::Result<ExitCode> {
    let proven = policy::built_in().await?.version();
    let candidate = match &args.policy {
        Some(file) => policy::load(file).await?,
        None => proven.clone(),
    };
    let simulation = Simulation {
        candidate,
        proven,
        length: args.length,
        calm: args.calm,
        narrow: None,
        keep: args.seed.is_some(),
    };
    // It has runtimes of its own, and takes all the cores.
    tokio::task::spawn_blocking(move || play(&args, &simulation)).await?
}

fn play(args: &Simulate, simulation: &Simulation) -> anyhow::Result<ExitCode> {
    let seeds = args.seed.map_or(args.from..args.from + args.seeds, |seed| seed..seed + 1);
    let mut total = Total::default();
    // The first in their order that broke, so that two cores tell the same as one.
    let mut broken: Option<(u64, Run)> = None;
    simulation.run_each(seeds, |seed, run| {
        total.add(&run);
        let is_broken = !run.findings.is_empty();
        if (is_broken || args.seed.is_some()) && broken.as_ref().is_none_or(|(first, _)| seed < *first) {
            broken = Some((seed, run));
        }
        if is_broken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some((seed, run)) = &mut broken
        && run.notes.is_empty()
    {
        // Once more, and this time all is kept.
        *run = Simulation { keep: true, ..simulation.clone() }.run(*seed)?;
    }
    let about = simulation.candidate.about();
    let findings = broken.as_ref().map_or(&[][..], |(_, run)| &run.findings);
    let (mut text, mut told) = (String::new(), Vec::new());
    if let Some((seed, run)) = &broken {
        text = format!("seed {seed}: {}\n", Timeline(run));
        let of = |found: &Found| json!({ "seed": seed, "at_seconds": found.at.as_secs_f64(), "what": found.what.to_string() });
        told = run.findings.iter().map(of).collect();
    }
    let verdict = match &broken {
        Some((seed, run)) if !run.findings.is_empty() => {
            format!("BROKEN by seed {seed}; once more: {}", again(args, *seed))
        }
        _ => "nothing broke".into(),
    };
    say::answer(
        &format!("{text}{} {}: {total}\n{verdict}", about.name, about.version),
        &json!({
            "name": about.name, "version": about.version,
            "digest": format!("sha256:{}", simulation.candidate.digest()),
            "seeds": total.runs, "simulated_seconds": total.simulated.as_secs(),
            "taken": total.counts.taken, "renewed": total.counts.renewed, "acts": total.counts.acts,
            "lost": total.counts.lost, "mishaps": total.mishaps.all().sum::<u64>(), "broken": told,
        }),
    )?;
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Internal }.into())
}

/// The line that plays a seed once more.
fn again(args: &Simulate, seed: u64) -> String {
    let policy = args.policy.as_ref().map_or(String::new(), |file| {
        let file = file.display().to_string();
        format!(" --policy {}", shlex::try_quote(&file).unwrap_or(file.as_str().into()))
    });
    let calm = if args.calm { " --calm" } else { "" };
    let length = humantime::format_duration(args.length).to_string().replace(' ', "");
    format!("incumbent simulate{policy} --seed {seed} --length {length}{calm}")
}

#[derive(Default)]
struct Total {
    runs: u64,
    simulated: Duration,
    counts: Counts,
    mishaps: Mishaps,
}

impl Total {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.simulated += run.simulated;
        self.counts.add(&run.counts);
        self.mishaps.add(&run.mishaps);
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = Mishap::ALL.iter().filter(|mishap| self.mishaps.of(**mishap) > 0).count();
        write!(
            f,
            "{} seeds, {} simulated: taken {} times, renewed {}, lost {}, {} acts; {} mishaps of {kinds} kinds",
            self.runs,
            humantime::format_duration(Duration::from_secs(self.simulated.as_secs())),
            self.counts.taken,
            self.counts.renewed,
            self.counts.lost,
            self.counts.acts,
            self.mishaps.all().sum::<u64>(),
        )
    }
}
