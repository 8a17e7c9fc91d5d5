//! Statistics of a domain's grace periods.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::fence::heavy;
use crate::sync::now;

/// The upper bounds of all classes of [`Stats::waits`](crate::rcu::Stats::waits) but the last, in nanoseconds.
pub const WAIT_BOUNDS: [u64; 6] =
    [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

/// Counters that [`Stats`](crate::rcu::Stats) explains. All accesses are Relaxed: statistics only. The atomics are
/// `core`'s in models too, where statistics add no steps.
#[derive(Debug)]
pub struct GpCounters {
    /// Calls that waited for a grace period.
    pub callers: AtomicU64,
    /// Heavy fences.
    pub heavy_fences: AtomicU64,
    /// Readers that grace periods have checked.
    pub scanned: AtomicU64,
    /// Sleeps of leaders.
    pub sleeps: AtomicU64,
    /// Wake-ups of leaders by readers.
    pub wakeups: AtomicU64,
    /// Stalls that were reported.
    pub stalls: AtomicU64,
    /// The longest wait for readers, in nanoseconds.
    pub longest_wait: AtomicU64,
    /// When the leader of the grace period in progress began to sleep for readers; 0 if it does not.
    waiting_since: AtomicU64,
    /// Grace periods that slept for readers, by the time from the first bound on.
    long_waits: [AtomicU64; WAIT_BOUNDS.len()],
}

impl Default for GpCounters {
    fn default() -> Self {
        Self::new()
    }
}

impl GpCounters {
    /// Creates counters of 0.
    pub const fn new() -> Self {
        Self {
            callers: AtomicU64::new(0),
            heavy_fences: AtomicU64::new(0),
            scanned: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            waiting_since: AtomicU64::new(0),
            long_waits: [const { AtomicU64::new(0) }; WAIT_BOUNDS.len()],
        }
    }

    /// Issues a heavy fence, and counts it.
    pub fn heavy_fence(&self) {
        self.heavy_fences.fetch_add(1, Relaxed);
        heavy();
    }

    /// Says that the leader of a grace period sleeps for readers, until the result is dropped. Leaders do not
    /// overlap.
    pub fn begin_wait(&self) -> GpWait<'_> {
        let since = now();
        self.waiting_since.store(since, Relaxed);
        GpWait { counters: self, since }
    }

    /// Forgets the wait of the parent of a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.waiting_since.store(0, Relaxed);
    }

    /// Returns `true` if the leader of the grace period in progress sleeps for readers.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.load(Relaxed) != 0
    }

    /// Returns how long the grace period in progress has waited for readers; zero if none does.
    pub fn waiting(&self) -> Duration {
        match self.waiting_since.load(Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_nanos(now().saturating_sub(since)),
        }
    }

    /// Returns the number of grace periods in each class of waits, of `completed` ones.
    pub fn waits(&self, completed: u64) -> [u64; WAIT_BOUNDS.len() + 1] {
        let mut waits = [0; WAIT_BOUNDS.len() + 1];
        for (class, count) in waits[1..].iter_mut().zip(&self.long_waits) {
            *class = count.load(Relaxed);
        }
        // Those that did not sleep are not counted one by one.
        waits[0] = completed.saturating_sub(waits.iter().sum());
        waits
    }
}

/// A leader that sleeps for readers.
#[derive(Debug)]
pub struct GpWait<'a> {
    counters: &'a GpCounters,
    since: u64,
}

impl Drop for GpWait<'_> {
    fn drop(&mut self) {
        let waited = now().saturating_sub(self.since);
        self.counters.waiting_since.store(0, Relaxed);
        if let Some(class) = WAIT_BOUNDS.iter().rposition(|bound| waited > *bound) {
            self.counters.long_waits[class].fetch_add(1, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wait_is_shown_while_it_lasts_and_counted_in_its_class() {
        let counters = GpCounters::new();
        assert_eq!((counters.waiting(), counters.waits(9)), (Duration::ZERO, [9, 0, 0, 0, 0, 0, 0]));
        for waited in [0, 2_000_000, 3_000_000, 20_000_000_000] {
            let mut wait = counters.begin_wait();
            wait.since -= waited;
            counters.waiting_since.store(wait.since, Relaxed);
            assert!(counters.waiting() >= Duration::from_nanos(waited));
        }
        assert_eq!((counters.waiting(), counters.waits(9)), (Duration::ZERO, [6, 0, 2, 0, 0, 0, 1]));
        // A snapshot during changes.
        assert_eq!(counters.waits(2)[0], 0);
    }
}
