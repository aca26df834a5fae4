//! Files that a crash, a full disk or somebody's hand left otherwise than they were written.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use incumbent::clock::Clock;
use incumbent::floor::{FileFloor, Floor as _};
use incumbent::policies::state::StateDir;
use incumbent::store::sqlite::Sqlite;
use incumbent::store::{BucketConfig, Fault, Store as _};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::must_refuse;

/// No file makes a reader take longer.
const BOUND: Duration = Duration::from_secs(5);

/// Within this thread's folder and runtime.
pub(crate) fn within<T>(body: impl FnOnce(&Path, &Runtime) -> T) -> T {
    thread_local! {
        static PLACE: OnceCell<(TempDir, Runtime)> = const { OnceCell::new() };
    }
    PLACE.with(|place| {
        let (folder, runtime) = place.get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            (TempDir::new().expect("a folder"), runtime)
        });
        body(folder.path(), runtime)
    })
}

/// A floor's file holds one number, which is the floor; else nobody takes the lease.
pub(crate) fn floor(input: &[u8]) {
    within(|folder, runtime| {
        let path = folder.join("floor");
        fs::write(&path, input).expect("written");
        let read = runtime.block_on(FileFloor::new(&path).highest());
        let says = std::str::from_utf8(input).ok().and_then(|text| text.trim().parse().ok());
        match (read, says) {
            (Ok(read), said) => {
                must_refuse!(said == Some(read), "the floor {read} of a file that says {said:?}")
            }
            // Longer than any that was written.
            (Err(_), Some(_)) => assert!(input.len() > 64, "{} was refused", input.escape_ascii()),
            (Err(_), None) => {}
        }
    });
}

/// A state that is read has every quarantine that stands in the file, and keeps it at the next change.
pub(crate) fn state(input: &[u8]) {
    within(|folder, _| {
        let dir = StateDir::open(folder.join("state")).expect("a folder of one's own");
        let path = dir.path().join("state.json");
        fs::write(&path, input).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("one's own");
        let Ok(read) = dir.read() else { return };
        must_refuse!(input.trim_ascii_start().starts_with(b"{"), "a state that is no JSON object");
        // Fields that nobody asks for are passed over, and need not be right.
        let Ok(Value::Object(file)) = serde_json::from_slice(input) else { return };
        let layout = file.get("layout").and_then(Value::as_u64);
        must_refuse!(layout == Some(1), "a state of layout {layout:?}");
        let listed = file.get("quarantined").and_then(Value::as_array).cloned().unwrap_or_default();
        let named = listed.iter().filter_map(|one| one.get("digest").and_then(Value::as_str));
        must_refuse!(
            listed.len() == read.quarantined.len()
                && named.eq(read.quarantined.iter().map(|one| &one.digest)),
            "a quarantine was forgotten"
        );
        if listed.len() < 200 {
            dir.update(|_| ()).expect("what was read can be written");
            let again = dir.read().expect("what was written can be read");
            must_refuse!(again.quarantined.len() == listed.len(), "a quarantine was forgotten at a change");
        }
    });
}

/// A damaged database is refused, or answers, and in time; what it answers is SQLite's affair.
pub(crate) fn database(input: &[u8]) {
    within(|folder, runtime| {
        let path = folder.join("damaged.db");
        for ending in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(folder.join(format!("damaged.db{ending}")));
        }
        fs::write(&path, input).expect("written");
        let began = Instant::now();
        // What it says is not looked at, but for the time it takes.
        let _ = runtime.block_on(used(&path));
        assert!(began.elapsed() < BOUND, "it took {:?}", began.elapsed());
    });
}

async fn used(path: &Path) -> Result<(), Fault> {
    let store = Sqlite::open(path, Clock::machine(), Duration::from_millis(200)).await?;
    let bucket = store.bucket("leases").await?;
    let _ = bucket.get("controller").await;
    let _ = bucket.keys(None, 100).await;
    let _ = bucket.info().await;
    let _ = bucket.create("other", b"value").await;
    let _ = bucket.update("controller", b"value", 1).await;
    let _ = bucket.delete("other", 2, None).await;
    let _ = bucket.purge_below(2).await;
    store.create_bucket("more", &BucketConfig { ttl: Duration::from_secs(15), replicas: 1 }).await.map(|_| ())
}

/// A database with a bucket and a record in it, as this machine makes it.
pub(crate) fn databases() -> Vec<Vec<u8>> {
    let made = |folder: &Path, runtime: &Runtime| {
        let path = folder.join("whole.db");
        let _ = fs::remove_file(&path);
        runtime.block_on(make(&path)).expect("a database");
        fs::read(&path).expect("read")
    };
    vec![within(made)]
}

async fn make(path: &Path) -> Result<(), Fault> {
    let store = Sqlite::open(path, Clock::machine(), Duration::from_secs(5)).await?;
    let bucket =
        store.create_bucket("leases", &BucketConfig { ttl: Duration::from_secs(15), replicas: 1 }).await?;
    bucket.create("controller", br#"{"instance":"alice","taken":"","renewed":""}"#).await?;
    Ok(())
}
