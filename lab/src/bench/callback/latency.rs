//! How soon a callback runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::systems::{Payload, Reclaimer};
use crate::bench::sync::load::histogram;
use crate::harness::Config;
use crate::harness::crew::{self, Arrivals};

/// Pauses between calls, in microseconds: long enough for every worker to fall asleep, and at random, so that calls do
/// not follow the beat of anybody's timer.
const PAUSE_US: std::ops::RangeInclusive<u64> = 2000..=6000;

/// After this time a callback is lost.
const LOST: Duration = Duration::from_secs(10);

/// Threads that may be inside a section: the caller and its readers.
pub(super) const THREADS: usize = 2;

/// Threads that read in sections as short as can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(super) readers: usize,
}

pub(super) const CELLS: [Cell; 2] = [Cell { readers: 0 }, Cell { readers: 1 }];

impl Cell {
    pub(super) fn config(&self) -> Config {
        Config::new([("threads", 1.into()), ("readers", self.readers.into()), ("payload", "closure".into())])
    }
}

/// Latencies of calls, in nanoseconds.
pub(super) fn run<R: Reclaimer>(cell: &Cell, slice: Duration) -> anyhow::Result<Histogram<u64>> {
    let system = R::new()?;
    let slot = R::slot(<[u64; 8]>::new(7));
    let (ready, stop) = (Arrivals::default(), AtomicBool::new(false));
    let latencies = thread::scope(|scope| {
        let sample = || {
            for _ in 0..cell.readers {
                crew::spawn(scope, || {
                    let thread = system.thread();
                    ready.arrive();
                    while !stop.load(Ordering::Relaxed) {
                        R::read(&thread, &slot, Payload::sum);
                    }
                })?;
            }
            ready.wait_for(cell.readers);
            let thread = system.thread();
            let mut latencies = histogram();
            let start = Instant::now();
            while start.elapsed() < slice || latencies.is_empty() {
                thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
                latencies.saturating_record(one::<R>(&thread)?);
            }
            Ok(latencies)
        };
        let latencies = sample();
        stop.store(true, Ordering::Relaxed);
        latencies
    });
    drop(slot);
    drop(system.finish());
    latencies
}

/// Calls, and waits for the callback; the time between the two, in nanoseconds.
fn one<R: Reclaimer>(thread: &R::Thread<'_>) -> anyhow::Result<u64> {
    let (ran, latency) = mpsc::channel();
    let start = Instant::now();
    R::call(thread, move || {
        let latency = start.elapsed();
        // Nobody listens if it has been given up.
        let _ = ran.send(latency);
    });
    let latency = latency.recv_timeout(LOST);
    let latency = latency.with_context(|| format!("{} has not run a callback in {LOST:?}", R::NAME))?;
    Ok(latency.as_nanos() as u64)
}
