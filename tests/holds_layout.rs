//! Do other programs on the same buckets and queues see what they know, and are they left alone? A real
//! nats-server, and async-nats in the part of the Go programs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::jetstream::consumer::{AckPolicy, pull, push};
use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use incumbent::clock::Clock;
use incumbent::holds::{
    Authority, Buckets, Builder, BuilderOptions, Job, Kind, Lost, NotInOffice, Plans, status,
};
use incumbent::policy::{Policy, Runtime};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::queue::QueueConfig;
use incumbent::store::{Fault, Store};
use incumbent::{LetThrough, Report};
use incumbent_tests::nats::NatsServer;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

struct Seat {
    policy: Policy,
    store: Arc<dyn Store>,
    js: Context,
    plans: kv::Store,
    running: kv::Store,
    _server: NatsServer,
}

impl Seat {
    /// With buckets made by another program, and a queue `checks` of our own.
    async fn new() -> Result<Self> {
        let server = NatsServer::start()?;
        let js = jetstream::new(async_nats::connect(server.url()).await?);
        let bucket = |name: &str| kv::Config {
            bucket: name.into(),
            max_age: Duration::from_secs(120),
            history: 1,
            ..Default::default()
        };
        let plans = js.create_key_value(bucket("mesh-controller_plans-building")).await?;
        let running = js.create_key_value(bucket("mesh-controller_checks-running")).await?;
        let mut options = NatsOptions::new(server.url());
        options.timeout = PATIENCE;
        let store: Arc<dyn Store> = Arc::new(Nats::connect(options).await?);
        let config = QueueConfig { ack_wait: Duration::from_secs(2), replicas: 1 };
        store.create_queue("checks", &config).await?;
        let policy = Policy::built_in(&Runtime::new()?).await?;
        Ok(Self { policy, store, js, plans, running, _server: server })
    }

    async fn builder(&self, queues: &[&str]) -> Result<Builder> {
        let mut options = BuilderOptions::new("alice");
        options.checks = queues.iter().map(|&name| name.into()).collect();
        options.after = HOUR;
        Ok(Builder::open(&self.policy, &self.store, options).await?)
    }

    fn controller(&self) -> Plans {
        let (buckets, clock) = (Buckets::default(), Clock::machine());
        Plans::new(&self.policy, &self.store, &buckets, &clock, Arc::new(InOffice), Arc::new(|_: &_| ()))
    }

    async fn status(&self) -> Result<Report> {
        Ok(status(&self.policy, &self.store, &Buckets::default(), &Clock::machine()).await?)
    }

    async fn put(&self, queue: &str, id: &str) -> Result<()> {
        self.store.queue(queue).await?.put(format!(r#"{{"id":"{id}"}}"#).as_bytes()).await?;
        Ok(())
    }

    /// A check that was let through while another program said that a plan builds.
    async fn let_through(&self) -> Result<Job> {
        self.plans.put("plan-1652", GO_PLAN.into()).await?;
        self.put("checks", &build_id(old())).await?;
        self.builder(&["checks"]).await?.try_next().await.context("no check was let through")
    }
}

struct InOffice;

#[async_trait]
impl Authority for InOffice {
    async fn in_office(&self) -> Result<u64, NotInOffice> {
        Ok(1)
    }
}

/// What a Go program writes.
const GO_PLAN: &str =
    r#"{"plan":"plan-1652","since":"2026-01-02T03:04:05.123456789Z","seen":"2026-01-02T03:04:35.1Z"}"#;
const GO_CHECK: &str = r#"{"builder":"go","since":"2026-01-02T03:04:05.123456789Z"}"#;

/// The text between these two, which must be a time as Go's `time.Time` writes and reads it.
fn time<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let (_, rest) = text.split_once(before).with_context(|| format!("no {before} in {text}"))?;
    let (time, _) = rest.split_once(after).with_context(|| format!("no {after} in {text}"))?;
    let plain = time.strip_suffix('Z').with_context(|| format!("{time} is not in UTC"))?;
    let (seconds, fraction) = plain.split_once('.').unwrap_or((plain, "0"));
    let shape: String = seconds.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let digits = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(shape == "0000-00-00T00:00:00" && digits, "{time} is no RFC 3339 time");
    Ok(time)
}

async fn value(bucket: &kv::Store, key: &str) -> Result<(u64, String)> {
    let entry = bucket.entry(key).await?.with_context(|| format!("{key} is not there"))?;
    ensure!(entry.operation == Operation::Put, "{key} was deleted");
    Ok((entry.revision, String::from_utf8(entry.value.to_vec())?))
}

fn old() -> u64 {
    now() - 2 * 3_600_000
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the year 500 million")
}

fn build_id(ms: u64) -> String {
    format!("build-{ms}-a1b2")
}

fn uuid7(ms: u64) -> String {
    let hex = format!("{ms:012x}");
    format!("{}-{}-7abc-9def-0123456789ab", &hex[..8], &hex[8..])
}

fn ulid(ms: u64) -> String {
    let digit = |at: u32| char::from(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(ms >> (5 * at) & 31) as usize]);
    (0..10).rev().map(digit).chain("0123456789ABCDEF".chars()).collect()
}

