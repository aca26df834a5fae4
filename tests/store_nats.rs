//! NATS alone: who is let in, what a bucket is to other clients, and markers.
//!
//! What it shares with the other stores is in `store_contract`; what is lost on the way in
//! `store_nats_faults`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use incumbent::limits::{NAME_BYTES, VALUE_BYTES};
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::{Bucket, BucketConfig, Fault, Reading, Store as _, Write};
use incumbent_tests::nats::{JETSTREAM, NatsServer};

/// Generous: no test waits for it, unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const TTL: Duration = Duration::from_secs(60);

pub(crate) async fn connect(url: &str) -> Result<Nats> {
    let mut options = NatsOptions::new(url);
    options.timeout = PATIENCE;
    Ok(Nats::connect(options).await?)
}

/// The bucket "leases", made where it is missing.
pub(crate) async fn leases(url: &str, ttl: Duration) -> Result<Arc<dyn Bucket>> {
    Ok(connect(url).await?.create_bucket("leases", &BucketConfig { ttl, replicas: 1 }).await?)
}

pub(crate) fn written(write: Write) -> Result<u64> {
    match write {
        Write::Written(revision) => Ok(revision),
        Write::Stale(there) => anyhow::bail!("lost to {there:?}"),
    }
}

/// Users of one server. The bucket is made by "admin".
const USERS: &str = r#"
authorization { users: [
    { user: admin, password: "p@ss,w/rd" }
    { user: holder, password: h, permissions: {
        publish: ["$JS.API.STREAM.INFO.KV_leases", "$JS.API.STREAM.MSG.GET.KV_leases", "$KV.leases.mine",
                  "$JS.API.CONSUMER.CREATE.KV_leases.*.$KV.leases.mine"]
        subscribe: ["_INBOX.>"] } }
    { user: lister, password: l, permissions: {
        publish: ["$JS.API.STREAM.INFO.KV_leases", "$JS.API.CONSUMER.CREATE.KV_leases.*.$KV.leases.>"]
        subscribe: ["_INBOX.>"] } }
    { user: deaf, password: d, permissions: { publish: [">"], subscribe: ["nothing"] } }
] }
"#;

fn with_users() -> Result<NatsServer> {
    NatsServer::configured(&format!("{JETSTREAM}\n{USERS}"))
}

fn as_user(server: &NatsServer, user: &str) -> String {
    format!("nats://{user}@{}", server.address())
}

const ADMIN: &str = "admin:p%40ss%2Cw%2Frd";

#[tokio::test]
async fn wrong_credentials_are_denied_and_not_repeated() -> Result<()> {
    let server = with_users()?;
    let fault = connect(&as_user(&server, "admin:hunter2")).await.expect_err("a wrong password was taken");
    let Some(Fault::Denied(text)) = fault.downcast_ref() else { panic!("{fault:?}") };
    ensure!(text.contains(&server.url()) && !text.contains("hunter2"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() -> Result<()> {
    // Bound and dropped: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let fault = connect(&format!("nats://alice:secret@{address}")).await.expect_err("nobody listens");
    let Some(Fault::Unavailable(text)) = fault.downcast_ref() else { panic!("{fault:?}") };
    ensure!(text.contains(&address.to_string()) && !text.contains("secret"), "{text}");
    Ok(())
}

/// Greets as a server of this version, and answers a ping.
fn server_of_version(version: &str) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("nats://{}", listener.local_addr()?);
    let info =
        serde_json::json!({ "server_id": "x", "version": version, "headers": true, "max_payload": 1 << 20 });
    std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        writeln!(stream, "INFO {info}\r")?;
        for line in BufReader::new(stream.try_clone()?).lines() {
            if line?.starts_with("PING") {
                stream.write_all(b"PONG\r\n")?;
            }
        }
        Ok(())
    });
    Ok(url)
}

