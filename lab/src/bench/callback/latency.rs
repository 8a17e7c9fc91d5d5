//! How soon a callback runs.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::payload::Payload;
use crate::harness::Config;
use crate::harness::buckets::histogram;
use crate::harness::controls::{Controls, spawn_all};
use crate::peers::Reclaim;

/// Pauses between calls, in microseconds: long enough for every worker to fall asleep, and at random, so that calls do
/// not follow the rhythm of any timer.
const PAUSE_US: std::ops::RangeInclusive<u64> = 2000..=6000;

/// After this time a callback is lost.
const LOST: Duration = Duration::from_secs(10);

/// Numbers of threads that read in sections as short as can be.
pub(super) const READERS: [usize; 2] = [0, 1];

pub(super) fn config(readers: usize) -> Config {
    Config::new([("threads", 1.into()), ("readers", readers.into()), ("payload", "closure".into())])
}

/// Latencies of calls, in nanoseconds.
pub(super) fn run<R: Reclaim>(readers: usize, slice: Duration) -> anyhow::Result<Histogram<u64>> {
    let system = R::new()?;
    let slot = R::slot(<[u64; 8]>::new(7));
    let controls = Controls::default();
    let latencies = controls.scope(|scope| {
        spawn_all(scope, readers, || {
            let thread = system.thread();
            controls.ready.arrive();
            while !controls.background_must_stop() {
                R::get(&R::enter(&thread), &slot).sum();
            }
        })?;
        controls.ready.wait_for(readers);
        let thread = system.thread();
        let mut latencies = histogram();
        let start = Instant::now();
        while start.elapsed() < slice || latencies.is_empty() {
            thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
            latencies.saturating_record(one::<R>(&thread)?);
        }
        Ok(latencies)
    });
    drop(slot);
    drop(system.finish());
    latencies
}

/// Calls, and waits for the callback; the time between the two, in nanoseconds.
fn one<R: Reclaim>(thread: &R::Thread<'_>) -> anyhow::Result<u64> {
    let (ran, latency) = mpsc::channel();
    let start = Instant::now();
    R::call(thread, move || {
        let latency = start.elapsed();
        // It fails if the callback has been given up.
        let _ = ran.send(latency);
    });
    let latency = latency.recv_timeout(LOST);
    let latency = latency.with_context(|| format!("{} has not run a callback in {LOST:?}", R::NAME))?;
    Ok(latency.as_nanos() as u64)
}
