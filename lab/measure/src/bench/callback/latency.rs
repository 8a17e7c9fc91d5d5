//! The latency of a callback.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::Payload as _;
use crate::peers::Reclaim;
use harness::controls::{Controls, spawn_all};
use harness::stats::histogram;

/// Pauses between calls, in microseconds: long enough for every worker to fall asleep, and random, so that calls do
/// not follow the rhythm of any timer.
const PAUSE_US: std::ops::RangeInclusive<u64> = 2000..=6000;

/// A callback that takes longer is lost.
const LOST: Duration = Duration::from_secs(10);

/// Numbers of threads that read in sections as short as can be.
pub(super) const READERS: [usize; 2] = [0, 1];

/// Returns the latencies of calls, in nanoseconds.
pub(super) fn run<R: Reclaim>(readers: usize, slice: Duration) -> anyhow::Result<Histogram<u64>> {
    let system = R::new()?;
    let slot = R::slot(<[u64; 8]>::new(7));
    let controls = Controls::default();
    let latencies = controls.scope(|scope| {
        spawn_all(scope, readers, |_| {
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
            let (ran, latency) = mpsc::channel();
            let start = Instant::now();
            R::call(&thread, move || {
                let latency = start.elapsed();
                // The caller may no longer wait for it.
                let _ = ran.send(latency);
            });
            let latency = latency.recv_timeout(LOST);
            let latency =
                latency.with_context(|| format!("{} has not run a callback in {LOST:?}", R::NAME))?;
            latencies.saturating_record(latency.as_nanos() as u64);
        }
        Ok(latencies)
    });
    drop(slot);
    drop(system.finish());
    latencies
}