#[tokio::test]
async fn an_older_server_is_refused_with_both_versions() -> Result<()> {
    for version in ["2.9.10", "2.10.22", "2.10.23-RC.1", "nonsense"] {
        let fault = connect(&server_of_version(version)?).await.expect_err("an old server was taken");
        let Some(Fault::Denied(text)) = fault.downcast_ref() else { panic!("{version}: {fault:?}") };
        ensure!(text.contains(version) && text.contains("2.10.23"), "{text}");
    }
    for version in ["2.10.23", "2.16.0-preview", "v2.11.4"] {
        connect(&server_of_version(version)?).await.context(version)?;
    }
    Ok(())
}

#[tokio::test]
async fn without_jetstream_the_remedy_is_named() -> Result<()> {
    let off = NatsServer::configured("")?;
    let fault = connect(&off.url()).await?.bucket("leases").await.expect_err("no jetstream");
    ensure!(matches!(&fault, Fault::Denied(text) if text.contains("-js")), "{fault:?}");
    let fault = leases(&off.url(), TTL).await.expect_err("no jetstream");
    ensure!(matches!(fault.downcast_ref(), Some(Fault::Denied(text)) if text.contains("-js")), "{fault:?}");

    let accounts = "accounts { A: { users: [{ user: alice, password: a }] } }";
    let not_here = NatsServer::configured(&format!("{JETSTREAM}\n{accounts}"))?;
    let store = connect(&as_user(&not_here, "alice:a")).await?;
    let fault = store.bucket("leases").await.expect_err("no jetstream in this account");
    ensure!(matches!(&fault, Fault::Denied(text) if text.contains("account")), "{fault:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_not_permitted_is_denied_at_once() -> Result<()> {
    let server = with_users()?;
    let admin = leases(&as_user(&server, ADMIN), TTL).await?;
    let revision = written(admin.create("other", b"bob").await?)?;
    let begun = Instant::now();

    let holder = connect(&as_user(&server, "holder:h")).await?.bucket("leases").await?;
    let denied = [
        holder.create("other", b"alice").await.map(drop),
        holder.update("other", b"alice", revision).await.map(drop),
        holder.delete("other", revision).await.map(drop),
        holder.keys().await.map(drop),
        holder.purge_below(57).await.map(drop),
        holder.watch("other").await.map(drop),
    ];
    let lister = connect(&as_user(&server, "lister:l")).await?.bucket("leases").await?;
    let deaf = connect(&as_user(&server, "deaf:d")).await?;
    let others = [
        lister.get("other").await.map(drop),
        deaf.bucket("leases").await.map(drop),
        // The server says it once a connection; the second call must know.
        deaf.bucket("leases").await.map(drop),
    ];
    for outcome in denied.into_iter().chain(others) {
        ensure!(
            matches!(&outcome, Err(Fault::Denied(text)) if text.contains("Permissions Violation")),
            "{outcome:?}"
        );
    }

    ensure!(begun.elapsed() < PATIENCE, "a denial was waited for");
    ensure!(matches!(admin.get("other").await?, Reading::Found(entry) if entry.value == b"bob"));
    Ok(())
}

#[tokio::test]
async fn the_documented_permissions_are_enough() -> Result<()> {
    let server = with_users()?;
    leases(&as_user(&server, ADMIN), TTL).await?;

    let holder = connect(&as_user(&server, "holder:h")).await?.bucket("leases").await?;
    let mut watch = holder.watch("mine").await?;
    let taken = written(holder.create("mine", b"alice").await?)?;
    ensure!(watch.changed().await);
    let renewed = written(holder.update("mine", b"alice again", taken).await?)?;
    written(holder.delete("mine", renewed).await?)?;
    // Over a marker it takes the second step, too.
    let again = written(holder.create("mine", b"alice").await?)?;
    ensure!(again > renewed);

    let lister = connect(&as_user(&server, "lister:l")).await?.bucket("leases").await?;
    ensure!(lister.keys().await? == ["mine"]);
    Ok(())
}

#[tokio::test]
async fn a_missing_bucket_is_told_with_the_command_and_without_the_password() -> Result<()> {
    let server = with_users()?;
    let store = connect(&as_user(&server, ADMIN)).await?;
    let fault = store.bucket("leases").await.expect_err("there is no bucket");
    let Fault::MissingBucket(text) = &fault else { panic!("{fault:?}") };
    ensure!(text.contains(&format!("incumbent bucket create leases --store {}", server.url())), "{text}");
    ensure!(!text.contains("p@ss"), "{text}");

    // One that goes away later, and one whose name is no stream's.
    let bucket = leases(&as_user(&server, ADMIN), TTL).await?;
    raw(&as_user(&server, "admin"), Some("p@ss,w/rd")).await?.delete_stream("KV_leases").await?;
    let gone = [
        bucket.get("k").await.map(drop),
        bucket.create("k", b"v").await.map(drop),
        bucket.update("k", b"v", 7).await.map(drop),
        bucket.info().await.map(drop),
        bucket.last_revision().await.map(drop),
        bucket.keys().await.map(drop),
        bucket.purge_below(57).await.map(drop),
        bucket.watch("k").await.map(drop),
    ];
    for outcome in gone {
        ensure!(matches!(outcome, Err(Fault::MissingBucket(_))), "{outcome:?}");
    }
    ensure!(matches!(store.bucket("a.b").await, Err(Fault::Denied(_))));
    Ok(())
}

/// What another NATS program sees.
async fn raw(url: &str, password: Option<&str>) -> Result<async_nats::jetstream::Context> {
    let address = url.rsplit('@').next().unwrap_or_default().trim_start_matches("nats://");
    let options = async_nats::ConnectOptions::new();
    let options = match password {
        Some(password) => options.user_and_password("admin".into(), password.into()),
        None => options,
    };
    Ok(async_nats::jetstream::new(options.connect(address).await?))
}

#[tokio::test]
async fn the_ttl_is_exact_and_a_bucket_with_another_is_refused() -> Result<()> {
    let server = NatsServer::start()?;
    let odd = Duration::from_millis(999);
    let bucket = leases(&server.url(), odd).await?;
    let info = bucket.info().await?;
    ensure!(info.ttl == odd && info.markers == server.knows_markers(), "{info:?}");
    // The same again is left alone.
    ensure!(leases(&server.url(), odd).await?.info().await? == info);

    let store = connect(&server.url()).await?;
    let fault = leases(&server.url(), TTL).await.expect_err("another ttl");
    let Some(Fault::Denied(text)) = fault.downcast_ref() else { panic!("{fault:?}") };
    ensure!(text.contains("999ms") && text.contains("60s"), "{text}");
    // One server cannot keep three copies.
    let three = store.create_bucket("three", &BucketConfig { ttl: TTL, replicas: 3 }).await;
    ensure!(matches!(three, Err(Fault::Denied(_))), "{three:?}");
    Ok(())
}

#[tokio::test]
async fn another_program_reads_and_writes_the_same_bucket() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let name = "labeler:did:plc:abc";
    let revision = written(bucket.create(name, b"alice").await?)?;

    let js = raw(&server.url(), None).await?;
    let theirs = js.get_key_value("leases").await?;
    let token = "labeler=3Adid=3Aplc=3Aabc";
    let entry = theirs.entry(token).await?.context("they see nothing")?;
    ensure!(entry.revision == revision && entry.value.as_ref() == b"alice");
    let status = theirs.status().await?;
    ensure!(status.max_age() == TTL && status.history() == 1);

    // They delete it, purge it, write it.
    theirs.delete(token).await?;
    ensure!(matches!(bucket.get(name).await?, Reading::Deleted(at) if at > revision));
    theirs.purge(token).await?;
    ensure!(bucket.get(name).await? == Reading::Absent);
    let again = written(bucket.create(name, b"bob").await?)?;
    let put = theirs.put(token, "carol".into()).await?;
    ensure!(bucket.update(name, b"bob", again).await? == Write::Stale(None));
    ensure!(matches!(bucket.get(name).await?, Reading::Found(entry) if entry.revision == put));

    // A bucket of theirs, made without a ttl, and a stream that only looks like a bucket.
    let config = async_nats::jetstream::kv::Config { bucket: "forever".into(), ..Default::default() };
    js.create_key_value(config).await?;
    let info = connect(&server.url()).await?.bucket("forever").await?.info().await?;
    ensure!(info.ttl.is_zero() && !info.markers, "{info:?}");
    let config = async_nats::jetstream::stream::Config {
        name: "KV_odd".into(),
        subjects: vec!["odd".into()],
        ..Default::default()
    };
    js.create_stream(config).await?;
    let odd = connect(&server.url()).await?.bucket("odd").await;
    ensure!(matches!(odd, Err(Fault::Denied(_))), "{odd:?}");
    Ok(())
}

