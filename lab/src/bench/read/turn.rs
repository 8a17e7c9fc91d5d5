//! One measurement of a loop: threads that start together and loop until told to stop.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::clock::thread_cpu_time;
use crate::harness::crew::{Arrivals, Gate};

/// Iterations between two looks at the stop flag: long enough that looking costs nothing (10,000 of the cheapest take
/// 2 us), short enough that threads stop together.
const BATCH: u32 = 10_000;

/// Coordinates the threads of a measurement with the thread that takes the time.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    ready: Arrivals,
    start: Gate,
    stop: AtomicBool,
}

impl Turn {
    /// Called in each thread, once it is registered: runs `batch` with a number of iterations until the turn is over,
    /// and returns the nanoseconds of an iteration.
    pub(crate) fn time(&self, mut batch: impl FnMut(u32) -> u64) -> f64 {
        // Warms caches and lazy initialization, and keeps the wake-up out of the time.
        black_box(batch(BATCH));
        self.ready.arrive();
        self.start.wait();
        let start = Instant::now();
        let mut iterations = 0_u64;
        // Relaxed: the flag orders nothing, and joining the thread does.
        while !self.stop.load(Ordering::Relaxed) || iterations == 0 {
            black_box(batch(BATCH));
            iterations += u64::from(BATCH);
        }
        start.elapsed().as_nanos() as f64 / iterations as f64
    }

    /// [`time`](Self::time), but of the time that the thread is on a CPU: for more threads than CPUs.
    pub(crate) fn time_on_cpu(&self, mut batch: impl FnMut(u32) -> u64) -> f64 {
        black_box(batch(BATCH));
        self.ready.arrive();
        self.start.wait();
        let start = thread_cpu_time();
        let mut iterations = 0_u64;
        // Relaxed: as above.
        while !self.stop.load(Ordering::Relaxed) || iterations == 0 {
            black_box(batch(BATCH));
            iterations += u64::from(BATCH);
        }
        (thread_cpu_time() - start).as_nanos() as f64 / iterations as f64
    }

    /// Called in the thread that takes the time: lets `threads` threads start together, and ends the turn after `slice`.
    pub(crate) fn last_for(&self, slice: Duration, threads: usize) {
        self.ready.wait_for(threads);
        self.start.open();
        thread::sleep(slice);
        self.end();
    }

    /// Ends the turn, also for threads that have not started.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.start.open();
    }
}

/// Adds what `section` reads, `iterations` times: the loop around every system's section.
#[inline(always)]
pub(crate) fn repeat(iterations: u32, mut section: impl FnMut() -> u64) -> u64 {
    let mut sum = 0_u64;
    for _ in 0..iterations {
        sum = sum.wrapping_add(section());
    }
    sum
}