#[tokio::test]
async fn a_plan_is_written_as_its_other_readers_know_it() -> Result<()> {
    let seat = Seat::new().await?;
    let plans = seat.controller();
    let building = plans.begin("plan-1652").await?;
    let (first, text) = value(&seat.plans, "plan-1652").await?;
    let since = time(&text, r#""since":""#, "\"")?;
    ensure!(since == building.since(), "{text}");
    ensure!(text == format!(r#"{{"plan":"plan-1652","since":"{since}","seen":"{since}"}}"#), "{text}");

    plans.say("plan-1652").await?;
    let (second, again) = value(&seat.plans, "plan-1652").await?;
    let seen = time(&again, r#""seen":""#, "\"")?;
    ensure!(second > first && seen != since, "{again}");
    ensure!(again == format!(r#"{{"plan":"plan-1652","since":"{since}","seen":"{seen}"}}"#), "{again}");

    ensure!(plans.end("plan-1652").await?);
    let entry = seat.plans.entry("plan-1652").await?.context("its marker")?;
    ensure!(entry.operation == Operation::Delete, "{entry:?}");
    drop(building);
    Ok(())
}

#[tokio::test]
async fn the_let_through_key_is_written_kept_and_dropped_as_others_know_it() -> Result<()> {
    let seat = Seat::new().await?;
    let job = seat.let_through().await?;
    let (first, text) = value(&seat.running, "let-through").await?;
    let since = time(&text, r#""since":""#, "\"")?;
    ensure!(text == format!(r#"{{"builder":"alice","since":"{since}"}}"#), "{text}");
    ensure!(*job.kind() == Kind::LetThrough { since: since.into() }, "{job:?}");
    let kept = async {
        loop {
            let (revision, again) = value(&seat.running, "let-through").await?;
            ensure!(again == text, "{again}");
            if revision > first + 1 {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, kept).await.context("it is not kept")??;
    job.done().await?;
    let entry = seat.running.entry("let-through").await?.context("its marker")?;
    ensure!(entry.operation == Operation::Delete, "{entry:?}");
    Ok(())
}

#[tokio::test]
async fn what_another_program_writes_is_read() -> Result<()> {
    let seat = Seat::new().await?;
    let builder = seat.builder(&["checks"]).await?;
    seat.put("checks", &build_id(old())).await?;
    seat.plans.put("plan-1652", GO_PLAN.into()).await?;
    seat.plans.put("no-plan", "{}".into()).await?;
    seat.running.put("owner.repo.17", "{}".into()).await?;
    seat.running.put("let-through", GO_CHECK.into()).await?;
    let report = seat.status().await?;
    let since = "2026-01-02T03:04:05.123456789Z".to_owned();
    let let_through = Some(LetThrough { builder: "go".into(), since: since.clone() });
    ensure!(report == Report { plans: vec!["plan-1652".into()], let_through }, "{report:?}");
    ensure!(builder.try_next().await.is_none(), "a second one was let through");

    // What is no JSON is a key all the same.
    seat.running.put("let-through", "not JSON".into()).await?;
    ensure!(seat.status().await?.let_through.is_none());
    ensure!(builder.try_next().await.is_none(), "a second one was let through");
    ensure!(value(&seat.running, "let-through").await?.1 == "not JSON");

    seat.running.delete("let-through").await?;
    ensure!(seat.status().await?.let_through.is_none());
    let job = builder.try_next().await.context("none was let through")?;
    ensure!(matches!(job.kind(), Kind::LetThrough { .. }), "{job:?}");
    job.hand_back(Duration::ZERO).await?;

    // Our controller goes on with their plan, since when they say; and they end it.
    ensure!(seat.controller().say("plan-1652").await?.since == since);
    let (_, text) = value(&seat.plans, "plan-1652").await?;
    ensure!(text.starts_with(&format!(r#"{{"plan":"plan-1652","since":"{since}","seen":"2"#)), "{text}");
    seat.plans.delete("plan-1652").await?;
    ensure!(seat.status().await? == Report { plans: Vec::new(), let_through: None });
    let job = builder.try_next().await.context("nothing builds")?;
    ensure!(*job.kind() == Kind::Check && job.deliveries() == 2, "{job:?}");
    Ok(())
}

#[tokio::test]
async fn a_key_that_another_program_wrote_over_is_left_alone() -> Result<()> {
    let seat = Seat::new().await?;
    // Put over it, and deleted and created anew, as after its age.
    for deleted in [false, true] {
        let job = seat.let_through().await?;
        if deleted {
            seat.running.delete("let-through").await?;
            seat.running.create("let-through", GO_CHECK.into()).await?;
        } else {
            seat.running.put("let-through", GO_CHECK.into()).await?;
        }
        let theirs = value(&seat.running, "let-through").await?;
        timeout(PATIENCE, job.lost()).await.context("the job is not told")?;
        ensure!(job.why_lost() == Some(Lost::Key), "{:?}", job.why_lost());
        // Not at the time, not at later beats, not at the end.
        sleep(Duration::from_secs(1)).await;
        job.done().await?;
        ensure!(value(&seat.running, "let-through").await? == theirs);
        seat.running.delete("let-through").await?;
    }
    // Ended at once, before any beat.
    let job = seat.let_through().await?;
    seat.running.put("let-through", GO_CHECK.into()).await?;
    let theirs = value(&seat.running, "let-through").await?;
    job.done().await?;
    ensure!(value(&seat.running, "let-through").await? == theirs);
    Ok(())
}

#[tokio::test]
async fn a_queue_made_elsewhere_gives_its_asks_and_their_ages() -> Result<()> {
    let seat = Seat::new().await?;
    for direct in [false, true] {
        let name = if direct { "ASKS" } else { "PLAIN" };
        let stream = seat
            .js
            .create_stream(Config {
                name: name.into(),
                subjects: vec![format!("{name}.*")],
                retention: RetentionPolicy::WorkQueue,
                allow_direct: direct,
                ..Config::default()
            })
            .await?;
        for kind in ["check", "deploy"] {
            let config = pull::Config {
                durable_name: Some(kind.into()),
                filter_subject: format!("{name}.{kind}"),
                ack_wait: Duration::from_secs(30),
                ..Default::default()
            };
            stream.create_consumer(config).await?;
        }
        let publish = async |kind: &str, body: String| {
            anyhow::Ok(seat.js.publish(format!("{name}.{kind}"), body.into()).await?.await?.sequence)
        };
        let queue = format!("{name}/check");
        let builder = seat.builder(&["checks", &queue]).await?;
        seat.plans.put("plan-1652", GO_PLAN.into()).await?;
        // What is before it in the stream and another consumer's does not count.
        publish("deploy", format!(r#"{{"id":"{}"}}"#, build_id(old() - 1))).await?;
        for id in [build_id, uuid7, ulid] {
            // Younger, or with a time ahead of this one, or without one that is said: it waits.
            for young in [id(now() - 60_000), id(now() + 60_000), "no-time".into()] {
                let at = publish("check", format!(r#"{{"kind":"check","id":"{young}"}}"#)).await?;
                ensure!(builder.try_next().await.is_none(), "{young} was let through");
                stream.delete_message(at).await?;
            }
            let id = id(old());
            let at = publish("check", format!(r#"{{"kind":"check","id":"{id}"}}"#)).await?;
            let job = builder.try_next().await.with_context(|| format!("{id} was not let through"))?;
            ensure!((job.queue(), job.ask().sequence) == (queue.as_str(), at), "{job:?}");
            ensure!(job.id() == Some(id), "{job:?}");
            job.done().await?;
        }
        // The oldest of the queues goes first.
        seat.put("checks", &build_id(old() + 1)).await?;
        publish("check", format!(r#"{{"id":"{}"}}"#, build_id(old() - 5000))).await?;
        for from in [queue.as_str(), "checks"] {
            let job = builder.try_next().await.context("none was let through")?;
            ensure!(job.queue() == from, "{job:?} before {from}");
            job.done().await?;
        }
        // Without a time in it an ask is as old as the stream says.
        let at = publish("check", "no JSON".into()).await?;
        let mut options = BuilderOptions::new("alice");
        (options.checks, options.after) = (vec![queue.clone()], Duration::from_secs(1));
        let builder = Builder::open(&seat.policy, &seat.store, options).await?;
        let job = timeout(PATIENCE, builder.next()).await.context("none was let through")?;
        ensure!(job.ask().sequence == at && job.id().is_none(), "{job:?}");
        job.done().await?;

        let put = seat.store.queue(&queue).await?.put(b"{}").await;
        let Err(Fault::Denied(text)) = put else { bail!("{put:?}") };
        ensure!(text.contains("made elsewhere") && text.contains(&format!("{name}.*")), "{text}");
        ensure!(stream.get_info().await?.state.messages == 1, "the other consumer's ask is there still");
    }
    Ok(())
}

#[tokio::test]
async fn a_consumer_that_gives_no_work_is_refused() -> Result<()> {
    let seat = Seat::new().await?;
    let config = Config { name: "LOG".into(), subjects: vec!["log".into()], ..Config::default() };
    let stream = seat.js.create_stream(config).await?;
    let none =
        pull::Config { durable_name: Some("none".into()), ack_policy: AckPolicy::None, ..Default::default() };
    stream.create_consumer(none).await?;
    let push = push::Config {
        durable_name: Some("push".into()),
        deliver_subject: "to.somebody".into(),
        ..Default::default()
    };
    stream.create_consumer(push).await?;
    for name in ["none", "push"] {
        let opened = seat.builder(&[&format!("LOG/{name}")]).await;
        let text = opened.expect_err("it gives no work").to_string();
        ensure!(text.contains(&format!("the consumer {name} of the stream LOG")), "{text}");
        ensure!(text.contains("must be a pull consumer with explicit acknowledgements"), "{text}");
    }
    for missing in ["LOG/nobody", "NOWHERE/nobody"] {
        let text = seat.builder(&[missing]).await.expect_err("it is not there").to_string();
        ensure!(text.contains(&format!("{missing:?} does not exist")), "{text}");
    }
    Ok(())
}
