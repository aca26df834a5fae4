//! The holder: a process that stands for the lease in a loop, and passes its gate all the time while it holds it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use incumbent::clock::Clock;
use incumbent::floor::FileFloor;
use incumbent::lease::Event;
use incumbent::policies::Cache;
use incumbent::store::Store;
use incumbent::store::nats::{Nats, NatsOptions};
use incumbent::store::open::{Access, StoreUrl, open};
use incumbent::{Lease, LeaseOptions, Policy, Runtime, Vacancy};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::log::{Line, Pass};

/// The bucket.
pub const BUCKET: &str = "leases";
/// The lease, and its key.
pub const LEASE: &str = "office";

/// Between two passes.
const EVERY: Duration = Duration::from_millis(1);
/// So many passes for an act that is sent.
const ACT: u64 = 10;
/// How long a call to a server may take: as large a part of a ttl of 2 s as the default is of 15 s, and what a busy
/// machine needs on top.
const CALL: Duration = Duration::from_millis(500);
/// Before the next stand, when one failed.
const AGAIN: Duration = Duration::from_millis(100);

/// What a holder is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Who it is.
    pub name: String,
    /// Where the lease is.
    pub store: String,
    /// What it writes down.
    pub log: PathBuf,
    /// The floor that all holders share.
    pub floor: PathBuf,
    /// Compiled policies.
    pub cache: PathBuf,
    /// Where it sends its acts.
    pub receiver: Option<PathBuf>,
    /// What an absence is worth; the store's default where that withstands what happens.
    pub rule: Option<Rule>,
    /// Whether it goes on acting when its gate is shut: to show that this is found.
    pub broken: bool,
}

/// What an absence is worth, where the store's default does not withstand what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// For a file that may be removed.
    Watched,
    /// For data that may be of the past.
    Delayed,
}

/// The program, told its part as JSON. SIGTERM gives the lease back and ends it.
///
/// # Errors
/// It cannot stand at all.
pub fn main(part: &str) -> Result<()> {
    let part: Part = serde_json::from_str(part).context("a holder's part")?;
    // Whoever started it looks after it; should that be killed, nobody does.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(play(&part))
}

async fn play(part: &Part) -> Result<()> {
    // Before anything else, or the signal would end it without the lease being given back.
    let mut told_to_end = signal(SignalKind::terminate())?;
    let paper = Arc::new(Paper::open(&part.log)?);
    let policy = policy(&part.cache).await?;
    loop {
        let stood = stand(part, &policy, &paper, &mut told_to_end).await;
        match stood {
            Ok(End::Told) => return Ok(()),
            Ok(End::Lost) => {}
            Err(why) => {
                paper.say(&format!("cannot stand: {why:#}"))?;
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    _ = told_to_end.recv() => return Ok(()),
                }
            }
        }
    }
}

/// The built-in policy, compiled by the first who asks.
///
/// # Errors
/// It cannot be loaded.
pub async fn policy(cache: &Path) -> Result<Policy> {
    let runtime = Runtime::with_cache(Cache::open(cache)?)?;
    Ok(Policy::built_in(&runtime).await?)
}

/// The store at this URL.
///
/// # Errors
/// What it said.
pub async fn store(url: &str) -> Result<Arc<dyn Store>> {
    Ok(match url.parse()? {
        StoreUrl::Nats(servers) => {
            let mut options = NatsOptions::new(servers);
            options.timeout = CALL;
            Arc::new(Nats::connect(options).await?)
        }
        url @ StoreUrl::Sqlite(_) => open(&url, &Access::default(), &Clock::machine()).await?,
        url @ StoreUrl::Memory => bail!("{url} is not shared by processes"),
    })
}

enum End {
    /// By a signal.
    Told,
    /// To stand again.
    Lost,
}

/// One stand for the lease.
async fn stand(
    part: &Part,
    policy: &Policy,
    paper: &Arc<Paper>,
    told_to_end: &mut tokio::signal::unix::Signal,
) -> Result<End> {
    let mut options = LeaseOptions::new(LEASE);
    options.instance.clone_from(&part.name);
    options.floor = Arc::new(FileFloor::new(&part.floor));
    options.vacancy = part.rule.map(|rule| match rule {
        Rule::Watched => Vacancy::Watched,
        Rule::Delayed => Vacancy::Delayed,
    });
    let heard = paper.clone();
    options.on_event = Arc::new(move |event| {
        // What cannot be written down is missed by the round, which then does not count.
        let _ = match event {
            Event::Taken { epoch, .. } => {
                heard.write(&Line::Taken { at: heard.clock.now().0, epoch: *epoch })
            }
            event => heard.say(&event.to_string()),
        };
    });
    let taken = async {
        let store = store(&part.store).await?;
        let lease = Lease::open(policy, &*store, BUCKET, options).await?;
        Ok::<_, anyhow::Error>((store, lease))
    };
    let (_store, lease) = tokio::select! {
        opened = taken => opened?,
        _ = told_to_end.recv() => return Ok(End::Told),
    };
    let lease = Arc::new(lease);
    tokio::select! {
        taken = lease.take() => taken.map(drop)?,
        _ = told_to_end.recv() => {
            lease.release().await;
            return Ok(End::Told);
        }
    }
    let acts = Acts::begin(part, &lease, paper)?;
    let end = tokio::select! {
        () = lease.lost(), if !part.broken => End::Lost,
        _ = told_to_end.recv() => {
            lease.release().await;
            End::Told
        }
    };
    acts.end()?;
    Ok(end)
}

/// What passes the gate, on a thread of its own: beside the renewals, not between them.
struct Acts {
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<()>>,
}

impl Acts {
    fn begin(part: &Part, lease: &Arc<Lease>, paper: &Arc<Paper>) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let socket = UnixDatagram::unbound()?;
        // An act that finds the way full is lost, as in a network.
        socket.set_nonblocking(true)?;
        if let Some(receiver) = &part.receiver {
            socket.connect(receiver).context("the receiver is not there")?;
        }
        let (stop, lease, paper, sends, broken) =
            (over.clone(), lease.clone(), paper.clone(), part.receiver.is_some(), part.broken);
        let thread = std::thread::spawn(move || {
            let mut last = None;
            let mut passes = 0;
            while !stop.load(Ordering::Relaxed) {
                let before = paper.clock.now().0;
                let permit = lease.permit();
                let epoch = match &permit {
                    Ok(permit) => permit.epoch().ok(),
                    Err(_) => last.filter(|_| broken),
                };
                if let Some(epoch) = epoch {
                    last = Some(epoch);
                    if sends && passes % ACT == 0 {
                        let _ = socket.send(&epoch.to_le_bytes());
                    }
                    passes += 1;
                    paper.write(&Line::Pass(Pass { epoch, before, after: paper.clock.now().0 }))?;
                }
                drop(permit);
                std::thread::sleep(EVERY);
            }
            Ok(())
        });
        Ok(Self { over, thread })
    }

    fn end(self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("the acts panicked"))
    }
}

/// The log, one whole line a write.
struct Paper {
    clock: Clock,
    file: Mutex<File>,
}

impl Paper {
    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { clock: Clock::machine(), file: Mutex::new(file) })
    }

    fn write(&self, line: &Line) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(file.write_all(line.text().as_bytes())?)
    }

    fn say(&self, what: &str) -> Result<()> {
        self.write(&Line::Said { at: self.clock.now().0, what: what.into() })
    }
}
