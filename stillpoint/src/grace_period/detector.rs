//! When a grace period reports a [stall](super::stall).
//!
//! The leader of a grace period that sleeps has a [`StallDetector`], which it calls after each sleep. When the grace
//! period has waited for longer than a limit, the detector reports that; and again each time the wait has doubled.
//! Leaders that may not sleep try the grace period again and again: what they know of that is in [`Tried`].

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::counters::GpCounters;
use super::stall::{LIMIT, Stall, StalledReaders};
use crate::probes::{DomainId, probe};
use crate::sync::now;

/// Decides when a grace period that sleeps reports a stall.
#[derive(Debug)]
pub struct StallDetector<'a> {
    start: Instant,
    /// The wait at which the next report is made.
    next_report: Duration,
    counters: &'a GpCounters,
    id: DomainId,
    domain: fn() -> &'static str,
    grace_period: u64,
}

/// What is known of a grace period that is tried again and again without sleep. Times are nanoseconds of [`now`].
///
/// Only leaders change it, one after another: so all accesses are Relaxed, and it decides nothing but when to report,
/// and when a thread must sleep for the readers.
#[derive(Debug)]
pub struct Tried {
    grace_period: AtomicU64,
    begun: AtomicU64,
    /// Names readers that were inside at an attempt, and when that was.
    mark: AtomicU64,
    since: AtomicU64,
    /// Attempts that have found that all readers of a mark had left, and others inside.
    overlaps: AtomicU64,
    /// How long after `since` the next report is made.
    report: AtomicU64,
}

/// For how long, and how often, readers that overlap may keep a grace period from ending without a thread that sleeps
/// for them.
const OVERLAP: (u64, u64) = (50_000_000, 2);

impl Tried {
    pub const fn new() -> Self {
        Self {
            grace_period: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            since: AtomicU64::new(0),
            overlaps: AtomicU64::new(0),
            report: AtomicU64::new(0),
        }
    }

    /// Forgets attempts of the parent, in the child of a fork.
    #[cfg(not(loom))]
    pub fn forget(&self) {
        self.grace_period.store(0, Relaxed);
    }

    /// Returns `true` if an attempt of the grace period of this number has failed.
    pub fn is_of(&self, grace_period: u64) -> bool {
        self.grace_period.load(Relaxed) == grace_period
    }

    /// Returns for how long the grace period of this number has been tried.
    pub fn age(&self, grace_period: u64) -> u64 {
        if self.is_of(grace_period) { now().saturating_sub(self.begun.load(Relaxed)) } else { 0 }
    }

    /// Returns `true` if attempts do not end the grace period of this number, although its readers leave: others
    /// have always entered before. For its leader, when an attempt has failed.
    pub fn must_sleep(&self, grace_period: u64) -> bool {
        // Not for a reader that has stayed inside since.
        let is_new = now().saturating_sub(self.since.load(Relaxed)) < OVERLAP.0;
        is_new && self.age(grace_period) >= OVERLAP.0 && self.overlaps.load(Relaxed) >= OVERLAP.1
    }

    /// An attempt has failed. `have_left` returns `true` if the readers of a mark have left, and `mark` is that of
    /// the readers that are inside.
    /// Returns `true` if it is the first one.
    fn fails(&self, grace_period: u64, mark: u64, have_left: &dyn Fn(u64) -> bool) -> bool {
        let is_first = !self.is_of(grace_period);
        if is_first {
            self.overlaps.store(0, Relaxed);
            self.begun.store(now(), Relaxed);
            self.grace_period.store(grace_period, Relaxed);
        }
        let overlaps = !is_first && have_left(self.mark.load(Relaxed));
        if is_first || overlaps {
            self.overlaps.fetch_add(overlaps.into(), Relaxed);
            self.mark.store(mark, Relaxed);
            self.since.store(now(), Relaxed);
            self.report.store(LIMIT.load(Relaxed), Relaxed);
        }
        is_first
    }
}