#[tokio::test]
async fn keys_come_back_as_they_were_named() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    ensure!(bucket.keys().await?.is_empty());
    let longest = ":".repeat(NAME_BYTES);
    let mut names = ["labeler:did:plc:abc", "..", "*", ">", " ", "é", "$", "=3A", "a.b", &longest]
        .map(String::from)
        .to_vec();
    names.extend((0..300).map(|n| format!("worker-{n}")));
    for name in &names {
        written(bucket.create(name, name.as_bytes()).await?)?;
    }
    for name in &names {
        ensure!(
            matches!(bucket.get(name).await?, Reading::Found(entry) if entry.value == name.as_bytes()),
            "{name}"
        );
    }
    let gone = written(bucket.create("gone", b"").await?)?;
    written(bucket.delete("gone", gone).await?)?;
    // A key that no name encodes to is shown as it stands.
    raw(&server.url(), None).await?.get_key_value("leases").await?.put("by.another", "x".into()).await?;
    names.push("by.another".into());
    names.sort_unstable();
    ensure!(bucket.keys().await? == names);
    Ok(())
}

#[tokio::test]
async fn a_value_over_the_limit_is_refused_on_write_and_on_read() -> Result<()> {
    let server = NatsServer::configured(&format!("{JETSTREAM}\nmax_payload: 8MB"))?;
    let bucket = leases(&server.url(), TTL).await?;
    let too_large = bucket.create("k", &vec![0; VALUE_BYTES + 1]).await;
    ensure!(matches!(too_large, Err(Fault::TooLarge(_))), "{too_large:?}");
    ensure!(bucket.last_revision().await? == 0);

    let revision = written(bucket.create("k", &vec![7; VALUE_BYTES]).await?)?;
    ensure!(matches!(bucket.get("k").await?, Reading::Found(entry) if entry.value.len() == VALUE_BYTES));
    let kv = raw(&server.url(), None).await?.get_key_value("leases").await?;
    let bomb = kv.update("k", vec![0; 2 << 20].into(), revision).await?;
    let read = bucket.get("k").await;
    ensure!(matches!(&read, Err(Fault::TooLarge(text)) if text.contains("2097152")), "{read:?}");
    // It can still be got rid of.
    written(bucket.delete("k", bomb).await?)?;
    Ok(())
}

