//! The file: found, opened, refused when it is another's, and opened anew when it was replaced.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::{Failed, Kind};
use super::layout::{self, APPLICATION, VERSION};
use crate::limits::{ASK_BYTES, VALUE_BYTES};
use crate::store::Fault;

/// A connection to the file at a path.
///
/// A file is never opened here but by SQLite: closing any other descriptor of it would let go of every
/// lock that this process holds on it.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    open: Option<Open>,
    opened: u64,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    /// Device and inode. While the connection is open no other file has them.
    identity: (u64, u64),
}

impl File {
    /// The file at the absolute `path`, opened at the first use.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, open: None, opened: 0 }
    }

    /// A connection to the file that is at the path now, whose locks are waited for until `deadline`, and
    /// how many were opened: when that differs from the last time, it is another connection.
    pub(super) fn connection(&mut self, deadline: Instant) -> Result<(&mut Connection, u64), Failed> {
        // A writer to a file that was unlinked would not see who holds the lease in the new one.
        let open = match self.open.take().filter(|open| identity(&self.path) == Some(open.identity)) {
            Some(open) => open,
            None => {
                self.opened += 1;
                self.open(deadline)?
            }
        };
        let open = self.open.insert(open);
        wait_until(&mut open.connection, deadline)?;
        Ok((&mut open.connection, self.opened))
    }

    /// Let go of a connection that may be in a bad state.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Whether a transaction was left open.
    pub(super) fn in_transaction(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.connection.is_autocommit())
    }

    fn open(&self, deadline: Instant) -> Result<Open, Failed> {
        check_path(&self.path)?;
        // Without SQLITE_OPEN_URI: a path that looks like a URI is a path.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(|error| {
            if self.path.exists() {
                return error.into();
            }
            denied(&self.path, &format!("cannot be made ({error})"), "give a path on a disk of this machine")
        })?;
        wait_until(&mut connection, deadline)?;
        bound(&connection)?;
        if connection.is_readonly("main")? {
            return Err(denied(&self.path, "is read-only", "make it and its folder writable"));
        }
        let layout = self.layout(&connection)?;
        self.keep_what_is_acknowledged(&connection, deadline)?;
        if layout != VERSION {
            self.lay_out(&mut connection)?;
        }
        let Some(identity) = identity(&self.path) else {
            let told =
                format!("{}: the file was removed while it was opened; try again", self.path.display());
            return Err(Fault::Unavailable(told).into());
        };
        Ok(Open { connection, identity })
    }

    /// The file's layout, zero when it is empty. Refuses one that another application, or a newer version,
    /// laid out.
    fn layout(&self, connection: &Connection) -> Result<i64, Failed> {
        let (application, version, tables) = connection.query_row(
            "SELECT (SELECT application_id FROM pragma_application_id),
                    (SELECT user_version FROM pragma_user_version),
                    (SELECT count(*) FROM sqlite_schema)",
            [],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
        )?;
        match (application, version) {
            (APPLICATION, 1..=VERSION) => Ok(version),
            (APPLICATION, _) => Err(denied(
                &self.path,
                &format!("has layout {version}, and this program knows layout {VERSION} and older ones"),
                "use the version of this program that made it, or another path",
            )),
            (0, 0) if tables == 0 => Ok(0),
            _ => Err(denied(&self.path, "is the database of another application", "give another path")),
        }
    }

    /// Write-ahead, and synced at every commit.
    fn keep_what_is_acknowledged(&self, connection: &Connection, deadline: Instant) -> Result<(), Failed> {
        let mode = loop {
            // Two that open a new file at once get "busy" here without any waiting.
            let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
            match mode.map_err(Failed::from) {
                Err(failed) if failed.is_busy() && Instant::now() < deadline => std::thread::sleep(BUSY_STEP),
                mode => break mode?,
            }
        };
        if mode != "wal" {
            return Err(denied(
                &self.path,
                "lies on a file system without shared memory",
                "put it on a disk of this machine",
            ));
        }
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        Ok(())
    }

    fn lay_out(&self, connection: &mut Connection) -> Result<(), Failed> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Somebody else may have been first.
        let layout = self.layout(&transaction)?;
        if layout != VERSION {
            layout::bring_up(&transaction, layout)?;
        }
        // Not unknown: whoever opens it next finds it laid out, or lays it out.
        transaction.commit().map_err(Failed::Before)
    }

    /// Tells a failure by the file alone.
    pub(super) fn tell(&self, failed: Failed) -> Fault {
        failed.into_fault(Kind::Read, self.path.display())
    }
}

/// What a hostile file can make SQLite do.
fn bound(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
}

/// Wait for another connection's lock until `deadline`, looking often: a lock is held for one small
/// transaction, and SQLite's own steps grow to 100 ms.
fn wait_until(connection: &mut Connection, deadline: Instant) -> rusqlite::Result<()> {
    connection.busy_handler(Some(move |_| {
        let wait = Instant::now() < deadline;
        if wait {
            std::thread::sleep(BUSY_STEP);
        }
        wait
    }))
}

/// Makes the folders, and says in plain words what SQLite would call "unable to open".
fn check_path(path: &Path) -> Result<(), Fault> {
    use rustix::fs::{Access, access};
    let told = |what: &str, remedy: &str| Err(Fault::Denied(format!("{}: {what}; {remedy}", path.display())));
    if path.is_dir() {
        return told("this is a folder", "give the path of a file in it");
    }
    let Some(folder) = path.parent() else { return told("this is no file", "give the path of a file") };
    if let Err(error) = make_folder(folder) {
        return told(
            &format!("cannot make the folder {} ({error})", folder.display()),
            "make it, or give another path",
        );
    }
    if access(folder, Access::WRITE_OK).is_err() {
        return told("its folder is not writable", "make it writable, or give another path");
    }
    if path.exists() && access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return told("the file is read-only", "make it readable and writable, or give another path");
    }
    Ok(())
}

/// Makes a folder that outlives a power failure: SQLite syncs its own folder, and not the ones above.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let Some(above) = folder.parent().filter(|_| !folder.is_dir()) else { return Ok(()) };
    make_folder(above)?;
    match std::fs::create_dir(folder) {
        // Another process may have made it just now.
        Err(error) if !folder.is_dir() => Err(error),
        _ => std::fs::File::open(above)?.sync_all(),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn denied(path: &Path, what: &str, remedy: &str) -> Failed {
    Fault::Denied(format!("{} {what}; {remedy}", path.display())).into()
}

/// A row around the largest ask. Values, which are smaller, are bounded where they are read.
#[expect(clippy::cast_possible_truncation, reason = "some 1 MiB; a limit beyond 2 GiB is SQLite's no more")]
const ROW_BYTES: i32 = (ASK_BYTES + VALUE_BYTES) as i32;
/// How long to sleep between two looks at a lock.
const BUSY_STEP: Duration = Duration::from_millis(2);
