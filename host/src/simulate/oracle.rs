//! Sees everything, and says what must not have happened.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::{Mishap, Mishaps};
use crate::lease::{Event, Lease};

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two instances might act at the same moment.
    TwoGates([(usize, u64); 2]),
    /// An epoch was issued that is not above an earlier one.
    EpochNotAbove {
        /// The epoch.
        epoch: u64,
        /// The highest issued before.
        highest: u64,
    },
    /// An instance wrote over, deleted or purged another's record, whose gate was opened on it.
    NotItsOwn {
        /// Who did.
        instance: usize,
    },
    /// An act arrived after one of a later epoch, though it was not under way for longer than acts may be.
    OutOfOrder {
        /// Its epoch.
        epoch: u64,
        /// The one that had arrived before.
        after: u64,
    },
    /// Nothing is wrong any more, and nobody takes the lease.
    NobodyTakes,
    /// A lease was lost though nothing was wrong.
    LostForNothing {
        /// Who lost it.
        instance: usize,
    },
    /// An instance was told that nobody holds the lease, so that it may serve without it, while another held it.
    ToldNobody {
        /// Who was told so.
        instance: usize,
        /// Who held it.
        holder: usize,
    },
    /// The policy did what the guard rails do not let it, or failed.
    Misdeed(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoGates([(one, first), (other, second)]) => write!(
                f,
                "two gates are open: instance {one} at epoch {first}, instance {other} at epoch {second}"
            ),
            Self::EpochNotAbove { epoch, highest } => {
                write!(f, "epoch {epoch} was issued after epoch {highest}")
            }
            Self::NotItsOwn { instance } => {
                write!(f, "instance {instance} wrote where another's record was, which it held the lease by")
            }
            Self::OutOfOrder { epoch, after } => {
                write!(f, "an act at epoch {epoch} arrived in time after one at epoch {after}")
            }
            Self::NobodyTakes => write!(f, "nothing is wrong any more, and nobody takes the lease"),
            Self::LostForNothing { instance } => {
                write!(f, "instance {instance} lost the lease though nothing was wrong")
            }
            Self::ToldNobody { instance, holder } => {
                write!(
                    f,
                    "instance {instance} was told that nobody holds the lease, while instance {holder} did"
                )
            }
            Self::Misdeed(what) => f.write_str(what),
        }
    }
}

/// A finding, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Since the beginning.
    pub at: Duration,
    /// What.
    pub what: Finding,
}

/// A line of what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Since the beginning.
    pub at: Duration,
    /// The instance that it happened to; `None` for the store.
    pub instance: Option<usize>,
    /// What.
    pub text: String,
}

/// A hold of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who.
    pub instance: usize,
    /// At which epoch.
    pub epoch: u64,
    /// Since when.
    pub from: Duration,
    /// Until when, and how it ended; `None` while it has not, or when its holder died.
    pub ended: Option<(Duration, String)>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases taken.
    pub taken: u64,
    /// Renewals.
    pub renewed: u64,
    /// Acts that passed a gate.
    pub acts: u64,
    /// Leases lost.
    pub lost: u64,
}

impl Counts {
    /// Add another's.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.renewed += other.renewed;
        self.acts += other.acts;
        self.lost += other.lost;
    }
}

pub(super) struct Oracle {
    origin: Instant,
    keeps: bool,
    book: Mutex<Book>,
}

#[derive(Default)]
pub(super) struct Book {
    digest: DefaultHasher,
    pub(super) notes: Vec<Note>,
    pub(super) holds: Vec<Hold>,
    pub(super) findings: Vec<Found>,
    pub(super) mishaps: Mishaps,
    pub(super) counts: Counts,
    stands: Vec<Stand>,
    objects: u64,
    highest: u64,
    arrived: u64,
    /// Whether nothing is wrong, so that nothing may be lost.
    calm: bool,
}

/// The latest lease object of an instance.
#[derive(Default)]
struct Stand {
    object: u64,
    lease: Weak<Lease>,
    /// The object that the instance last took the lease by.
    held_by: u64,
}

