//! One measurement of the sync bench: readers, idle threads and callers, and what they saw.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::Cell;
use super::flavors::{Events, Flavor};
use crate::harness::clock::thread_cpu_time;
use crate::harness::crew::{self, Arrivals, Gate};

/// Longest latency that a histogram tells apart from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// What one measurement saw.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Latency of each call, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    /// Events while the callers were calling.
    pub(crate) events: Events,
    /// CPU time of the readers for each of their sections, in nanoseconds; not a number without readers.
    pub(crate) section_ns: f64,
}

/// An empty histogram with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid")
}

/// What the threads of a load wait for and look at.
#[derive(Debug, Default)]
struct Controls {
    ready: Arrivals,
    start: Gate,
    stop_callers: AtomicBool,
    stop_readers: AtomicBool,
    end: Gate,
}

impl Controls {
    /// Lets every thread finish, whatever it waits for.
    fn end(&self) {
        self.stop_callers.store(true, Ordering::Relaxed);
        self.stop_readers.store(true, Ordering::Relaxed);
        self.start.open();
        self.end.open();
    }
}

/// Runs the callers of `cell` beside its other threads for `slice`.
///
/// # Errors
///
/// Fails if the system does not allow as many threads.
pub(crate) fn run(flavor: &dyn Flavor, cell: &Cell, slice: Duration) -> anyhow::Result<Outcome> {
    let controls = Controls::default();
    thread::scope(|scope| {
        let outcome = measure(scope, &controls, flavor, cell, slice).with_context(|| {
            let threads = cell.readers + cell.callers + cell.idle_threads;
            format!("the load {} of {} needs {threads} threads", cell.config(), flavor.name())
        });
        controls.end();
        outcome
    })
}

fn measure<'scope>(
    scope: &'scope Scope<'scope, '_>,
    controls: &'scope Controls,
    flavor: &'scope dyn Flavor,
    cell: &'scope Cell,
    slice: Duration,
) -> anyhow::Result<Outcome> {
    for _ in 0..cell.idle_threads {
        crew::spawn(scope, || {
            flavor.idle(&|| {
                controls.ready.arrive();
                controls.end.wait();
            });
        })?;
    }
    let mut readers = Vec::new();
    for _ in 0..cell.readers {
        readers.push(crew::spawn(scope, || {
            let sections = flavor.read(cell.section, &|| controls.ready.arrive(), &controls.stop_readers);
            // Nearly all that the thread has done; preemption does not count.
            (sections, thread_cpu_time())
        })?);
    }
    let mut callers = Vec::new();
    for _ in 0..cell.callers {
        callers.push(crew::spawn(scope, || call(controls, flavor, cell.longest_pause))?);
    }

    controls.ready.wait_for(cell.idle_threads + cell.readers + cell.callers);
    let before = flavor.events();
    controls.start.open();
    thread::sleep(slice);
    // Readers go on until the last caller is back, so that every call meets the same load.
    controls.stop_callers.store(true, Ordering::Relaxed);
    let mut latencies = histogram();
    for caller in callers {
        latencies.add(crew::join(caller)?).context("cannot add up the latencies of the callers")?;
    }
    let events = flavor.events() - before;
    controls.stop_readers.store(true, Ordering::Relaxed);
    let (mut sections, mut time) = (0, Duration::ZERO);
    for reader in readers {
        let (its_sections, its_time) = crew::join(reader)?;
        sections += its_sections;
        time += its_time;
    }
    Ok(Outcome { latencies, events, section_ns: time.as_nanos() as f64 / sections as f64 })
}

/// A caller: calls and pauses until told to stop.
fn call(controls: &Controls, flavor: &dyn Flavor, longest_pause: Duration) -> Histogram<u64> {
    let mut latencies = histogram();
    controls.ready.arrive();
    controls.start.wait();
    while !controls.stop_callers.load(Ordering::Relaxed) || latencies.is_empty() {
        let start = Instant::now();
        flavor.synchronize();
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
        thread::sleep(longest_pause.mul_f64(fastrand::f64()));
    }
    latencies
}
