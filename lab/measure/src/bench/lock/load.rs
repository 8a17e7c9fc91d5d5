//! Threads that take a lock again and again.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use fastrand::Rng;
use hdrhistogram::Histogram;

use crate::peers::Lock;
use harness::Config;
use harness::controls::{Controls, join_all, spawn_all};
use harness::stats::histogram;
use harness::timed_loop::thread_cpu_time;

/// Threads, and their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub threads: usize,
    /// Nanoseconds of work under the lock, and without it.
    pub cs: u32,
    ncs: u32,
    /// Percentage of acquisitions for reading, of locks that have these.
    reads: u32,
}

impl Cell {
    pub const fn new(threads: usize, cs: u32, ncs: u32) -> Self {
        Self { threads, cs, ncs, reads: 0 }
    }

    pub(super) const fn reading(self, reads: u32) -> Self {
        Self { reads, ..self }
    }

    /// Waits of few threads without work are not timed: that would take most of the time.
    fn is_timed(&self) -> bool {
        self.threads > 2 || self.cs > 0
    }

    /// Returns the parameters of a cell of mutexes.
    pub fn config(&self) -> Config {
        Config::new([
            ("threads", self.threads.into()),
            ("cs_ns", self.cs.into()),
            ("ncs_ns", self.ncs.into()),
        ])
    }

    /// Returns the parameters of a cell of reader-writer locks.
    pub(super) fn shared_config(&self) -> Config {
        Config::new([("threads", self.threads.into()), ("reads_percent", self.reads.into())])
    }
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

/// Not inlined: all systems execute the same loop. An emulator takes up to ten times as long for a loop that crosses
/// the border of two pages.
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
    cpu: Duration,
    /// Nanoseconds of waiting, if waits are timed: for the lock, and for reading.
    pub(super) waits: [Histogram<u64>; 2],
}

impl Outcome {
    fn total(&self) -> f64 {
        self.shares.iter().sum()
    }

    pub(super) fn waits(&self) -> &Histogram<u64> {
        &self.waits[0]
    }

    pub(super) fn mops(&self) -> f64 {
        self.total() / self.elapsed.as_secs_f64() / 1e6
    }

    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.total()
    }

    /// Returns the index of fairness; not a number for one thread.
    pub(super) fn jain(&self) -> f64 {
        let squares = self.shares.iter().map(|share| share.powi(2)).sum::<f64>();
        let count = self.shares.len() as f64;
        if count > 1.0 { self.total().powi(2) / (count * squares) } else { f64::NAN }
    }
}

/// The threads of `cell` take a lock again and again for `slice`.
pub fn run<L: Lock>(cell: Cell, slice: Duration) -> anyhow::Result<Outcome> {
    let lock = CachePadded::new(L::new());
    let (controls, work) = (Controls::default(), Work::calibrated());
    let body = |_| {
        controls.begin();
        if cell.is_timed() {
            repeat::<L, true>(&lock, cell, work, &controls)
        } else {
            repeat::<L, false>(&lock, cell, work, &controls)
        }
    };
    controls.scope(|scope| {
        let threads = spawn_all(scope, cell.threads, body)?;
        let elapsed = controls.start_and_stop(cell.threads, slice);
        let waits = [histogram(), histogram()];
        let mut outcome = Outcome { shares: Vec::new(), elapsed, cpu: Duration::ZERO, waits };
        for (share, cpu, waits) in join_all(threads)? {
            outcome.shares.push(share as f64);
            outcome.cpu += cpu;
            for (all, its) in outcome.waits.iter_mut().zip(waits) {
                all.add(its)?;
            }
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
) -> (u64, Duration, [Histogram<u64>; 2]) {
    let (mut waits, mut random) = ([histogram(), histogram()], Rng::new());
    let (mut share, mut own) = (0_u64, 1);
    let begin = thread_cpu_time();
    while !controls.must_stop() || share == 0 {
        let is_read = cell.reads > 0 && random.u32(..100) < cell.reads;
        let begin = TIMED.then(Instant::now);
        let waited = || begin.map(|begin| begin.elapsed());
        let waited = if is_read {
            lock.read(|state| {
                let waited = waited();
                own = work.run(cell.cs, own ^ *state);
                waited
            })
        } else {
            lock.with(|state| {
                let waited = waited();
                *state = work.run(cell.cs, *state);
                waited
            })
        };
        if let Some(waited) = waited {
            waits[usize::from(is_read)].saturating_record(waited.as_nanos() as u64);
        }
        share += 1;
        own = work.run(cell.ncs, own);
    }
    black_box(own);
    (share, thread_cpu_time() - begin, waits)
}