impl Oracle {
    pub(super) fn new(instances: usize, keeps: bool) -> Self {
        let mut book = Book::default();
        book.stands.resize_with(instances, Stand::default);
        Self { origin: Instant::now(), keeps, book: Mutex::new(book) }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the beginning.
    pub(super) fn at(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The number of a new lease object.
    pub(super) fn object(&self) -> u64 {
        let mut book = self.book();
        book.objects += 1;
        book.objects
    }

    /// An instance stands by this lease object.
    pub(super) fn stands(&self, instance: usize, object: u64, lease: &Arc<Lease>) {
        let mut book = self.book();
        let stand = &mut book.stands[instance];
        (stand.object, stand.lease) = (object, Arc::downgrade(lease));
    }

    /// Something happened to an instance. The numbers make the transcript, the words are for people.
    pub(super) fn note(
        &self,
        instance: usize,
        what: &'static str,
        one: u64,
        other: u64,
        text: impl FnOnce() -> String,
    ) {
        self.write(&mut self.book(), Some(instance), (what, one, other), text);
    }

    /// A mishap happened to an instance, or to the store.
    pub(super) fn mishap(&self, mishap: Mishap, instance: Option<usize>) {
        let mut book = self.book();
        book.mishaps.count(mishap);
        self.write(&mut book, instance, (mishap.words(), 0, 0), || mishap.words().to_uppercase());
    }

    fn write(
        &self,
        book: &mut Book,
        instance: Option<usize>,
        numbers: (&'static str, u64, u64),
        text: impl FnOnce() -> String,
    ) {
        let at = self.at();
        (at, instance, numbers).hash(&mut book.digest);
        if self.keeps {
            book.notes.push(Note { at, instance, text: text() });
        }
    }

    /// What happened to a lease object.
    pub(super) fn event(&self, instance: usize, object: u64, event: &Event) {
        let mut book = self.book();
        let (what, numbers) = match event {
            Event::InLine => ("in line", (0, 0)),
            Event::Waiting { holder } => ("waiting", (holder.as_ref().map_or(0, |holder| holder.epoch), 0)),
            Event::Retrying { .. } => ("retrying", (0, 0)),
            Event::Moved { was, floor } => ("moved", (*was, *floor)),
            Event::Taken { epoch, until } => ("taken", (*epoch, until.0)),
            Event::Renewed { until } => ("renewed", (0, until.0)),
            Event::RenewalFailed { until, .. } => ("renewal failed", (0, until.0)),
            Event::Refused { .. } => ("refused", (0, 0)),
            Event::Shut { .. } => ("shut", (0, 0)),
            Event::Asked { until, .. } => ("asked", (0, until.0)),
            Event::Lost { epoch, .. } => ("lost", (*epoch, 0)),
            Event::Released { epoch, .. } => ("released", (*epoch, 0)),
        };
        self.write(&mut book, Some(instance), (what, numbers.0, numbers.1), || event.to_string());
        match event {
            Event::Taken { epoch, .. } => {
                book.counts.taken += 1;
                if *epoch <= book.highest {
                    let highest = book.highest;
                    self.found(&mut book, Finding::EpochNotAbove { epoch: *epoch, highest });
                }
                book.highest = book.highest.max(*epoch);
                book.stands[instance].held_by = object;
                let from = self.at();
                book.holds.push(Hold { instance, epoch: *epoch, from, ended: None });
                self.alone(&mut book, instance, *epoch);
            }
            Event::Renewed { .. } => {
                book.counts.renewed += 1;
                if let Some(epoch) = open(&book.stands[instance]) {
                    self.alone(&mut book, instance, epoch);
                }
            }
            Event::Lost { epoch, .. } => {
                book.counts.lost += 1;
                self.ended(&mut book, *epoch, event);
                if book.calm {
                    self.found(&mut book, Finding::LostForNothing { instance });
                }
            }
            Event::Released { epoch, .. } => self.ended(&mut book, *epoch, event),
            _ => {}
        }
    }

    fn ended(&self, book: &mut Book, epoch: u64, event: &Event) {
        let at = self.at();
        let hold = book.holds.iter_mut().rev().find(|hold| hold.epoch == epoch);
        if let Some(hold) = hold.filter(|hold| hold.ended.is_none()) {
            hold.ended = Some((at, if self.keeps { event.to_string() } else { String::new() }));
        }
    }

    /// An act passes the gate.
    pub(super) fn act(&self, instance: usize, epoch: u64) {
        let mut book = self.book();
        book.counts.acts += 1;
        self.write(&mut book, Some(instance), ("act", epoch, 0), || format!("acts at epoch {epoch}"));
        self.alone(&mut book, instance, epoch);
    }

    /// It arrives where nothing refuses an older epoch.
    pub(super) fn arrives(&self, epoch: u64) {
        let mut book = self.book();
        if epoch < book.arrived {
            let after = book.arrived;
            self.found(&mut book, Finding::OutOfOrder { epoch, after });
        }
        book.arrived = book.arrived.max(epoch);
    }

    /// A write of one lease object was made where another's record was.
    pub(super) fn touched(&self, instance: usize, object: u64, of: u64) {
        let mut book = self.book();
        // A record that no gate was opened on, from a take cut off in the middle, is nobody's hold.
        let was_held = book.stands.iter().any(|stand| stand.held_by == of && stand.object == of);
        self.write(&mut book, Some(instance), ("wrote over", object, of), || {
            format!("wrote over the record of lease object {of}")
        });
        if was_held {
            self.found(&mut book, Finding::NotItsOwn { instance });
        }
    }

    /// An instance may serve without the lease, because nobody holds it: that was looked for within so much time.
    pub(super) fn told_nobody(&self, instance: usize, within: Duration) {
        let mut book = self.book();
        let begun = self.at().saturating_sub(within);
        let held = |stand: &Stand| {
            let epoch = open(stand)?;
            book.holds.iter().rev().find(|hold| hold.epoch == epoch).filter(|hold| hold.from < begun)
        };
        let holder = book.stands.iter().position(|stand| held(stand).is_some());
        if let Some(holder) = holder.filter(|holder| *holder != instance) {
            self.found(&mut book, Finding::ToldNobody { instance, holder });
        }
    }

    /// The policy was found out.
    pub(super) fn misdeed(&self, instance: usize, what: String) {
        let mut book = self.book();
        self.write(&mut book, Some(instance), ("misdeed", 0, 0), || what.clone());
        self.found(&mut book, Finding::Misdeed(what));
    }

    /// Nothing is wrong from now on, or something may be.
    pub(super) fn set_calm(&self, calm: bool) {
        self.book().calm = calm;
    }

    /// Who holds the lease, by an open gate.
    pub(super) fn holding(&self) -> Option<usize> {
        self.book().stands.iter().position(|stand| open(stand).is_some())
    }

    pub(super) fn nobody_takes(&self) {
        self.found(&mut self.book(), Finding::NobodyTakes);
    }

    /// What was written so far, as a number.
    pub(super) fn transcript(&self) -> u64 {
        self.book().digest.finish()
    }

    /// No other gate is open beside this one.
    fn alone(&self, book: &mut Book, instance: usize, epoch: u64) {
        let other = book
            .stands
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != instance)
            .find_map(|(other, stand)| Some((other, open(stand)?)));
        if let Some(other) = other {
            self.found(book, Finding::TwoGates([other, (instance, epoch)]));
        }
    }

    fn found(&self, book: &mut Book, what: Finding) {
        // The first few tell all.
        if book.findings.len() < 8 {
            book.findings.push(Found { at: self.at(), what });
        }
    }
}

/// The epoch at which acts of this instance would pass now.
fn open(stand: &Stand) -> Option<u64> {
    stand.lease.upgrade()?.epoch().ok()
}
