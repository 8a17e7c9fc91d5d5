//! One measurement of a loop: threads that start together and repeat it until the time is over.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::controls::{Controls, join_all, spawn_all};
use super::pin;

/// Iterations between two checks of the stop flag: long enough that the check costs nothing (10,000 of the cheapest
/// take 2 us), short enough that threads stop together.
const BATCH: u32 = 10_000;

/// Returns the CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // The clock starts at zero with the thread, so neither part is negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A loop that several threads run at the same time.
#[derive(Debug, Default)]
pub struct TimedLoop(Controls);

impl TimedLoop {
    /// Runs `batch` with a number of iterations until the time is over. Each thread calls this once it is registered.
    /// Returns the nanoseconds of an iteration.
    pub fn time(&self, batch: impl FnMut(u32) -> u64) -> f64 {
        let epoch = Instant::now();
        self.time_by(|| epoch.elapsed(), batch)
    }

    /// [`time`](Self::time), but of the time that the thread is on a CPU: for more threads than CPUs.
    pub fn time_on_cpu(&self, batch: impl FnMut(u32) -> u64) -> f64 {
        self.time_by(thread_cpu_time, batch)
    }

    fn time_by(&self, now: impl Fn() -> Duration, mut batch: impl FnMut(u32) -> u64) -> f64 {
        // Warms caches and lazy initialization, and keeps the wake-up out of the time.
        black_box(batch(BATCH));
        self.0.begin();
        let start = now();
        let mut iterations = 0_u64;
        while !self.0.must_stop() || iterations == 0 {
            black_box(batch(BATCH));
            iterations += u64::from(BATCH);
        }
        (now() - start).as_nanos() as f64 / iterations as f64
    }
}

/// The number of threads. One a CPU are bound to their CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    pub count: usize,
    pub per_cpu: usize,
}

impl Threads {
    /// Returns one thread, and one a CPU.
    pub fn pinned() -> anyhow::Result<Vec<Self>> {
        let mut all = Self::all()?;
        all.pop();
        Ok(all)
    }

    /// Returns one thread, one a CPU, and 16 a CPU, which the scheduler migrates.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let cpus = pin::allowed()?.len();
        let mut all = vec![(1, 1), (cpus, 1), (16 * cpus, 16)];
        all.dedup();
        Ok(all.into_iter().map(|(count, per_cpu)| Self { count, per_cpu }).collect())
    }

    /// Calls `body` in each thread, and stops its loop after `slice`. Returns the mean of what `body` returns.
    pub fn measure(self, slice: Duration, body: impl Fn(&TimedLoop) -> f64 + Sync) -> anyhow::Result<f64> {
        let each = self.measure_each(slice, |_, timed_loop| body(timed_loop))?;
        Ok(each.iter().sum::<f64>() / self.count as f64)
    }

    /// [`measure`](Self::measure) with a number for each thread, from 0. Returns what `body` returns for each number.
    pub fn measure_each(
        self,
        slice: Duration,
        body: impl Fn(usize, &TimedLoop) -> f64 + Sync,
    ) -> anyhow::Result<Vec<f64>> {
        let cpus = pin::allowed()?;
        let timed_loop = TimedLoop::default();
        timed_loop.0.scope(|scope| {
            let threads = spawn_all(scope, self.count, |number| {
                let pinned = if self.per_cpu == 1 { pin::to(cpus[number % cpus.len()]) } else { Ok(()) };
                let time = body(number, &timed_loop);
                pinned.map(|()| time)
            })?;
            timed_loop.0.start_and_stop(self.count, slice);
            join_all(threads)?.into_iter().collect()
        })
    }
}

/// Adds what `section` reads, `iterations` times: the loop around every system's section.
#[inline(always)]
pub fn repeat(iterations: u32, mut section: impl FnMut() -> u64) -> u64 {
    let mut sum = 0_u64;
    for _ in 0..iterations {
        sum = sum.wrapping_add(section());
    }
    sum
}
