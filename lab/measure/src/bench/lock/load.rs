//! Threads that take a lock again and again.

use std::hint::black_box;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use fastrand::Rng;
use hdrhistogram::Histogram;

use crate::peers::Lock;
use harness::Config;
use harness::buckets::histogram;
use harness::controls::{Controls, join_all, spawn_all};
use harness::timed_loop::thread_cpu_time;

/// Threads, and their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub threads: usize,
    /// Nanoseconds of work under the lock, and without it.
    pub cs: u32,
    ncs: u32,
    /// The work without the lock is drawn from an exponential distribution with the mean `ncs`.
    random: bool,
}

impl Cell {
    pub const fn new(threads: usize, cs: u32, ncs: u32) -> Self {
        Self { threads, cs, ncs, random: false }
    }

    pub(super) const fn with_random_pauses(self) -> Self {
        Self { random: true, ..self }
    }

    /// Waits of few threads without work are not timed: that would take most of the time.
    fn is_timed(&self) -> bool {
        self.threads > 2 || self.cs > 0
    }

    /// Returns the parameters. Those that only some cells have are left out of the others.
    pub fn config(&self) -> Config {
        let usual = Config::new([
            ("threads", self.threads.into()),
            ("cs_ns", self.cs.into()),
            ("ncs_ns", self.ncs.into()),
        ]);
        if self.random { usual.with("pauses", "random".into()) } else { usual }
    }

    /// Returns the nanoseconds of work without the lock.
    #[inline(always)]
    fn pause(&self, random: &mut Rng) -> u32 {
        if self.random { exponential(self.ncs, random.f64()) } else { self.ncs }
    }
}

/// Returns the value of an exponential distribution for a number from 0 to 1 that is uniformly distributed.
fn exponential(mean: u32, uniform: f64) -> u32 {
    (-f64::from(mean) * (1.0 - uniform).ln()) as u32
}

/// Iterations of a loop that takes a known time.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// 1024ths of an iteration in a nanosecond.
    per_ns: u64,
}

impl Work {
    /// Returns the work of this machine, by the fastest of several measurements: an interruption only adds.
    pub fn calibrated() -> Self {
        const ITERATIONS: u64 = 100_000;
        static CALIBRATED: OnceLock<Work> = OnceLock::new();
        let time = || {
            let start = Instant::now();
            black_box(iterate(ITERATIONS, black_box(1)));
            start.elapsed().as_nanos() as u64
        };
        *CALIBRATED.get_or_init(|| {
            let least = (0..20).map(|_| time()).min().unwrap_or(1).max(1);
            Self { per_ns: ITERATIONS * 1024 / least }
        })
    }

    #[inline(always)]
    pub fn run(self, ns: u32, state: u64) -> u64 {
        if ns == 0 { state.wrapping_add(1) } else { iterate(u64::from(ns) * self.per_ns / 1024, state) }
    }
}

/// Not inlined: all systems execute the same loop. An emulator takes up to ten times as long for a loop that crosses the
/// border of two pages.
#[inline(never)]
fn iterate(iterations: u64, mut state: u64) -> u64 {
    for _ in 0..iterations {
        state = black_box(state ^ state >> 3).wrapping_mul(3);
    }
    state
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Outcome {
    /// Acquisitions of each thread.
    pub(super) shares: Vec<f64>,
    pub elapsed: Duration,
    /// CPU time of all threads.
    pub(super) cpu: Duration,
    /// Nanoseconds of waiting, if waits are timed.
    pub(super) waits: Histogram<u64>,
}

/// The threads of `cell` take a lock again and again for `slice`.
pub fn run<L: Lock>(cell: Cell, slice: Duration) -> anyhow::Result<Outcome> {
    let lock = CachePadded::new(L::new());
    let (controls, work) = (Controls::default(), Work::calibrated());
    let body = || {
        controls.begin();
        if cell.is_timed() {
            repeat::<L, true>(&lock, cell, work, &controls)
        } else {
            repeat::<L, false>(&lock, cell, work, &controls)
        }
    };
    controls.scope(|scope| {
        let threads = spawn_all(scope, cell.threads, body)?;
        controls.ready.wait_for(cell.threads);
        let begin = Instant::now();
        controls.start.open();
        thread::sleep(slice);
        controls.stop();
        let elapsed = begin.elapsed();
        let mut outcome = Outcome { shares: Vec::new(), elapsed, cpu: Duration::ZERO, waits: histogram() };
        for (share, cpu, waits) in join_all(threads)? {
            outcome.shares.push(share as f64);
            outcome.cpu += cpu;
            outcome.waits.add(waits)?;
        }
        Ok(outcome)
    })
}

/// A thread. Returns its acquisitions, its CPU time, and its waits.
fn repeat<L: Lock, const TIMED: bool>(
    lock: &L,
    cell: Cell,
    work: Work,
    controls: &Controls,
) -> (u64, Duration, Histogram<u64>) {
    let (mut waits, mut random) = (histogram(), Rng::new());
    let (mut share, mut own) = (0_u64, 1);
    let begin = thread_cpu_time();
    while !controls.must_stop() || share == 0 {
        let begin = TIMED.then(Instant::now);
        let waited = lock.with(|state| {
            let waited = begin.map(|begin| begin.elapsed());
            *state = work.run(cell.cs, *state);
            waited
        });
        if let Some(waited) = waited {
            waits.saturating_record(waited.as_nanos() as u64);
        }
        share += 1;
        own = work.run(cell.pause(&mut random), own);
    }
    black_box(own);
    (share, thread_cpu_time() - begin, waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_pauses_have_the_mean_of_the_cell() {
        let mut random = Rng::with_seed(1);
        let cell = Cell::new(1, 0, 1000).with_random_pauses();
        let pauses: Vec<u32> = (0..100_000).map(|_| cell.pause(&mut random)).collect();
        let mean = pauses.iter().map(|&pause| f64::from(pause)).sum::<f64>() / pauses.len() as f64;
        assert!((950.0..1050.0).contains(&mean), "{mean}");
        assert!(pauses.iter().filter(|&&pause| pause > 2000).count() > 10_000);
    }
}
