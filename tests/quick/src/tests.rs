//! Every scene of every table, and every state of a lease within the smallest bounds.

use incumbent_model::{Config, Expiry, Faults, explore};

use crate::native::BuiltIn;
use crate::played;
use crate::table::{Scene, TABLES};

#[test]
fn every_scene_is_decided_as_its_table_says() {
    let mut faults = Vec::new();
    for (table, text) in TABLES {
        for scene in Scene::of_table(text) {
            let decided = played(&scene).unwrap_or_else(|why| why);
            if decided != scene.expected {
                let (at, expected) = (scene.command.number, &scene.expected);
                faults.push(format!("{table}.txt:{at}: expected:\n{expected}\n  decided:\n{decided}\n"));
            }
        }
    }
    assert!(faults.is_empty(), "{} scenes\n\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn in_every_state_the_invariants_hold() -> Result<(), String> {
    let faults = Faults { looks: 2, lost_answer: 1, stale: 1, release: 1, ..Faults::default() };
    let report =
        explore::<BuiltIn>(&Config { expiry: Expiry::Either, faults, most: 1_000_000, ..Config::two(4) })?;
    assert!(report.violation.is_none() && report.exhausted, "{:#?}", report.violation);
    Ok(())
}
