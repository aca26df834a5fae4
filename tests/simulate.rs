//! A lease under everything that may befall it, in simulated time: is every seed the same each time, natively and through
//! the component; is what is broken found; does the command tell it?

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::policy::{BUILT_IN, Version};
use incumbent::simulate::{Finding, Mishap, Mishaps, Run, Simulation, Timeline};
use incumbent_policy::lease::{self, Attempt, Identity, Renewal, Sighting, Tenure, Terms, Trouble, Vacancy};
use incumbent_policy::{Decisions, Imports};
use incumbent_tests::command::incumbent;
use incumbent_tests::guests::{STRICT, faulty};
use incumbent_tests::running::output;
use incumbent_tests::world::policy;

const LENGTH: Duration = Duration::from_secs(15 * 60);

fn natively() -> Simulation {
    let [candidate, proven] = incumbent_native::built_in();
    Simulation { candidate, proven, length: LENGTH, calm: false, narrow: None, keep: false }
}

/// The runs of these seeds, in their order.
fn runs(simulation: &Simulation, seeds: u64) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    simulation.run_each(0..seeds, |seed, run| {
        runs.push((seed, run));
        ControlFlow::Continue(())
    })?;
    runs.sort_by_key(|(seed, _)| *seed);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

#[test]
fn a_storm_breaks_nothing_and_every_mishap_happens() -> Result<()> {
    let mut mishaps = Mishaps::default();
    for (seed, run) in runs(&natively(), 150)?.iter().enumerate() {
        assert_eq!(run.findings, [], "seed {seed}");
        mishaps.add(&run.mishaps);
    }
    let missed: Vec<_> = Mishap::ALL.iter().filter(|mishap| mishaps.of(**mishap) == 0).collect();
    assert_eq!(missed, Vec::<&Mishap>::new());
    Ok(())
}

#[test]
fn in_a_calm_nothing_is_lost() -> Result<()> {
    let calm = Simulation { calm: true, length: 24 * LENGTH, ..natively() };
    for (seed, run) in runs(&calm, 12)?.iter().enumerate() {
        assert_eq!(run.findings, [], "seed {seed}");
        assert_eq!((run.counts.taken, run.counts.lost), (1, 0), "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_seed_tells_the_same_twice_and_each_another() -> Result<()> {
    let tell = || Ok(runs(&natively(), 20)?.iter().map(|run| run.transcript).collect::<Vec<_>>());
    let once: Result<Vec<u64>> = tell();
    let once = once?;
    assert_eq!(once, tell()?);
    assert_eq!(once.iter().collect::<BTreeSet<_>>().len(), once.len());
    Ok(())
}

/// The order of the seeds, and which thread plays them, is nothing to them.
#[tokio::test]
async fn a_component_and_the_native_decisions_tell_the_same() -> Result<()> {
    let runtime = incumbent::Runtime::new()?;
    let candidate = Version::load(&runtime, &[BUILT_IN, &[0, 2, 1, b's']].concat()).await?;
    let components = Simulation { candidate, proven: policy().await.version(), ..natively() };
    let told = tokio::task::spawn_blocking(move || runs(&components, 12)).await??;
    for (seed, (component, native)) in told.iter().zip(runs(&natively(), 12)?).enumerate() {
        assert_eq!(component.transcript, native.transcript, "seed {seed}");
        assert_eq!(component.counts, native.counts, "seed {seed}");
    }
    Ok(())
}

/// An absent record is free at once, whatever the rule says.
struct Trusting;

impl Decisions for Trusting {
    const NAME: &'static str = "trusting";
    const VERSION: &'static str = "0.1.0";

    fn take(
        io: &mut impl Imports,
        terms: &Terms,
        who: &Identity,
        _: Vacancy,
        seen: Option<Sighting>,
    ) -> Result<Attempt, Trouble> {
        lease::take(io, terms, who, Vacancy::Trusted, seen)
    }
}

/// Its gate is open for a second longer than its record is good for.
struct Late;

impl Decisions for Late {
    const NAME: &'static str = "late";
    const VERSION: &'static str = "0.1.0";

    fn renew(io: &mut impl Imports, terms: &Terms, who: &Identity, tenure: Tenure) -> Renewal {
        match lease::renew(io, terms, who, tenure) {
            Renewal::Kept(kept) => Renewal::Kept(Tenure { until_ns: kept.until_ns + 1_000_000_000, ..kept }),
            ended => ended,
        }
    }
}

fn broken(candidate: Version) -> Result<Run> {
    let simulation = Simulation { candidate, keep: true, ..natively() };
    let broken = runs(&simulation, 60)?.into_iter().find(|run| !run.findings.is_empty());
    broken.ok_or_else(|| anyhow::anyhow!("60 seeds found nothing"))
}

#[test]
fn two_gates_are_found_and_the_timeline_tells_who_held_when() -> Result<()> {
    let run = broken(incumbent_native::version::<Trusting>("trusting"))?;
    assert!(
        run.findings.iter().any(|found| matches!(found.what, Finding::TwoGates(_))),
        "{:?}",
        run.findings
    );
    let told = Timeline(&run).to_string();
    assert!(told.contains("who held when:") && told.contains("BROKEN      two gates are open"), "{told}");
    Ok(())
}

/// The guard rails hold, and tell.
#[test]
fn what_the_guard_rails_do_not_believe_is_found() -> Result<()> {
    let run = broken(incumbent_native::version::<Late>("late"))?;
    let told = run.findings[0].what.to_string();
    assert!(told.contains("late 0.1.0") && told.contains("longer than its write allows"), "{told}");
    assert!(!run.findings.iter().any(|found| matches!(found.what, Finding::TwoGates(_))));
    Ok(())
}

fn simulate(arguments: &[&str], folder: &Path) -> Result<(i32, String, String)> {
    output(Command::new(incumbent()).arg("simulate").args(arguments).current_dir(folder))
}

#[test]
fn the_command_tells_that_nothing_broke() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("strict.wasm"), STRICT)?;
    let (code, out, err) =
        simulate(&["--policy", "strict.wasm", "--seeds", "3", "--length", "5m"], folder.path())?;
    ensure!(code == 0 && out.contains("3 seeds") && out.contains("nothing broke"), "{code} {out} {err}");
    let (code, out, err) = simulate(&["--seed", "3", "--length", "5m"], folder.path())?;
    ensure!(code == 0 && out.contains("who held when:") && out.contains("at epoch"), "{code} {out} {err}");
    let (code, out, err) = simulate(&["--seeds", "2", "--length", "5m", "--calm", "--json"], folder.path())?;
    let told: serde_json::Value = serde_json::from_str(&out)?;
    ensure!(
        code == 0 && told["seeds"] == 2 && told["lost"] == 0 && told["mishaps"] == 0,
        "{code} {out} {err}"
    );
    Ok(())
}

