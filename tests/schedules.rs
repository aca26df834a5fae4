//! What several threads share, in orders drawn by a seed (`schedules/src/drawn.rs`).

use incumbent_schedules::drawn;

#[test]
fn no_order_that_is_drawn_breaks_what_threads_share() {
    let ran = drawn::run(12_000, 1).unwrap_or_else(|why| panic!("{why}"));
    assert!(ran.all >= 12_000 && ran.whole >= 300 && ran.followed >= 200, "only {ran:?} were drawn");
}
