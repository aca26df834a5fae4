//! Does a lease on a real server live through answers that are lost on the way, with one record and no
//! waiting behind itself?

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use incumbent::lease::{Event, Released};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{BucketConfig, Reading, Store as _};
use incumbent::{Lease, LeaseOptions, Policy, Runtime, Vacancy};
use incumbent_tests::nats::NatsServer;
use incumbent_tests::proxy::Proxy;

const SUBJECT: &str = "$KV.leases.office";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_create_update_and_delete_disturb_nothing() -> Result<()> {
    let server = NatsServer::start()?;
    let direct = Nats::connect(NatsOptions::new(server.url())).await?;
    let config = BucketConfig { ttl: Duration::from_secs(60), replicas: 1 };
    let bucket = direct.create_bucket("leases", &config).await?;

    let proxy = Proxy::start(server.address()).await?;
    let mut options = NatsOptions::new(proxy.url());
    options.timeout = Duration::from_millis(500);
    let store = Nats::connect(options).await?;
    let events = Arc::new(Mutex::new(Vec::new()));
    let mut options = LeaseOptions::new("office");
    options.vacancy = Some(Vacancy::Trusted);
    let heard = events.clone();
    options.on_event = Arc::new(move |event| heard.lock().expect("not poisoned").push(event.clone()));
    let policy = Policy::built_in(&Runtime::new()?).await?;
    let lease = Lease::open(&policy, &store, "leases", options).await?;

    proxy.drop_answers(SUBJECT, 1);
    let epoch = lease.take().await?;
    proxy.until(|counts| counts.dropped == 1).await?;
    let holder = lease.current().await?;
    ensure!(holder.as_ref().is_some_and(|holder| holder.instance == lease.identity().instance), "{holder:?}");

    proxy.drop_answers(SUBJECT, 1);
    ensure!(lease.renew().await? == epoch, "the gate stays open while the answer is missing");
    proxy.until(|counts| counts.dropped == 2).await?;
    ensure!(lease.renew().await? == epoch, "and after it was found");

    proxy.drop_answers(SUBJECT, 1);
    ensure!(lease.release().await == Released::GivenBack);
    proxy.until(|counts| counts.dropped == 3).await?;
    ensure!(matches!(bucket.get("office").await?, Reading::Deleted(_)), "given back");

    let events = events.lock().expect("not poisoned").clone();
    ensure!(events.iter().any(|event| matches!(event, Event::RenewalFailed { .. })), "{events:?}");
    let disturbed =
        |event: &Event| matches!(event, Event::Refused { .. } | Event::Lost { .. } | Event::Waiting { .. });
    ensure!(!events.iter().any(disturbed), "{events:?}");
    Ok(())
}
