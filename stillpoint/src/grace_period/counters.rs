//! Statistics of a domain's grace periods.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::fence::heavy;

/// Counters that [`Stats`](crate::rcu::Stats) explains. All accesses are Relaxed: statistics only. The atomics are
/// `core`'s in models too, where statistics add no steps.
#[derive(Debug)]
pub struct GpCounters {
    pub callers: AtomicU64,
    pub heavy_fences: AtomicU64,
    pub scanned: AtomicU64,
    pub sleeps: AtomicU64,
    pub wakeups: AtomicU64,
    pub stalls: AtomicU64,
    /// Nanoseconds.
    pub longest_wait: AtomicU64,
}

impl GpCounters {
    pub const fn new() -> Self {
        Self {
            callers: AtomicU64::new(0),
            heavy_fences: AtomicU64::new(0),
            scanned: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
        }
    }

    /// Issues a heavy fence, and counts it.
    pub fn heavy_fence(&self) {
        self.heavy_fences.fetch_add(1, Relaxed);
        heavy();
    }
}
