//! Very many leases in one process, while one answer in a hundred is lost.

use std::sync::Arc;
use std::time::Duration;

use incumbent::store::Store;
use incumbent_tests::fleet::{Fleet, WINDOW, lose_one_in_a_hundred};
use incumbent_tests::world::{BUCKET, World, policy};

const MANY: usize = 1000;
const A_WHILE: Duration = Duration::from_secs(600);
const TTL: Duration = Duration::from_secs(60);
const RENEW: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_are_kept_for_ten_minutes_and_renewed_in_turn() {
    let world = World::with_ttl(TTL).await;
    let line = world.faulty.line("alice");
    let store: Arc<dyn Store> = Arc::new(line.clone());
    let fleet = Fleet::new(policy().await, &store, BUCKET, &world.clock);
    fleet.spawn(0, MANY);
    world.until(RENEW, fleet.work(MANY)).await;
    let renewals = MANY * usize::try_from(A_WHILE.as_secs() / RENEW.as_secs()).expect("fits");
    lose_one_in_a_hundred(&line, renewals);
    fleet.count_from_now();
    world.pass(A_WHILE).await;
    assert_eq!(fleet.ended(), 0, "none was lost");
    assert!(fleet.renewed() >= renewals * 9 / 10, "{} renewals", fleet.renewed());
    let (most, average) = fleet.most_and_average(A_WHILE);
    assert!((most as f64) <= 3.0 * average, "{most} within {WINDOW:?}, {average:.1} on the average");
}
