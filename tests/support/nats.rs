//! A nats-server of a test's own: its port, its folder, its end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// JetStream that syncs every write, as a store of leases should.
pub const JETSTREAM: &str = "jetstream { store_dir: \"data\", sync_interval: always }";

/// A running server, killed when dropped. Its log is printed when the test fails.
#[derive(Debug)]
pub struct NatsServer {
    folder: TempDir,
    name: String,
    config: String,
    port: u16,
    version: String,
    child: Option<Child>,
}

impl NatsServer {
    /// Start one with JetStream, open to everybody.
    ///
    /// # Errors
    /// When it does not come up.
    ///
    /// # Panics
    /// When there is no nats-server, with the remedy.
    pub fn start() -> Result<Self> {
        Self::configured(JETSTREAM)
    }

    /// Start one with this configuration, in the server's own language, beside address, port and log. Paths
    /// in it are relative to the server's folder.
    ///
    /// # Errors
    /// When it does not come up.
    ///
    /// # Panics
    /// When there is no nats-server, with the remedy.
    pub fn configured(config: &str) -> Result<Self> {
        Self::named("test", config)
    }

    /// The same, one of several: by this name among them.
    ///
    /// # Errors
    /// When it does not come up.
    ///
    /// # Panics
    /// When there is no nats-server, with the remedy.
    pub fn named(name: &str, config: &str) -> Result<Self> {
        let folder = TempDir::with_prefix("nats-")?;
        let (name, config) = (name.to_owned(), config.to_owned());
        let mut server = Self { folder, name, config, port: 0, version: String::new(), child: None };
        server.launch()?;
        Ok(server)
    }

    /// Its name among servers.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its address as a store URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Whether its version leaves a marker where a key ages out: 2.11 and newer do.
    #[must_use]
    pub fn knows_markers(&self) -> bool {
        !self.version.starts_with("2.10.")
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// End it as a crash does. Its data and its port stay.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Start it again after [`kill`](Self::kill), on the same port, with its data.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.launch()
    }

    /// Kill it, remove all that it kept, and start it on the same port.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn wipe(&mut self) -> Result<()> {
        self.kill()?;
        let data = self.folder().join("data");
        if data.exists() {
            fs::remove_dir_all(data)?;
        }
        self.launch()
    }

    /// Kill it, keep a copy of its data in this folder, which is not there yet, and start it again.
    ///
    /// # Errors
    /// When it cannot be copied, or the server does not come up.
    pub fn back_up(&mut self, to: &Path) -> Result<()> {
        self.kill()?;
        copy(&self.folder().join("data"), to)?;
        self.launch()
    }

    /// Kill it, put the copy in place of its data, and start it again.
    ///
    /// # Errors
    /// When it cannot be copied, or the server does not come up.
    pub fn roll_back(&mut self, from: &Path) -> Result<()> {
        self.kill()?;
        let data = self.folder().join("data");
        fs::remove_dir_all(&data)?;
        copy(from, &data)?;
        self.launch()
    }

    /// Freeze it: it keeps its connections and says nothing.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // The signal is sent, not yet obeyed: a thread in the kernel may still serve a request.
        let deadline = Instant::now() + PATIENCE;
        while !self.is_frozen()? {
            ensure!(Instant::now() < deadline, "nats-server does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Let a frozen one go on, with what was sent to it meanwhile.
    ///
    /// # Errors
    /// When it is not running.
    pub fn cont(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the server is not running")?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Whether all its threads have stopped.
    fn is_frozen(&self) -> Result<bool> {
        let id = self.child.as_ref().context("the server is not running")?.id();
        for task in fs::read_dir(format!("/proc/{id}/task"))? {
            let stat = fs::read_to_string(task?.path().join("stat"))?;
            // The state follows the name, which may hold anything but is in parentheses.
            if !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn launch(&mut self) -> Result<()> {
        let folder = self.folder.path();
        // Port -1 is "any free one"; the server writes which into a file. Later starts keep it.
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: {}\nports_file_dir: \".\"\nlog_file: \"log\"\n\
             logtime: true\n{}\n",
            self.name, self.config
        );
        fs::write(folder.join("server.conf"), config)?;
        let child = Command::new(binary())
            .args(["-c", "server.conf"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("stderr"))?)
            .spawn()
            .context("nats-server does not start")?;
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        if self.port == 0 {
            self.port = self.wait_for(deadline, Self::port_chosen)?;
        }
        self.version = self.wait_for(deadline, |server| Ok(greeting(server.address())))?;
        Ok(())
    }

    /// Ask until there is an answer. There is no event of another process to wait for.
    fn wait_for<T>(&mut self, deadline: Instant, ask: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(answer) = ask(self)? {
                return Ok(answer);
            }
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                bail!("nats-server ended with {status}: {}", self.log());
            }
            ensure!(Instant::now() < deadline, "nats-server did not come up: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn port_chosen(&self) -> Result<Option<u16>> {
        // The file is named after the program, which need not be called nats-server.
        let ending = format!("_{}.ports", self.child.as_ref().map_or(0, Child::id));
        let mut files = fs::read_dir(self.folder())?.filter_map(|file| Some(file.ok()?.path()));
        let Some(file) = files.find(|file| file.to_string_lossy().ends_with(&ending)) else {
            return Ok(None);
        };
        // It is there before its content is.
        let Ok(ports) = serde_json::from_str::<serde_json::Value>(&fs::read_to_string(file)?) else {
            return Ok(None);
        };
        let url = ports["nats"][0].as_str().context("the ports file names no client port")?;
        let (_, port) = url.rsplit_once(':').context("the ports file holds no address")?;
        Ok(Some(port.parse()?))
    }

    /// What it wrote and said.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.folder().join(name)).unwrap_or_default();
        read("stderr") + &read("log")
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // A server that is already gone is as good as killed.
        let _ = self.kill();
        if std::thread::panicking() {
            eprintln!("log of the nats-server on port {}:\n{}", self.port, self.log());
        }
    }
}

/// A folder and all in it, under another name.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() { copy(&from, &to)? } else { fs::copy(&from, &to).map(drop)? }
    }
    Ok(())
}

/// The version in the first line that a server says, which it does once it serves.
fn greeting(address: SocketAddr) -> Option<String> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    Some(info["version"].as_str()?.to_owned())
}

fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("NATS_SERVER") {
        return named.into();
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/nats-server");
    if own.exists() {
        return own;
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&paths).map(|path| path.join("nats-server")).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("there is no nats-server; run tests/setup.sh, or name one in NATS_SERVER"))
}
