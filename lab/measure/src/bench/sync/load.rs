//! One measurement of the sync bench: readers, idle threads and callers.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;

use crate::peers::GracePeriods;
use harness::Config;
use harness::controls::{Controls, join_all, spawn_all};
use harness::stats::histogram;
use harness::timed_loop::thread_cpu_time;

/// Short sections between two checks of the stop flag.
const BATCH: u32 = 256;

/// Callers pause for a random time up to this between two calls: see the [module](super).
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// The threads of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub(super) readers: usize,
    pub(super) section: Duration,
    pub(super) callers: usize,
    pub(super) idle_threads: usize,
}

impl Cell {
    /// Threads that read in sections of `section_us` (0: as short as can be), threads that call, and idle ones.
    pub const fn new(readers: usize, section_us: u64, callers: usize, idle_threads: usize) -> Self {
        Self { readers, section: Duration::from_micros(section_us), callers, idle_threads }
    }

    pub(super) fn config(&self) -> Config {
        Config::new([
            ("readers", self.readers.into()),
            ("section_us", (self.section.as_micros() as u64).into()),
            ("callers", self.callers.into()),
            ("idle_threads", self.idle_threads.into()),
        ])
    }
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Outcome {
    /// Latency of each call, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// CPU time of the readers for each of their sections, in nanoseconds; not a number without readers.
    pub section_ns: f64,
}

/// Runs the callers of `cell` beside its other threads for `slice`.
pub fn run<S: GracePeriods>(cell: Cell, slice: Duration) -> anyhow::Result<Outcome> {
    let controls = Controls::default();
    let shared = CachePadded::new(S::new());
    let threads = cell.readers + cell.callers + cell.idle_threads;
    let outcome = controls.scope(|scope| {
        spawn_all(scope, cell.idle_threads, |_| {
            let _reader = shared.reader();
            controls.ready.arrive();
            controls.end.wait();
        })?;
        let readers = spawn_all(scope, cell.readers, |_| {
            let sections = read(&controls, &*shared, cell.section);
            // Nearly all of the CPU time of the thread; preemption does not count.
            (sections, thread_cpu_time())
        })?;
        let callers = spawn_all(scope, cell.callers, |_| call(&controls, || shared.synchronize()))?;
        controls.ready.wait_for(threads);
        controls.start.open();
        thread::sleep(slice);
        // Readers continue until the last caller returns, so that every call meets the same load.
        controls.stop();
        let mut latencies = histogram();
        for its_latencies in join_all(callers)? {
            latencies.add(its_latencies).context("cannot add up the latencies of the callers")?;
        }
        controls.release();
        let (mut sections, mut time) = (0, Duration::ZERO);
        for (its_sections, its_time) in join_all(readers)? {
            sections += its_sections;
            time += its_time;
        }
        Ok(Outcome { latencies, section_ns: time.as_nanos() as f64 / sections as f64 })
    });
    outcome.with_context(|| format!("the load {} of {} needs {threads} threads", cell.config(), S::NAME))
}

/// A reader: sections as short as can be, or sections of `length` that read the clock. Returns their number.
fn read<S: GracePeriods>(controls: &Controls, shared: &S, length: Duration) -> u64 {
    let reader = shared.reader();
    controls.ready.arrive();
    let mut sections = 0;
    while !controls.background_must_stop() || sections == 0 {
        if length.is_zero() {
            black_box(shared.read(&reader, BATCH));
            sections += u64::from(BATCH);
        } else {
            let guard = shared.enter(&reader);
            let start = Instant::now();
            black_box(shared.load(&guard));
            while start.elapsed() < length {}
            sections += 1;
        }
    }
    sections
}

/// A caller: calls and pauses.
fn call(controls: &Controls, wait: impl Fn()) -> Histogram<u64> {
    let mut latencies = histogram();
    controls.begin();
    while !controls.must_stop() || latencies.is_empty() {
        let start = Instant::now();
        wait();
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
        thread::sleep(LONGEST_PAUSE.mul_f64(fastrand::f64()));
    }
    latencies
}
