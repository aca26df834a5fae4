//! The rehearsal: which policies pass it, and where one with a fault is found.

use anyhow::{Context as _, Result};
use incumbent::lease::Ended;
use incumbent::limits::REHEARSAL;
use incumbent::policy::BUILT_IN;
use incumbent::policy::rehearsal::{RehearsalError, Report, Scene, TABLES, rehearse};
use incumbent::store::Fault;
use incumbent::{Loss, Policy, Runtime};
use incumbent_tests::faulty::{Fate, Kind};
use incumbent_tests::guests::{STRICT, faulty};
use incumbent_tests::world::{RENEW, World};
use tokio::sync::OnceCell;

#[tokio::test]
async fn the_built_in_policy_plays_every_scene() -> Result<()> {
    let scenes = TABLES.iter().map(|(_, text)| Scene::of_table(text).len()).sum();
    assert!(scenes > 300, "{scenes} scenes");
    assert_eq!(rehearsed(BUILT_IN).await?, Ok(Report { scenes }));
    Ok(())
}

#[tokio::test]
async fn a_stricter_policy_passes() -> Result<()> {
    assert!(rehearsed(STRICT).await?.is_ok());
    let strict = load(STRICT).await?;
    assert_eq!((strict.version().about().name.as_str(), strict.version().digest().len()), ("strict", 64));
    Ok(())
}

#[tokio::test]
async fn what_is_for_people_and_what_is_stricter_is_free() -> Result<()> {
    for (number, what) in
        [(0, "no fault"), (60, "other words"), (61, "much talk"), (62, "a gate always shut")]
    {
        assert!(rehearsed(&faulty(number)?).await?.is_ok(), "{what}");
    }
    Ok(())
}

/// Each fault, and the first scene that shows it: its table, and words of its comment.
#[tokio::test]
async fn a_policy_with_a_fault_is_refused_in_a_scene_that_shows_it() -> Result<()> {
    let cases: [(u8, &str, &str, &str); 32] = [
        (1, "any timings fit", "terms", "The sum at the ttl does not fit"),
        (2, "taken without a create", "anew", "Another was faster after the purge"),
        (3, "another layout of the record", "anew", "Another was faster after the purge"),
        (6, "absent is free under every rule", "anew", "since nobody has seen it yet"),
        (7, "the next epoch, which nobody gave it", "anew", "held once it has stood"),
        (8, "whatever goes wrong, one may serve without", "anew", "the next try finds out"),
        (10, "kept without a write", "doubt", "an earlier answer had been lost"),
        (11, "renewed past its time", "doubt", "doubted still"),
        (12, "renewed at a foreign revision", "doubt", "An update that wins at its revision"),
        (13, "a second too long", "doubt", "opens the gate again"),
        (14, "refused, and the gate stays open", "doubt", "Nothing but the update's win opens it"),
        (15, "lost, and it goes on", "doubt", "lost is lost"),
        (16, "lost, though it was kept", "doubt", "opens the gate again"),
        (17, "lost at once, after a read that no scene has", "renew", "not lost while `until` lies ahead"),
        (20, "deleted at a foreign revision", "release", "Deleted by revision"),
        (21, "given back without a deletion", "release", "Deleted by revision"),
        (22, "what cannot be read is nobody", "record", "No JSON"),
        (24, "open when overdue", "gate", "At `until` itself it is shut"),
        (25, "open when doubted", "gate", "A renewal that was refused shuts it"),
        (26, "another epoch's gate", "gate", "Held: open"),
        (27, "open for ever", "gate", "until the instant known"),
        (28, "admits what is older", "gate", "A machine that heard 57 refuses 41"),
        (29, "admits epoch zero", "gate", "Epoch zero was never issued"),
        (30, "admits nothing", "gate", "admits the first epoch it hears"),
        (31, "no plan ever builds", "holds", "No delivery builds"),
        (32, "lets a young check through", "asked", "asked now, so not let through"),
        (33, "keeps the key without a write", "holds", "at the revision it knows"),
        (34, "drops a foreign key", "holds", "Dropped at the end, by revision"),
        (35, "a plan that began at another time", "plans", "It still builds"),
        (36, "ends another plan", "plans", "It ended"),
        (4, "asks without end", "anew", "Another was faster"),
        (44, "a list without end", "view", "one gone since is left out"),
    ];
    let mut wrong = String::new();
    for (number, what, table, comment) in cases {
        let told = match rehearsed(&faulty(number)?).await? {
            Err(RehearsalError::Differs { place, expected, came })
                if place.table == table && place.shown.contains(comment) && expected != came =>
            {
                continue;
            }
            Err(why) => why.to_string(),
            Ok(_) => "it passed".into(),
        };
        wrong += &format!("{number}, {what}: {told}\n\n");
    }
    assert!(wrong.is_empty(), "{wrong}");
    Ok(())
}

#[tokio::test]
async fn the_refusal_shows_what_was_expected_and_what_came() -> Result<()> {
    let why = rehearsed(&faulty(28)?).await?.err().context("it passed")?;
    let words = "in the scene at gate.txt:71 (A machine that heard 57 refuses 41.)\n\
                 expected:\nrefused: heard=57\n\
                 came:\nadmitted: heard=57";
    assert_eq!(why.to_string(), words);
    Ok(())
}

/// The strict policy in earnest: where the built-in one would try again, the lease is lost.
#[tokio::test(start_paused = true)]
async fn a_strict_policy_gives_up_at_the_first_renewal_that_fails() -> Result<()> {
    let mut world = World::new().await;
    world.policy = load(STRICT).await?;
    for befalls in [Fate::Fails(Fault::Unavailable("the store is away".into())), Fate::AnswerLost] {
        let stand = world.stand("alice").await;
        stand.lease.try_take().await?;
        world.pass(2 * RENEW).await;
        assert!(stand.lease.held(), "renewals that succeed keep it");
        let until = stand.lease.until().context("open")?;
        stand.line.always(&[Kind::Update], &befalls);
        world.pass(2 * RENEW).await;
        assert_eq!(stand.lease.ended(), Some(Ended::Lost(Loss::Overdue)));
        assert!(world.clock.now() < until, "long before its time was over");
        world.pass(4 * RENEW).await;
    }
    Ok(())
}

async fn rehearsed(bytes: &[u8]) -> Result<Result<Report, RehearsalError>> {
    Ok(rehearse(&load(bytes).await?, REHEARSAL).await)
}

async fn load(bytes: &[u8]) -> Result<Policy> {
    static RUNTIME: OnceCell<Runtime> = OnceCell::const_new();
    let runtime = RUNTIME.get_or_try_init(|| async { Runtime::new() }).await?;
    Ok(Policy::load(runtime, bytes).await?)
}
