//! Start and stop of the threads of a measurement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::crew::{self, Arrivals, Gate};

/// The gates and flags of a measurement.
#[derive(Debug, Default)]
pub struct Controls {
    /// The threads that are ready.
    pub ready: Arrivals,
    /// Opened when all of them are.
    pub start: Gate,
    /// Opened when the measurement is over: for idle threads.
    pub end: Gate,
    stop: AtomicBool,
    stop_background: AtomicBool,
}

impl Controls {
    /// Runs `body`, which starts threads in the scope. Then each thread is released, also after an error, and joined.
    pub fn scope<'env, T>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        thread::scope(|scope| {
            let result = body(scope);
            self.release();
            result
        })
    }

    /// Starts `threads` threads when they are ready, and stops the measured ones after `time`. Returns how long they
    /// ran.
    pub fn start_and_stop(&self, threads: usize, time: Duration) -> Duration {
        self.ready.wait_for(threads);
        let begin = Instant::now();
        self.start.open();
        thread::sleep(time);
        self.stop();
        begin.elapsed()
    }

    /// Waits until all threads are ready. A measured thread calls this once it is registered.
    pub fn begin(&self) {
        self.ready.arrive();
        self.start.wait();
    }

    /// Returns whether measured threads have to stop.
    pub fn must_stop(&self) -> bool {
        // Relaxed: the flag orders nothing; joining the thread does.
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether the threads that run beside the measured ones have to stop.
    pub fn background_must_stop(&self) -> bool {
        // Relaxed: as in `must_stop`.
        self.stop_background.load(Ordering::Relaxed)
    }

    /// Stops the measured threads only.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Releases every thread, whatever it waits for.
    pub fn release(&self) {
        self.stop();
        self.stop_background.store(true, Ordering::Relaxed);
        self.start.open();
        self.end.open();
    }
}

/// Starts `count` threads that run `body`, which gets the number of its thread.
pub fn spawn_all<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    body: impl Fn(usize) -> T + Copy + Send + 'scope,
) -> anyhow::Result<Vec<ScopedJoinHandle<'scope, T>>> {
    (0..count).map(|number| crew::spawn(scope, move || body(number))).collect()
}

/// Returns the results of the threads.
pub fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> anyhow::Result<Vec<T>> {
    threads.into_iter().map(crew::join).collect()
}
