//! The callbacks that a worker runs now: since when, and in which thread. For the statistics page: without that feature,
//! nothing is recorded.

// Not of `sync`: no decision depends on these words, so models need not have them.
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Nanoseconds of [`now`](crate::sync::now) when the worker began to run callbacks, or 0, and the id of its thread. All
/// accesses are Relaxed: statistics only.
#[derive(Debug)]
pub struct Slice {
    since: AtomicU64,
    thread: AtomicU32,
}

impl Slice {
    pub const fn new() -> Self {
        Self { since: AtomicU64::new(0), thread: AtomicU32::new(0) }
    }

    /// The calling thread runs callbacks from now on, until the result is dropped.
    pub fn begin(&self, now: u64) -> Running<'_> {
        if cfg!(feature = "statistics-page") {
            #[cfg(not(loom))]
            self.thread.store(crate::sys::thread::tid().unsigned_abs(), Relaxed);
            self.since.store(now.max(1), Relaxed);
        }
        Running(self)
    }

    /// No thread runs callbacks.
    pub fn end(&self) {
        if cfg!(feature = "statistics-page") {
            self.since.store(0, Relaxed);
        }
    }

    /// Returns for how many nanoseconds a thread has run callbacks, and its id, if one does.
    #[cfg(feature = "statistics-page")]
    pub fn running(&self) -> Option<(u64, u32)> {
        let since = self.since.load(Relaxed);
        (since != 0).then(|| (crate::sync::now().saturating_sub(since), self.thread.load(Relaxed)))
    }
}

/// A thread that runs callbacks: see [`Slice::begin`].
#[derive(Debug)]
pub struct Running<'a>(&'a Slice);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
