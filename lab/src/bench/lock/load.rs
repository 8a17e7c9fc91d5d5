//! Threads that take a lock again and again, and what they find.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::harness::buckets::histogram;
use crate::harness::clock::thread_cpu_time;
use crate::harness::controls::{Controls, join_all, spawn_all};
use crate::harness::{Config, pin};
use crate::peers::Lock;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) threads: usize,
    /// Nanoseconds of work under the lock, and without it.
    pub(crate) cs: u32,
    pub(crate) ncs: u32,
    /// All on one CPU.
    pub(crate) one_cpu: bool,
}

impl Cell {
    pub(crate) const fn new(threads: usize, cs: u32, ncs: u32) -> Self {
        Self { threads, cs, ncs, one_cpu: false }
    }

    pub(crate) const fn on_one_cpu(self) -> Self {
        Self { one_cpu: true, ..self }
    }

    /// Few threads that do nothing else are not timed one by one: that would be most of what is measured.
    fn is_timed(&self) -> bool {
        self.threads > 2 || self.cs > 0
    }

    pub(crate) fn config(&self, cpus: usize) -> Config {
        Config::new([
            ("threads", self.threads.into()),
            ("cs_ns", self.cs.into()),
            ("ncs_ns", self.ncs.into()),
            ("cpus", if self.one_cpu { 1 } else { cpus }.into()),
        ])
    }
}

/// Iterations of a loop that a processor takes a known time for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// 1024ths of an iteration in a nanosecond.
    per_ns: u64,
}

impl Work {
    /// The fastest of several measurements: an interruption only adds.
    pub(crate) fn measure() -> Self {
        const ITERATIONS: u64 = 100_000;
        let time = || {
            let start = Instant::now();
            black_box(iterate(ITERATIONS, black_box(1)));
            start.elapsed().as_nanos() as u64
        };
        let least = (0..20).map(|_| time()).min().unwrap_or(1).max(1);
        Self { per_ns: ITERATIONS * 1024 / least }
    }

    #[inline(always)]
    fn run(self, ns: u32, state: u64) -> u64 {
        if ns == 0 { state.wrapping_add(1) } else { iterate(u64::from(ns) * self.per_ns / 1024, state) }
    }
}

#[inline(always)]
fn iterate(iterations: u64, mut state: u64) -> u64 {
    for _ in 0..iterations {
        state = black_box(state ^ state >> 3).wrapping_mul(3);
    }
    state
}

/// What a measurement gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Acquisitions of each thread.
    pub(crate) shares: Vec<u64>,
    pub(crate) elapsed: Duration,
    /// CPU time of all threads.
    pub(crate) cpu: Duration,
    /// Nanoseconds of waiting, if they were timed.
    pub(crate) waits: Histogram<u64>,
}

impl Outcome {
    pub(crate) fn total(&self) -> f64 {
        self.shares.iter().sum::<u64>() as f64
    }

    /// Jain's index of fairness: 1 if all have equal shares, 1/n if one has all.
    pub(crate) fn jain(&self) -> f64 {
        let squares: f64 = self.shares.iter().map(|&share| (share as f64).powi(2)).sum();
        self.total().powi(2) / (self.shares.len() as f64 * squares)
    }

    /// The least share in terms of the greatest.
    pub(crate) fn min_to_max(&self) -> f64 {
        let (min, max) = (self.shares.iter().min(), self.shares.iter().max());
        *min.unwrap_or(&0) as f64 / (*max.unwrap_or(&1)).max(1) as f64
    }
}

/// The threads of `cell` take a lock again and again, for the time of `slice`.
pub(crate) fn run<L: Lock>(cell: Cell, work: Work, slice: Duration) -> anyhow::Result<Outcome> {
    let (lock, controls) = (L::new(), Controls::default());
    let cpu = if cell.one_cpu { pin::allowed()?.first().copied() } else { None };
    let body = || -> anyhow::Result<(u64, Duration, Histogram<u64>)> {
        if let Some(cpu) = cpu {
            pin::to(cpu)?;
        }
        controls.begin();
        Ok(if cell.is_timed() {
            repeat::<L, true>(&lock, cell, work, &controls)
        } else {
            repeat::<L, false>(&lock, cell, work, &controls)
        })
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
        for thread in join_all(threads)? {
            let (share, cpu, waits) = thread?;
            outcome.shares.push(share);
            outcome.cpu += cpu;
            outcome.waits.add(waits)?;
        }
        Ok(outcome)
    })
}

/// A thread: its acquisitions, its CPU time, its waits.
fn repeat<L: Lock, const TIMED: bool>(
    lock: &L,
    cell: Cell,
    work: Work,
    controls: &Controls,
) -> (u64, Duration, Histogram<u64>) {
    let mut waits = histogram();
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
        own = work.run(cell.ncs, own);
    }
    black_box(own);
    (share, thread_cpu_time() - begin, waits)
}
