//! What the threads of a flavor tell each other: the workers, their callers, and those that poll for grace periods.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillpoint::urcu::{Engine, GpCookie};

use crate::lock::Event;

/// See the [module](self).
#[derive(Debug)]
pub struct Progress {
    /// A worker has paused or stopped, has done what was requested, or has left callbacks to the default one.
    pub(crate) event: Event,
    /// The last grace period that callers poll for; 0 if there was none.
    polled: AtomicU64,
}

impl Progress {
    pub const fn new() -> Self {
        Self { event: Event::new(), polled: AtomicU64::new(0) }
    }

    /// A caller polls for the grace period of this number.
    pub(crate) fn poll(&self, number: u64) {
        // Relaxed: before the fence in `Worker::wake_if_idle`.
        self.polled.fetch_max(number, Relaxed);
    }

    /// Returns `true` if a caller polls for a grace period that has not passed.
    pub(crate) fn is_polled<R>(&self, engine: &Engine<R>) -> bool {
        let polled = self.polled.load(Relaxed);
        polled != 0 && !engine.is_done(GpCookie::from_number(polled))
    }
}
