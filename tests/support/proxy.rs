//! A line between a client and a NATS server that can be cut, also one way, slowed, and made to lose chosen
//! answers.
//!
//! It reads as much of the protocol as that takes: `PUB` and `HPUB` name the subject that the answer
//! comes on, `MSG` and `HMSG` bring it. A plain one reads nothing, and is for servers among themselves.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The longest protocol line that is let through; servers allow 4 KiB.
const LINE: u64 = 64 << 10;

/// The largest message that is let through.
const PAYLOAD: usize = 16 << 20;

/// What a plain line reads at a time.
const CHUNK: usize = 16 << 10;

/// How long a test waits for a fault to hit.
const PATIENCE: Duration = Duration::from_secs(20);

/// What has happened on the line so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections made through it.
    pub connections: usize,
    /// Answers swallowed.
    pub dropped: usize,
    /// Messages that met a one-way cut.
    pub held: usize,
    /// Answers that were slowed.
    pub delayed: usize,
}

/// A running proxy, ended when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Line {
    /// Whether it knows what a message is.
    framed: bool,
    cut: watch::Sender<bool>,
    held: watch::Sender<Held>,
    counts: watch::Sender<Counts>,
    faults: Mutex<Faults>,
}

/// The ways that are cut.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    requests: bool,
    answers: bool,
}

#[derive(Debug, Default)]
struct Faults {
    delay: Duration,
    /// Requests on a subject that contains this lose their answers, so many of them.
    losing: Option<(String, usize)>,
    /// Subjects of answers to swallow.
    doomed: HashSet<String>,
}