impl<'a> StallDetector<'a> {
    /// For the grace period of this number, which is about to sleep.
    pub fn new(
        counters: &'a GpCounters,
        id: DomainId,
        domain: fn() -> &'static str,
        grace_period: u64,
    ) -> Self {
        let next_report = Duration::from_nanos(LIMIT.load(Relaxed));
        Self { start: Instant::now(), next_report, counters, id, domain, grace_period }
    }

    /// Checks a grace period that is tried again and again. For its leader, which has just failed: see
    /// [`Tried::fails`]. `call` calls what calls the hook.
    pub fn check_tried(
        mut self,
        tried: &Tried,
        mark: u64,
        have_left: &dyn Fn(u64) -> bool,
        call: fn(&mut dyn FnMut()),
        waits_for: &dyn Fn(Duration) -> Option<StalledReaders>,
    ) {
        let is_first = tried.fails(self.grace_period, mark, have_left);
        self.counters.sleeps.fetch_add(is_first.into(), Relaxed);
        let waited = Duration::from_nanos(now().saturating_sub(tried.since.load(Relaxed)));
        let Some(start) = self.start.checked_sub(waited) else { return };
        (self.start, self.next_report) = (start, Duration::from_nanos(tried.report.load(Relaxed)));
        if let Some(waited) = self.is_due() {
            call(&mut || self.report_if_inside(waited, waits_for));
        }
        tried.report.store(self.next_report.as_nanos() as u64, Relaxed);
    }

    /// The leader is about to sleep until as many sections have ended, of this thread, or of 0 if they belong to
    /// none.
    #[inline(always)]
    pub fn will_wait_for(&self, thread: impl FnOnce() -> u32, sections: u64) {
        probe!(grace_period_wait, self.id.address(), self.grace_period, thread(), sections);
    }

    /// Returns how long the leader may sleep before the next [`check`](Self::check).
    pub fn next_report_in(&self) -> Duration {
        self.next_report.saturating_sub(self.start.elapsed())
    }

    /// Updates the longest wait, after a sleep. If a report is due, reports the result of `waits_for`, which is
    /// called with the time waited so far and returns `None` if all readers have just left.
    pub fn check(&mut self, waits_for: &dyn Fn(Duration) -> Option<StalledReaders>) {
        if let Some(waited) = self.is_due() {
            self.report_if_inside(waited, waits_for);
        }
    }

    /// See [`check`](Self::check).
    fn report_if_inside(&self, waited: Duration, waits_for: &dyn Fn(Duration) -> Option<StalledReaders>) {
        if let Some(waits_for) = waits_for(waited) {
            self.report(waited, waits_for);
        }
    }

    /// Updates the longest wait. Returns the time waited so far if a report is due.
    fn is_due(&mut self) -> Option<Duration> {
        let waited = self.start.elapsed();
        let nanoseconds = waited.as_nanos() as u64;
        // Relaxed, here and below: statistics only, and only leaders write them.
        if nanoseconds > self.counters.longest_wait.load(Relaxed) {
            self.counters.longest_wait.store(nanoseconds, Relaxed);
        }
        if waited < self.next_report {
            return None;
        }
        self.next_report = waited.saturating_mul(2);
        Some(waited)
    }

    #[cold]
    fn report(&self, waited: Duration, waits_for: StalledReaders) {
        // Relaxed: statistics only.
        self.counters.stalls.fetch_add(1, Relaxed);
        let stalled = |thread: u32, count: u64| {
            let waited = waited.as_nanos() as u64;
            probe!(grace_period_stall, self.id.address(), self.grace_period, thread, count, waited);
        };
        match &waits_for {
            StalledReaders::Threads(readers) => {
                readers.iter().for_each(|reader| stalled(reader.thread_id, 1))
            }
            StalledReaders::Sections { count, .. } => stalled(0, *count),
        }
        Stall { domain: (self.domain)(), grace_period: self.grace_period, waited, waits_for }.report();
    }
}
