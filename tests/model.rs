//! Every state of a lease within small bounds: what holds, and what each rule of vacancy is worth.

use anyhow::anyhow;
use incumbent_model::{Bounds, Config, Expiry, Faults, Invariant, Report, Sometimes, explore, vacancy_table};
use incumbent_policy::Decisions;
use incumbent_policy::lease::Vacancy;

pub(crate) struct BuiltIn;

impl Decisions for BuiltIn {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = "0.0.0";
}

pub(crate) const NONE: Faults = Faults {
    looks: 3,
    lost_answer: 0,
    late: 0,
    duplicate: 0,
    unavailable: 0,
    denied: 0,
    stale: 0,
    cut: 0,
    crash: 0,
    release: 0,
    ask: 0,
    wipe: 0,
    forget_create: 0,
    forget_renewal: 0,
    step: 0,
    gains: 0,
    loses: 0,
};

pub(crate) fn bounds(horizon: u8, faults: Faults) -> Config {
    Config { expiry: Expiry::Either, faults, ..Config::two(horizon) }
}

pub(crate) fn run<P: Decisions>(config: &Config) -> anyhow::Result<Report> {
    explore::<P>(config).map_err(|why| anyhow!(why))
}

#[test]
fn in_every_state_the_invariants_hold_and_each_fault_has_shown_what_it_can() -> anyhow::Result<()> {
    use Sometimes::{
        AgesOutUnderItsHolder, AllHaveHeld, DiesHolding, FailedRenewalIsMadeAgain, GivesWay, IsCutOff,
        IsSuperseded, LandsLate, LateIsRefused, LostTakeIsAdopted, ReadsStale, StandsAnew,
        TakenAfterARelease, Unwritable, WakesAfterATakeover,
    };
    let each: [(Faults, &[Sometimes]); 5] = [
        (
            Faults { late: 1, ..NONE },
            &[
                AllHaveHeld,
                AgesOutUnderItsHolder,
                LandsLate,
                LostTakeIsAdopted,
                IsSuperseded,
                WakesAfterATakeover,
            ],
        ),
        (Faults { crash: 1, cut: 1, ..NONE }, &[DiesHolding, StandsAnew, IsCutOff]),
        (Faults { release: 1, duplicate: 1, ..NONE }, &[TakenAfterARelease, LateIsRefused]),
        (Faults { ask: 1, stale: 1, ..NONE }, &[GivesWay, ReadsStale]),
        (Faults { unavailable: 1, denied: 1, ..NONE }, &[FailedRenewalIsMadeAgain, Unwritable]),
    ];
    for (faults, sometimes) in each {
        let mut config = bounds(4, faults);
        config.objects += faults.crash;
        config.sometimes = sometimes.to_vec();
        let report = run::<BuiltIn>(&config)?;
        assert!(report.violation.is_none(), "{:#?}", report.violation);
        assert!(report.missing.is_empty(), "{faults:?}: never {:?}", report.missing);
        assert!(report.exhausted, "{faults:?}");
    }
    Ok(())
}

#[test]
fn a_lost_tenure_is_not_taken_up_again_whatever_the_store_forgets() -> anyhow::Result<()> {
    use Sometimes::{ForgottenUnderAHolder, IsGone, IsRaisedAgain, MovesTheFloor, WipedUnderAHolder};
    let each: [(Faults, &[Sometimes]); 2] = [
        (Faults { wipe: 1, ..NONE }, &[WipedUnderAHolder, MovesTheFloor, IsRaisedAgain]),
        (Faults { forget_create: 1, forget_renewal: 1, ..NONE }, &[ForgottenUnderAHolder, IsGone]),
    ];
    for (faults, sometimes) in each {
        let mut config = bounds(4, faults);
        config.rule = Vacancy::Trusted;
        config.judged = vec![Invariant::LostIsLost];
        config.sometimes = sometimes.to_vec();
        let report = run::<BuiltIn>(&config)?;
        assert!(report.violation.is_none() && report.exhausted, "{:#?}", report.violation);
        assert!(report.missing.is_empty(), "{faults:?}: never {:?}", report.missing);
    }
    Ok(())
}

/// An instance that knows the floor: whatever was wiped, its own next epoch is above.
#[test]
fn epochs_rise_over_a_wiped_bucket_for_one_who_knows_the_floor() -> anyhow::Result<()> {
    let report = run::<BuiltIn>(&alone_and_wiped())?;
    assert!(report.violation.is_none() && report.exhausted, "{:#?}", report.violation);
    assert!(report.missing.is_empty(), "{:?}", report.missing);
    Ok(())
}

pub(crate) fn alone_and_wiped() -> Config {
    let mut config = bounds(4, Faults { wipe: 1, crash: 1, ..NONE });
    (config.instances, config.objects, config.rule) = (1, 2, Vacancy::Trusted);
    config.judged = vec![Invariant::EpochsOnlyRise];
    config.sometimes = vec![Sometimes::MovesTheFloor];
    config
}

#[test]
fn the_table_of_vacancies_is_as_the_model_finds_it() -> anyhow::Result<()> {
    let found = vacancy_table::<BuiltIn>(Bounds::QUICK).map_err(|why| anyhow!(why))?;
    assert_eq!(found, TABLE, "\n{found}");
    Ok(())
}

const TABLE: &str = include_str!("model/vacancy.md");
