//! The site of a round: a store, the lines to it, and the holders.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use incumbent::clock::Clock;
use incumbent::store::{BucketConfig, Store, Write};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::disk::Disk;
use super::fault::Kind;
use super::holder::{BUCKET, LEASE, Part, store};
use super::log::{Line, Log, Pass};
use crate::cluster::{Cluster, MEMBERS};
use crate::nats::NatsServer;
use crate::proxy::Proxy;

/// The ttl of every round: long enough for margins of 0.4 s on a busy machine, short enough for many rounds.
pub const TTL: Duration = Duration::from_secs(2);

/// How long anything may take before a round gives up.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Lines of each log that an error shows.
const SHOWN: usize = 6;

/// How holders are started: an executable, which is told `holder` and the part.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Compiled policies, kept for all rounds.
    pub cache: Arc<TempDir>,
}

impl Program {
    /// This executable.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { path: path.into(), cache: Arc::new(TempDir::with_prefix("compiled-")?) })
    }
}

/// Where the lease is.
#[derive(Debug)]
pub enum Ground {
    /// One server.
    Nats(NatsServer),
    /// Three.
    Cluster(Cluster),
    /// A file.
    Sqlite(PathBuf),
}

/// A store and who stands for its lease. Everything is killed when dropped.
#[derive(Debug)]
pub struct Site {
    /// The store.
    pub ground: Ground,
    /// Who stood, in the order of their start.
    pub holders: Vec<Standing>,
    /// What every part has in common.
    pub part: Part,
    /// Where the file is, if it is to run full. After the holders, which have files of it open.
    pub(super) disk: Option<Disk>,
    folder: TempDir,
    program: Program,
}

/// One holder process, and its lines to the store.
#[derive(Debug)]
pub struct Standing {
    /// What it wrote down, as far as it was read.
    pub log: Log,
    /// To each server.
    pub lines: Vec<Proxy>,
    child: Child,
    /// Until it is gone: there may be very many.
    file: Option<fs::File>,
    rest: Vec<u8>,
}

impl Site {
    /// A store with its bucket, and nobody there yet. A file that is `to_run_full` is on a small disk of its own, and the
    /// floor beside it.
    ///
    /// # Errors
    /// It does not come up.
    pub async fn new(program: &Program, kind: Kind, to_run_full: bool) -> Result<Self> {
        let folder = TempDir::with_prefix("round-")?;
        let small = to_run_full && kind == Kind::Sqlite;
        let disk = small.then(|| Disk::mount(folder.path().join("disk"))).transpose()?;
        let data = disk.as_ref().map_or(folder.path(), Disk::path);
        let ground = match kind {
            Kind::Nats => Ground::Nats(NatsServer::start()?),
            Kind::Cluster => Ground::Cluster(Cluster::start().await?),
            Kind::Sqlite => Ground::Sqlite(data.join("leases.db")),
        };
        let part = Part {
            name: String::new(),
            store: String::new(),
            log: PathBuf::new(),
            floor: data.join("floor"),
            cache: program.cache.path().into(),
            receiver: None,
            rule: None,
            broken: false,
        };
        let site = Self { ground, holders: Vec::new(), part, disk, folder, program: program.clone() };
        site.make_bucket().await?;
        site.give_back().await?;
        Ok(site)
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store, past every line.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn store(&self) -> Result<Arc<dyn Store>> {
        match &self.ground {
            Ground::Nats(server) => store(&server.url()).await,
            Ground::Cluster(cluster) => store(&cluster.member(0).url()).await,
            Ground::Sqlite(path) => store(&format!("sqlite:{}", path.display())).await,
        }
    }

    /// Make the bucket, as soon as the store can.
    ///
    /// # Errors
    /// It cannot within [`PATIENCE`].
    pub async fn make_bucket(&self) -> Result<()> {
        let replicas = if matches!(self.ground, Ground::Cluster(_)) { MEMBERS } else { 1 };
        let config = BucketConfig { ttl: TTL, replicas };
        patiently("the bucket is not made", async || {
            self.store().await?.create_bucket(BUCKET, &config).await?;
            Ok(())
        })
        .await
    }

    /// A key that was held and given back: the first holder need not wait until it is surely free.
    async fn give_back(&self) -> Result<()> {
        patiently("no key is given back", async || {
            let bucket = self.store().await?.bucket(BUCKET).await?;
            let revision = match bucket.create(LEASE, b"nobody").await? {
                Write::Written(revision) => revision,
                // By the try before, unheard.
                Write::Stale(Some(entry)) => entry.revision,
                Write::Stale(None) => bail!("a key is there and is not"),
            };
            bucket.delete(LEASE, revision, None).await?;
            Ok(())
        })
        .await
    }

    /// One more holder, by lines of its own. Answers its place among the holders.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn stand(&mut self, broken: bool) -> Result<usize> {
        let place = self.holders.len();
        let name =
            ["alice", "bob", "carol"].get(place).map_or(format!("holder-{place}"), |name| (*name).into());
        let addresses = match &self.ground {
            Ground::Nats(server) => vec![server.address()],
            Ground::Cluster(cluster) => cluster.addresses(),
            Ground::Sqlite(_) => Vec::new(),
        };
        let mut lines = Vec::new();
        for address in addresses {
            lines.push(Proxy::start(address).await?);
        }
        let mut part = self.part.clone();
        part.store = match &self.ground {
            Ground::Sqlite(path) => format!("sqlite:{}", path.display()),
            _ => {
                let lines: Vec<_> = lines.iter().map(|line| line.address().to_string()).collect();
                format!("nats://{}", lines.join(","))
            }
        };
        part.log = self.folder().join(&name);
        part.name.clone_from(&name);
        part.broken = broken;
        fs::write(&part.log, "")?;
        let said = fs::File::create(self.folder().join(format!("{name}.stderr")))?;
        let child = Command::new(&self.program.path)
            .args(["holder", &serde_json::to_string(&part)?])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .context("a holder does not start")?;
        let (log, file) = (Log { holder: name, lines: Vec::new() }, Some(fs::File::open(&part.log)?));
        self.holders.push(Standing { log, lines, child, file, rest: Vec::new() });
        Ok(place)
    }

