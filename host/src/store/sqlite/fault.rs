//! What SQLite's errors mean to a caller: surely not applied, or unknown.

use std::fmt::Display;

use rusqlite::{Error, ErrorCode};

use crate::store::Fault;

/// How work on the file failed, before it is told to anybody.
#[derive(Debug)]
pub(super) enum Failed {
    /// Before the commit: nothing was applied.
    Before(Error),
    /// The commit itself: a part of it may have reached the disk.
    Commit(Error),
    /// There is no bucket of this name.
    Missing(String),
    /// There is no work queue of this name.
    NoQueue(String),
    /// Something in the file is over a limit.
    TooLarge(String),
    /// Told already.
    Said(Fault),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Said(fault)
    }
}

/// Whether a call may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

impl Kind {
    /// No answer came.
    pub(super) fn unanswered(self, about: impl Display) -> Fault {
        match self {
            Self::Read => Fault::Unavailable(format!("{about}: the disk does not answer; try again")),
            Self::Write => Fault::Unknown(format!("{about}: the disk did not answer; look again")),
        }
    }
}

impl Failed {
    /// As the contract tells it. `about` names the key or the ask, the bucket or the queue, and the file.
    pub(super) fn into_fault(self, kind: Kind, about: impl Display) -> Fault {
        match self {
            Self::Said(fault) => fault,
            Self::Missing(name) => Fault::MissingBucket(format!(
                "{about}: there is no such bucket; create it: incumbent bucket create {name}"
            )),
            Self::NoQueue(name) => Fault::MissingBucket(format!(
                "{about}: there is no such queue; create it: incumbent queue create {name}"
            )),
            Self::TooLarge(what) => Fault::TooLarge(format!("{about}: {what}")),
            Self::Before(error) => certain(&error, about),
            Self::Commit(error) if kind == Kind::Read || is_busy(&error) => certain(&error, about),
            Self::Commit(error) => {
                Fault::Unknown(format!("{about}: the commit failed ({error}); look again"))
            }
        }
    }

    /// Whether another connection's lock was in the way.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Before(error) | Self::Commit(error) if is_busy(error))
    }
}

/// The fault of an error that surely changed nothing.
fn certain(error: &Error, about: impl Display) -> Fault {
    let Some(code) = error.sqlite_error_code() else {
        // A column that does not hold what this store writes.
        return Fault::Unavailable(format!(
            "{about}: the file holds what this program never writes ({error}); restore it, or move it away"
        ));
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Fault::Unavailable(format!("{about}: another connection holds the file locked; try again"))
        }
        ErrorCode::TooBig => Fault::TooLarge(format!("{about}: {error}; remove that row")),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            Fault::Denied(format!("{about}: {error}; make the file and its folder writable"))
        }
        ErrorCode::NotADatabase => {
            Fault::Denied(format!("{about}: the file is no SQLite database; give another path"))
        }
        ErrorCode::DatabaseCorrupt => {
            Fault::Unavailable(format!("{about}: the file is damaged ({error}); restore it, or move it away"))
        }
        ErrorCode::CannotOpen => Fault::Unavailable(format!(
            "{about}: {error}; look at the folder's permissions and the limit of open files"
        )),
        ErrorCode::DiskFull => Fault::Unavailable(format!("{about}: the disk is full; make room")),
        _ => Fault::Unavailable(format!("{about}: {error}; try again")),
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn sqlite(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_a_failed_commit_of_a_write_is_unknown() {
        let io = ffi::SQLITE_IOERR_FSYNC;
        let told = |failed: Failed, kind| failed.into_fault(kind, "alice");
        assert!(matches!(told(Failed::Commit(sqlite(io)), Kind::Write), Fault::Unknown(_)));
        assert!(matches!(told(Failed::Commit(sqlite(io)), Kind::Read), Fault::Unavailable(_)));
        assert!(matches!(told(Failed::Before(sqlite(io)), Kind::Write), Fault::Unavailable(_)));
    }

    #[test]
    fn busy_is_try_again_wherever_it_is_met() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
            for failed in [Failed::Before(sqlite(code)), Failed::Commit(sqlite(code))] {
                assert!(failed.is_busy());
                assert!(matches!(failed.into_fault(Kind::Write, "alice"), Fault::Unavailable(_)));
            }
        }
    }
}