#[test]
fn the_command_tells_what_broke_and_the_line_that_plays_it_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("so trusting.wasm"), faulty(6)?)?;
    let (code, out, err) = simulate(&["--policy", "so trusting.wasm", "--seeds", "200"], folder.path())?;
    ensure!(code == 70 && out.contains("BROKEN"), "{code} {out} {err}");
    let line = out.lines().last().and_then(|line| line.split_once("once more: incumbent "));
    let (_, arguments) = line.ok_or_else(|| anyhow::anyhow!("no line to play it again: {out}"))?;
    // As it is pasted into a shell.
    let shell = format!("exec \"$0\" {arguments}");
    let mut pasted = Command::new("sh");
    let (code, once_more, err) =
        output(pasted.arg("-c").arg(shell).arg(incumbent()).current_dir(folder.path()))?;
    let told = |out: &str| {
        out.lines().filter(|line| line.contains("BROKEN  ")).map(String::from).collect::<Vec<_>>()
    };
    ensure!(code == 70 && told(&once_more) == told(&out), "{code} {once_more} {err}");
    Ok(())
}

#[test]
fn the_command_names_what_is_no_policy() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("a text"), "no policy")?;
    for (file, code, words) in [
        ("missing.wasm", 78, "the policy missing.wasm: No such file"),
        ("a text", 65, "the policy a text: it is something else, not a WebAssembly component"),
    ] {
        let (came, out, err) = simulate(&["--policy", file], folder.path())?;
        ensure!(came == code && err.contains(words) && out.is_empty(), "{came} {out} {err}");
    }
    for arguments in
        [&["--seeds", "0"][..], &["--seed", "-1"], &["--length", "0s"], &["--seed", "1", "--from", "2"]]
    {
        let (came, _, err) = simulate(arguments, folder.path())?;
        ensure!(came == 2, "{arguments:?}: {came} {err}");
    }
    Ok(())
}