    /// Another program that has changed the file in a transaction which it will never commit. Answers it once it has.
    ///
    /// # Errors
    /// It cannot, or the store is no file.
    pub fn write(&self) -> Result<Writer> {
        let Ground::Sqlite(path) = &self.ground else { bail!("the store is no file") };
        let mut command = Command::new(&self.program.path);
        command.arg("writer").arg(path).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut writer = Writer(command.spawn().context("a writer does not start")?);
        let mut said = [0; 5];
        writer
            .0
            .stdout
            .take()
            .context("its output is piped")?
            .read_exact(&mut said)
            .context("no transaction")?;
        Ok(writer)
    }

    /// Read what the holders wrote since.
    ///
    /// # Errors
    /// It is no such log.
    pub fn read(&mut self) -> Result<()> {
        self.holders.iter_mut().try_for_each(Standing::read)
    }

    /// Reads until there is an answer.
    ///
    /// # Errors
    /// It took longer than [`PATIENCE`]; the logs' ends are in the error.
    pub async fn until<T>(&mut self, what: &str, mut ask: impl FnMut(&Self) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.read()?;
            if let Some(answer) = ask(self) {
                return Ok(answer);
            }
            ensure!(Instant::now() < deadline, "gave up waiting until {what}: {}", self.tails());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Who passed its gate last of all, and when.
    #[must_use]
    pub fn last(&self) -> Option<(usize, Pass)> {
        let last = |(place, holder): (usize, &Standing)| Some((place, holder.log.passes().next_back()?));
        self.holders.iter().enumerate().filter_map(last).max_by_key(|(_, pass)| pass.before)
    }

    /// Waits until somebody holds the lease from now on, with so many passes. Answers who.
    ///
    /// # Errors
    /// Nobody did.
    pub async fn held(&mut self, passes: usize) -> Result<usize> {
        let since = now();
        let enough = move |holder: &Standing| {
            holder.log.passes().rev().take(passes).filter(|p| p.before > since).count()
        };
        self.until("somebody holds the lease", |site| site.holders.iter().position(|h| enough(h) >= passes))
            .await
    }

    /// End all holders, those that run by their own means.
    ///
    /// # Errors
    /// One does not end.
    pub async fn end(&mut self) -> Result<()> {
        for holder in &mut self.holders {
            // Not to one that is gone: its number may be another process's by now.
            if holder.child.try_wait()?.is_none() {
                holder.signal(Signal::TERM)?;
            }
        }
        for place in 0..self.holders.len() {
            self.gone(place).await?;
        }
        Ok(())
    }

    /// Waits until a holder has ended, and reads all that it wrote.
    ///
    /// # Errors
    /// It does not end.
    pub async fn gone(&mut self, place: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.holders[place].child.try_wait()?.is_none() {
            ensure!(
                Instant::now() < deadline,
                "{} does not end{}",
                self.holders[place].log.holder,
                self.tails()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let holder = &mut self.holders[place];
        holder.read()?;
        holder.file = None;
        holder.lines.clear();
        Ok(())
    }

    /// The last lines of each log, for an error.
    #[must_use]
    pub fn tails(&self) -> String {
        let mut text = String::new();
        for holder in &self.holders {
            let name = &holder.log.holder;
            let lines = &holder.log.lines;
            text += &format!("\n{name} ({} lines):\n", lines.len());
            // Passes are many and alike.
            let told = |line: &&Line| {
                !matches!(line, Line::Pass(_))
                    && !matches!(line, Line::Said { what, .. } if what == "renewed")
            };
            let last: Vec<_> = lines.iter().rev().filter(told).take(SHOWN).map(Line::text).collect();
            text.extend(last.into_iter().rev());
            if let Some(pass) = holder.log.passes().next_back() {
                text += &Line::Pass(pass).text();
            }
            text += &fs::read_to_string(self.folder().join(format!("{name}.stderr"))).unwrap_or_default();
        }
        text + &format!("now {}", now())
    }
}

impl Standing {
    fn read(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.read_to_end(&mut self.rest)?;
        // What has no end yet is still being written, or its writer was killed.
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let whole: Vec<_> = self.rest.drain(..=end).collect();
        for line in std::str::from_utf8(&whole)?.lines() {
            self.log.lines.push(Line::parse(line).with_context(|| self.log.holder.clone())?);
        }
        Ok(())
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Send it a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Whether it was not seen gone.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// Kill it, and see it gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stop it, and see it stopped.
    ///
    /// # Errors
    /// It does not stop.
    pub async fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("{} does not stop", self.log.holder)
    }
}

/// A program in the middle of a transaction; killed when dropped.
#[derive(Debug)]
pub struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // Gone already, or a stopped one: SIGKILL reaches both.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Until it is done, for [`PATIENCE`]: a cluster that has just come up may be choosing a leader.
async fn patiently(trouble: &str, act: impl AsyncFn() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while let Err(why) = act().await {
        ensure!(Instant::now() < deadline, "{trouble} within {PATIENCE:?}: {why:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// The machine's steady clock, nanoseconds.
#[must_use]
pub fn now() -> u64 {
    Clock::machine().now().0
}
