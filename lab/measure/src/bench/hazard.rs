//! `bench hazard`: hazard pointers.
//!
//! `protect_ns` is the time of a round in which a thread protects as many values as the cell says, adds the numbers
//! in them, and gives them up. Hazard pointers are made before; kovan has a guard instead, which protects all.
//!
//! `retire_ns` is the time that a thread takes to allocate a value, to publish it, and to retire the one before. Each
//! thread has a pointer of its own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::time_loops;
use crate::peers::hazards::{
    Epoch, Haphazard, Kovan, MOST, Own, Protect, Retire, Retired, time_eight, time_one,
};
use harness::timed_loop::Threads;
use harness::{Budget, Metric, Recorder, Report, systems};

const PROTECT: Metric = Metric::nanoseconds("protect_ns");
const RETIRE: Metric = Metric::nanoseconds("retire_ns");

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let recorder = &mut Recorder::new("hazard");
    let one = systems![time_one: Own, Haphazard, Kovan];
    let eight = systems![time_eight: Own, Haphazard, Kovan];
    for (held, systems) in [(1, one), (MOST, eight)] {
        time_loops(budget.share(0.3), recorder, &PROTECT, &[("held", held.into())], systems.into())?;
    }
    let systems = systems![time_retirements: Retired<Own>, Retired<Haphazard>, Epoch];
    time_loops(budget.share(0.4), recorder, &RETIRE, &[], systems.into())?;
    Ok(Report::new(recorder, Vec::new()))
}

/// Returns the nanoseconds of a retirement.
fn time_retirements<S: Retire>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let (shared, next) = (&S::new(), &AtomicUsize::new(0));
    threads.measure(slice, |timed_loop| {
        // Relaxed: only the number matters.
        let index = next.fetch_add(1, Relaxed) % MOST;
        timed_loop.time(shared.retires(index))
    })
}