#[tokio::test]
async fn a_small_server_refuses_a_value_that_it_would_cut_off_for() -> Result<()> {
    let server = NatsServer::configured(&format!("{JETSTREAM}\nmax_payload: 2KB"))?;
    let bucket = leases(&server.url(), TTL).await?;
    let refused = bucket.create("k", &[0; 4096]).await;
    ensure!(matches!(refused, Err(Fault::TooLarge(_))), "{refused:?}");
    written(bucket.create("k", b"small").await?)?;
    Ok(())
}

#[tokio::test]
async fn a_key_that_ages_out_leaves_a_marker_that_readers_and_watchers_see() -> Result<()> {
    let server = NatsServer::start()?;
    if !server.knows_markers() {
        return Ok(());
    }
    let bucket = leases(&server.url(), Duration::from_secs(1)).await?;
    let revision = written(bucket.create("k", b"alice").await?)?;
    let mut watch = bucket.watch("k").await?;
    let aged = tokio::time::timeout(PATIENCE, async {
        loop {
            ensure!(watch.changed().await, "the watch ended");
            if let Reading::Aged(at) = bucket.get("k").await? {
                return Ok(at);
            }
        }
    });
    let aged = aged.await.context("no marker came")??;
    ensure!(aged > revision);
    ensure!(bucket.keys().await?.is_empty());
    ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
    ensure!(bucket.update("k", b"late", aged).await? == Write::Stale(None));
    ensure!(written(bucket.create("k", b"bob").await?)? > aged);
    Ok(())
}

