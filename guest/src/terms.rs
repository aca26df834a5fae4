//! The timings of a lease, and whether they fit.

use alloc::format;
use alloc::string::String;

use crate::imports::BucketInfo;

/// The timings of a lease, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long the record lives unless renewed: the bucket's own figure.
    pub ttl_ns: u64,
    /// How often the holder renews.
    pub renew_every_ns: u64,
    /// How long before the record could expire the gate shuts.
    pub margin_ns: u64,
    /// How often a candidate looks again when nothing woke it.
    pub poll_ns: u64,
}

impl Terms {
    /// Whether the timings fit each other.
    ///
    /// # Errors
    /// Says with numbers what does not fit.
    pub fn check(&self) -> Result<(), String> {
        let each = [
            ("ttl", self.ttl_ns),
            ("renew interval", self.renew_every_ns),
            ("margin", self.margin_ns),
            ("poll", self.poll_ns),
        ];
        if let Some((name, _)) = each.iter().find(|(_, ns)| *ns == 0) {
            return Err(format!("the {name} of a lease must be above zero"));
        }
        // A sum over the largest number is surely not below the ttl.
        match self.renew_every_ns.checked_add(self.margin_ns) {
            Some(sum) if sum < self.ttl_ns => Ok(()),
            _ => Err(format!(
                "a lease renewed every {} with a margin of {} does not fit a record that lives {}: \
                 their sum must be below it",
                span(self.renew_every_ns),
                span(self.margin_ns),
                span(self.ttl_ns)
            )),
        }
    }

    /// Whether the timings fit the bucket, whose ttl is the only truth.
    ///
    /// # Errors
    /// Says with numbers what does not fit.
    pub fn fit(&self, bucket: &BucketInfo) -> Result<(), String> {
        self.check()?;
        if bucket.ttl_ns == 0 {
            return Err("the bucket keeps its keys for ever, so a holder that died would hold for ever; \
                        give the bucket a ttl"
                .into());
        }
        if bucket.ttl_ns != self.ttl_ns {
            return Err(format!(
                "the bucket keeps its keys for {}, the lease was made for {}",
                span(bucket.ttl_ns),
                span(self.ttl_ns)
            ));
        }
        Ok(())
    }

    /// The longest time between two looks of a candidate that does not break its watch, from the beginning of the one to
    /// the end of the other, where the store may forget what it acknowledged.
    pub(crate) fn gap_ns(&self) -> u64 {
        (self.renew_every_ns / 2).max(self.poll_ns.saturating_mul(2))
    }

    /// How long a record stands there before it is acted on, so that every watch that is not broken has seen it.
    pub(crate) fn announced_ns(&self) -> u64 {
        self.gap_ns().saturating_mul(2)
    }

    /// Whether the timings leave room for [`Vacancy::Delayed`](crate::lease::Vacancy::Delayed).
    pub(crate) fn fit_delayed(&self) -> Result<(), String> {
        if self.until(0) > self.announced_ns() {
            return Ok(());
        }
        Err(format!(
            "a record that stands for {} before it is acted on does not fit one that is good for {}: where an \
             absence is delayed, the poll must be below a quarter of that",
            span(self.announced_ns()),
            span(self.until(0))
        ))
    }

    /// The instant at which the gate shuts when the last good write was sent at `sent`.
    #[must_use]
    pub fn until(&self, sent_ns: u64) -> u64 {
        sent_ns.saturating_add(self.ttl_ns.saturating_sub(self.margin_ns))
    }
}

/// A duration for people: exact, in the largest unit that keeps it whole.
pub(crate) fn span(ns: u64) -> String {
    match ns {
        _ if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        _ if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        _ => format!("{ns} ns"),
    }
}
