//! The exit codes. They are published: scripts and service managers decide by them. Numbers as sysexits.h
//! has them, where it has one.

use std::io::ErrorKind;
use std::process::ExitCode;

use incumbent::guard::GuardError;
use incumbent::holds::{HoldsError, NotInOffice};
use incumbent::lease::LeaseError;
use incumbent::policies::publish::PublishError;
use incumbent::policies::source::SourceError;
use incumbent::policies::state::StateError;
use incumbent::policies::{NoKey, OpenError, Refused};
use incumbent::policy::LoadError;
use incumbent::store::Fault;
use incumbent::store::open::NoStore;

use super::say::NotSaid;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// There is none: nobody holds it, no job came (`holds next --wait`), nothing to clear or to go back to.
    Nobody = 1,
    /// The command line does not fit.
    Usage = 2,
    /// A record that is no holder, or a file that is no policy.
    Data = 65,
    /// The store is out of reach.
    Unavailable = 69,
    /// The policy, or this program, failed.
    Internal = 70,
    /// The answer cannot be written.
    Unwritten = 74,
    /// The lease was lost, or the job, or somebody else holds it: start again.
    Lost = 75,
    /// Not allowed.
    Denied = 77,
    /// A missing bucket, or settings that do not fit.
    Config = 78,
    /// The command is there and cannot be executed.
    NotExecutable = 126,
    /// There is no such command.
    NotFound = 127,
    /// Nobody reads the answer any more: as after SIGPIPE.
    Unread = 128 + 13,
}

/// What this command itself found wrong, and its code.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Wrong {
    exit: Exit,
    why: String,
}

/// What is wrong, for `Err`.
pub(crate) fn wrong(exit: Exit, why: impl Into<String>) -> anyhow::Error {
    Wrong { exit, why: why.into() }.into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The code for an error.
pub(crate) fn exit_of(why: &anyhow::Error) -> Exit {
    for cause in why.chain() {
        if let Some(wrong) = cause.downcast_ref::<Wrong>() {
            return wrong.exit;
        }
        if let Some(unsaid) = cause.downcast_ref::<NotSaid>() {
            return if unsaid.is_unread() { Exit::Unread } else { Exit::Unwritten };
        }
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            return of_fault(fault);
        }
        if let Some(lease) = cause.downcast_ref::<LeaseError>() {
            return of_lease(lease);
        }
        if let Some(holds) = cause.downcast_ref::<HoldsError>() {
            return of_holds(holds);
        }
        if cause.is::<LoadError>() || cause.is::<Refused>() || cause.is::<NoKey>() {
            return Exit::Data;
        }
        match cause.downcast_ref::<SourceError>() {
            Some(SourceError::TooLarge(_)) => return Exit::Data,
            Some(SourceError::Store { fault, .. }) => return of_fault(fault),
            Some(_) => return Exit::Config,
            None => {}
        }
        if let Some(OpenError::State(_)) = cause.downcast_ref() {
            return Exit::Config;
        }
        if cause.is::<StateError>() {
            return Exit::Config;
        }
        if let Some(publish) = cause.downcast_ref::<PublishError>() {
            return of_publish(publish);
        }
        if cause.is::<NoStore>() {
            return Exit::Usage;
        }
        match cause.downcast_ref::<GuardError>() {
            Some(GuardError::NotFound { .. }) => return Exit::NotFound,
            Some(GuardError::NotExecutable { .. }) => return Exit::NotExecutable,
            _ => {}
        }
        match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory) => {
                return Exit::Config;
            }
            Some(ErrorKind::InvalidData | ErrorKind::IsADirectory) => return Exit::Data,
            _ => {}
        }
    }
    Exit::Internal
}

fn of_fault(fault: &Fault) -> Exit {
    match fault {
        Fault::Denied(_) => Exit::Denied,
        Fault::MissingBucket(_) => Exit::Config,
        Fault::TooLarge(_) => Exit::Data,
        Fault::Unavailable(_) | Fault::Unknown(_) => Exit::Unavailable,
    }
}

fn of_publish(why: &PublishError) -> Exit {
    match why {
        PublishError::Store(fault) => of_fault(fault),
        PublishError::TooLarge(_) | PublishError::SignatureTooLarge(_) | PublishError::Damaged { .. } => {
            Exit::Data
        }
        PublishError::Name(_) => Exit::Usage,
        PublishError::Raced(_) => Exit::Lost,
        PublishError::NoVersion { .. } => Exit::Nobody,
    }
}

fn of_holds(why: &HoldsError) -> Exit {
    match why {
        HoldsError::Store(fault) => of_fault(fault),
        HoldsError::NotInOffice(NotInOffice::Over(_)) => Exit::Lost,
        HoldsError::NotInOffice(NotInOffice::Unsure(_)) => Exit::Unavailable,
        HoldsError::Misfit(_) => Exit::Config,
        // Policy, Lied, and whatever comes later.
        _ => Exit::Internal,
    }
}

fn of_lease(why: &LeaseError) -> Exit {
    match why {
        LeaseError::Store(fault)
        | LeaseError::Unreadable(fault)
        | LeaseError::Unwritable(fault)
        | LeaseError::Unsure(fault)
        | LeaseError::FloorUnmoved(fault) => of_fault(fault),
        LeaseError::Misfit(_)
        | LeaseError::FloorUnreadable(_)
        | LeaseError::FloorUnwritable(_)
        | LeaseError::FloorTooHigh(_)
        | LeaseError::FloorBlocked(_) => Exit::Config,
        LeaseError::NotAHolder(_) => Exit::Data,
        LeaseError::TooSlow => Exit::Unavailable,
        LeaseError::Taken(_) | LeaseError::NotYetFree | LeaseError::Shut(_) | LeaseError::Over(_) => {
            Exit::Lost
        }
        LeaseError::Policy(_) | LeaseError::Lied(_) | LeaseError::NotOpened(_) | LeaseError::Nonce(_) => {
            Exit::Internal
        }
    }
}