#[tokio::test]
async fn a_deleted_key_is_free_at_its_marker_and_the_marker_is_nobodys() -> Result<()> {
    let server = NatsServer::start()?;
    // A second connection has not seen the value's revision and must look.
    let (alice, bob) = (leases(&server.url(), TTL).await?, leases(&server.url(), TTL).await?);
    let revision = written(alice.create("k", b"alice").await?)?;
    let marker = written(alice.delete("k", revision).await?)?;
    for bucket in [&alice, &bob] {
        ensure!(bucket.get("k").await? == Reading::Deleted(marker));
        ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
        ensure!(bucket.update("k", b"late", marker).await? == Write::Stale(None));
        ensure!(bucket.delete("k", marker).await? == Write::Stale(None));
        ensure!(bucket.update("never", b"late", 0).await? == Write::Stale(None));
        ensure!(bucket.delete("never", 0).await? == Write::Stale(None));
    }
    ensure!(bob.last_revision().await? == marker);
    ensure!(written(bob.create("k", b"bob").await?)? == marker + 1);
    match alice.create("k", b"alice").await? {
        Write::Stale(Some(entry)) => ensure!(entry.value == b"bob" && entry.revision == marker + 1),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_purge_past_the_end_moves_the_revisions_and_leaves_no_marker() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    for refused in [0, 1, (1 << 61) + 1, u64::MAX] {
        ensure!(matches!(bucket.purge_below(refused).await, Err(Fault::Denied(_))), "{refused}");
    }
    let revision = written(bucket.create("k", b"alice").await?)?;
    ensure!(bucket.purge_below(1_000_000).await? == 1);
    ensure!(bucket.get("k").await? == Reading::Absent);
    ensure!(bucket.update("k", b"late", revision).await? == Write::Stale(None));
    let next = written(bucket.create("k", b"bob").await?)?;
    ensure!(next == 1_000_000);
    // It never lowers anything, and takes only what lies below.
    ensure!(bucket.purge_below(57).await? == 0);
    ensure!(bucket.purge_below(next).await? == 0);
    ensure!(bucket.last_revision().await? == next);
    ensure!(matches!(bucket.get("k").await?, Reading::Found(_)));
    Ok(())
}

#[tokio::test]
async fn of_many_who_write_at_once_one_wins() -> Result<()> {
    let server = NatsServer::start()?;
    let bucket = leases(&server.url(), TTL).await?;
    let creates = futures_util::future::try_join_all((0..50).map(|_| bucket.create("k", b"alice"))).await?;
    let winners: Vec<u64> = creates.into_iter().filter_map(|write| written(write).ok()).collect();
    ensure!(winners.len() == 1, "{winners:?}");
    let updates = (0..50).map(|_| bucket.update("k", b"again", winners[0]));
    let won = futures_util::future::try_join_all(updates)
        .await?
        .into_iter()
        .filter_map(|write| written(write).ok());
    ensure!(won.count() == 1);
    Ok(())
}
