//! Three nats-servers that keep one bucket together, and hear each other through lines that can be cut.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::Client;

use crate::nats::{JETSTREAM, NatsServer};
use crate::proxy::Proxy;

/// Servers in a cluster.
pub const MEMBERS: usize = 3;

/// How long a change of leader may take: elections begin 4 to 9 s after the last word of the leader, and one may
/// fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one member is waited for.
const ASKED: Duration = Duration::from_millis(500);

/// Ports of routes: below those that a system gives away by itself, so that nobody is given one meanwhile.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// A running cluster, killed when dropped.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<NatsServer>,
    routes: Vec<Route>,
    /// To each member, past every line.
    clients: Vec<Client>,
}

/// What one member calls another on.
#[derive(Debug)]
struct Route {
    from: usize,
    to: usize,
    line: Proxy,
}

impl Cluster {
    /// Three servers with JetStream, open to everybody. Whether they have elected a leader yet, making a bucket tells.
    ///
    /// # Errors
    /// When one does not come up.
    ///
    /// # Panics
    /// When there is no nats-server, with the remedy.
    pub async fn start() -> Result<Self> {
        let ports = (0..MEMBERS).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let mut routes = Vec::new();
        for from in 0..MEMBERS {
            for to in (0..MEMBERS).filter(|to| *to != from) {
                let line = Proxy::plain((Ipv4Addr::LOCALHOST, ports[to]).into()).await?;
                routes.push(Route { from, to, line });
            }
        }
        let mut cluster = Self { members: Vec::new(), routes, clients: Vec::new() };
        for (n, port) in ports.iter().enumerate() {
            let others = cluster.routes.iter().filter(|route| route.from == n);
            let others: Vec<_> =
                others.map(|route| format!("\"nats-route://{}\"", route.line.address())).collect();
            // What a member tells of itself leads nowhere: nobody goes past the lines. One connection a pair.
            let config = format!(
                "{JETSTREAM}\ncluster {{ name: seat, listen: \"127.0.0.1:{port}\", advertise: \"127.0.0.1:1\", \
                 no_advertise: true, pool_size: -1, routes: [{}] }}",
                others.join(", ")
            );
            let member = NatsServer::named(&format!("member-{n}"), &config)?;
            cluster.clients.push(async_nats::connect(member.url()).await?);
            cluster.members.push(member);
        }
        Ok(cluster)
    }

    /// One of them.
    #[must_use]
    pub fn member(&self, n: usize) -> &NatsServer {
        &self.members[n]
    }

    /// One of them, to be killed and started.
    pub fn member_mut(&mut self, n: usize) -> &mut NatsServer {
        &mut self.members[n]
    }

    /// Where to reach them, member by member.
    #[must_use]
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.members.iter().map(NatsServer::address).collect()
    }

    /// Cut a member off from the others.
    pub fn cut(&self, n: usize) {
        for route in self.routes.iter().filter(|route| route.from == n || route.to == n) {
            route.line.cut();
        }
    }

    /// Cut it off one way: it hears the others, and they do not hear it.
    pub fn cut_speech(&self, n: usize) {
        for route in &self.routes {
            if route.from == n {
                route.line.cut_requests();
            } else if route.to == n {
                route.line.cut_answers();
            }
        }
    }

    /// End every cut.
    pub fn heal(&self) {
        for route in &self.routes {
            route.line.heal();
        }
    }

    /// Who leads a bucket, as the members say that `asked` lets through; `None` while nobody does.
    pub async fn leader(&self, bucket: &str, asked: impl Fn(usize) -> bool) -> Option<usize> {
        let subject = format!("$JS.API.STREAM.INFO.KV_{bucket}");
        for client in self.clients.iter().enumerate().filter(|(n, _)| asked(*n)).map(|(_, client)| client) {
            let info = tokio::time::timeout(ASKED, client.request(subject.clone(), "".into())).await;
            let Ok(Ok(info)) = info else { continue };
            let info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap_or_default();
            let name = info["cluster"]["leader"].as_str().unwrap_or_default();
            let led = self.members.iter().position(|member| member.name() == name);
            if led.is_some() {
                return led;
            }
        }
        None
    }

    /// Waits until a bucket has a leader that is not `other`, whom nobody asks, and answers it.
    ///
    /// # Errors
    /// It took too long.
    pub async fn led(&self, bucket: &str, other: Option<usize>) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let leader = self.leader(bucket, |n| Some(n) != other).await;
            if let Some(leader) = leader.filter(|leader| Some(*leader) != other) {
                return Ok(leader);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("no leader of {bucket} but {other:?} within {PATIENCE:?}")
    }

    /// Make the leader of a bucket step down.
    ///
    /// # Errors
    /// It was refused, or nobody answered.
    pub async fn step_down(&self, bucket: &str) -> Result<()> {
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.KV_{bucket}");
        let client = self.clients.first().context("there are members")?;
        let answer = client.request(subject, "".into()).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload)?;
        ensure!(answer["success"] == true, "the leader does not step down: {answer}");
        Ok(())
    }
}

/// A port that nobody listens on, another one at each call.
fn free_port() -> Result<u16> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    for _ in PORTS {
        let next = begin.wrapping_add(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(next % u32::try_from(PORTS.len())?)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
