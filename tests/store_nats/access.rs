//! Who is let in, by which server, and what is said to those who are not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use incumbent::store::{Fault, Reading, Store as _};
use incumbent_tests::nats::{JETSTREAM, NatsServer};

use super::{PATIENCE, TTL, connect, leases, raw, written};

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
        holder.delete("other", revision, None).await.map(drop),
        holder.keys(None, 1000).await.map(drop),
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
    written(holder.delete("mine", renewed, None).await?)?;
    // Over a marker it takes the second step, too.
    let again = written(holder.create("mine", b"alice").await?)?;
    ensure!(again > renewed);

    let lister = connect(&as_user(&server, "lister:l")).await?.bucket("leases").await?;
    ensure!(lister.keys(None, 1000).await? == ["mine"]);
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
        bucket.keys(None, 1000).await.map(drop),
        bucket.purge_below(57).await.map(drop),
        bucket.watch("k").await.map(drop),
    ];
    for outcome in gone {
        ensure!(matches!(outcome, Err(Fault::MissingBucket(_))), "{outcome:?}");
    }
    ensure!(matches!(store.bucket("a.b").await, Err(Fault::Denied(_))));
    Ok(())
}