impl Proxy {
    /// A proxy for this server, on a port of its own.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        Self::begin(server, true).await
    }

    /// One that takes what it passes on for bytes: it can be cut, also one way, and slowed.
    ///
    /// # Errors
    /// No port is free.
    pub async fn plain(server: SocketAddr) -> Result<Self> {
        Self::begin(server, false).await
    }

    async fn begin(server: SocketAddr, framed: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let line = Arc::new(Line {
            framed,
            cut: watch::Sender::new(false),
            held: watch::Sender::new(Held::default()),
            counts: watch::Sender::new(Counts::default()),
            faults: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&line)));
        Ok(Self { address, line, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a store URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// End every connection and take no new one.
    pub fn cut(&self) {
        self.line.cut.send_replace(true);
    }

    /// Cut one way: what the client says does not arrive. As with lost packets, it is kept, and comes late.
    pub fn cut_requests(&self) {
        self.line.held.send_modify(|held| held.requests = true);
    }

    /// Cut the other way: requests arrive, and what the server says does not.
    pub fn cut_answers(&self) {
        self.line.held.send_modify(|held| held.answers = true);
    }

    /// End every cut: take connections again, and pass on what was kept.
    pub fn heal(&self) {
        self.line.cut.send_replace(false);
        self.line.held.send_replace(Held::default());
    }

    /// Hold back everything that the server says by this long.
    pub fn delay(&self, by: Duration) {
        self.line.faults().delay = by;
    }

    /// Swallow the answers to the next `count` requests on a subject that contains `subject`. The requests
    /// go through.
    pub fn drop_answers(&self, subject: &str, count: usize) {
        self.line.faults().losing = Some((subject.to_owned(), count));
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.line.counts.borrow()
    }

    /// Wait until this has happened.
    ///
    /// # Errors
    /// When it does not within 20 s.
    pub async fn until(&self, happened: impl Fn(&Counts) -> bool) -> Result<Counts> {
        let mut counts = self.line.counts.subscribe();
        let wait = tokio::time::timeout(PATIENCE, counts.wait_for(|counts| happened(counts)));
        Ok(*wait.await.with_context(|| format!("the proxy saw only {:?}", self.counts()))??)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Line {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until this way is not cut.
    async fn open(&self, is_cut: impl Fn(&Held) -> bool) {
        let mut held = self.held.subscribe();
        if is_cut(&held.borrow()) {
            self.counts.send_modify(|counts| counts.held += 1);
        }
        // The sender lives as long as the line.
        let _ = held.wait_for(|held| !is_cut(held)).await;
    }

    /// A request passes; its answer may be doomed.
    fn request(&self, subject: &str, answer_on: &str) {
        let mut faults = self.faults();
        let Some((text, left)) = &mut faults.losing else { return };
        if *left > 0 && subject.contains(text.as_str()) {
            *left -= 1;
            faults.doomed.insert(answer_on.to_owned());
        }
    }

    /// Whether a message is one to swallow.
    fn swallows(&self, subject: &str) -> bool {
        let doomed = self.faults().doomed.remove(subject);
        if doomed {
            self.counts.send_modify(|counts| counts.dropped += 1);
        }
        doomed
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, line: Arc<Line>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if !*line.cut.borrow() {
            connections.spawn(connect(client, server, Arc::clone(&line)));
        }
    }
}

async fn connect(client: TcpStream, server: SocketAddr, line: Arc<Line>) -> Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    line.counts.send_modify(|counts| counts.connections += 1);
    let mut cut = line.cut.subscribe();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = cut.wait_for(|cut| *cut) => Ok(()),
        ended = requests(from_client, to_server, &line) => ended,
        ended = answers(from_server, to_client, &line) => ended,
    }
}

async fn requests(from: OwnedReadHalf, mut to: OwnedWriteHalf, line: &Line) -> Result<()> {
    let mut from = BufReader::new(from);
    while let Some(frame) = Frame::read(&mut from, line.framed).await? {
        match frame.words()[..] {
            ["PUB", subject, reply, _] | ["HPUB", subject, reply, _, _] => line.request(subject, reply),
            _ => {}
        }
        line.open(|held| held.requests).await;
        to.write_all(&frame.bytes).await?;
    }
    Ok(())
}

async fn answers(from: OwnedReadHalf, mut to: OwnedWriteHalf, line: &Line) -> Result<()> {
    let mut from = BufReader::new(from);
    while let Some(frame) = Frame::read(&mut from, line.framed).await? {
        if let ["MSG" | "HMSG", subject, ..] = frame.words()[..]
            && line.swallows(subject)
        {
            continue;
        }
        let delay = line.faults().delay;
        if !delay.is_zero() {
            line.counts.send_modify(|counts| counts.delayed += 1);
            tokio::time::sleep(delay).await;
        }
        line.open(|held| held.answers).await;
        to.write_all(&frame.bytes).await?;
    }
    Ok(())
}

/// A protocol line, with its payload where it has one; or whatever has come, on a plain line.
struct Frame {
    line: String,
    bytes: Vec<u8>,
}

impl Frame {
    async fn read(from: &mut BufReader<OwnedReadHalf>, framed: bool) -> Result<Option<Self>> {
        let mut bytes = Vec::new();
        if !framed {
            bytes.reserve(CHUNK);
            let read = from.read_buf(&mut bytes).await?;
            return Ok((read > 0).then_some(Self { line: String::new(), bytes }));
        }
        (&mut *from).take(LINE).read_until(b'\n', &mut bytes).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        ensure!(bytes.ends_with(b"\n"), "a protocol line is too long or was cut short");
        let mut frame = Self { line: String::from_utf8_lossy(&bytes).into_owned(), bytes };
        if let ["PUB" | "HPUB" | "MSG" | "HMSG", .., size] = frame.words()[..] {
            let size: usize = size.parse()?;
            ensure!(size <= PAYLOAD, "a message of {size} bytes is over the proxy's limit");
            let start = frame.bytes.len();
            frame.bytes.resize(start + size + 2, 0);
            from.read_exact(&mut frame.bytes[start..]).await?;
        }
        Ok(Some(frame))
    }

    fn words(&self) -> Vec<&str> {
        self.line.split_whitespace().collect()
    }
}
