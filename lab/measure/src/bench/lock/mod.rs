//! `bench lock`: mutexes with a microsecond of work under the lock and one without, for more and fewer threads than
//! CPUs.
//!
//! - `mops`: acquisitions of all threads per microsecond.
//! - `jain`: Jain's index of fairness over the threads' shares, 1 if all are equal, 1/n if one of n threads has all.
//! - `p999_ns` of the waits, and `max_wait_ns`. Percentiles are of acquisitions, of which a starved thread makes few:
//!   the maximum shows it, and has to be read beside the length of a measurement.
//! - `cpu_ns_per_op`: CPU time of all threads for each acquisition.
//!
//! Work is a calibrated loop, not a wait for the clock. Each wait is timed, which takes some tens of nanoseconds,
//! half of it under the lock; but not with one and two threads that do nothing else.

pub mod ablation;
pub mod load;
pub mod shared;

use std::time::Duration;

use crate::peers::Lock;
use crate::peers::pthread::Pthread;
use crate::peers::pvq::{self, Pvq};
use harness::profile::cpus;
use harness::{Better, Budget, Metric, Plan, Recorder, Report, System, systems};
use load::{Cell, Outcome, run as run_load};

type Measure = fn(Cell, Duration) -> anyhow::Result<Outcome>;

fn systems() -> Vec<System<Measure>> {
    systems![run_load:
        stillpoint::lock::Mutex<u64>,
        std::sync::Mutex<u64>,
        parking_lot_12::Mutex<u64>,
        parking_lot::Mutex<u64>,
        usync::Mutex<u64>,
        Pthread,
        Pvq<pvq::Series>,
    ]
    .into()
}

pub const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
const JAIN: Metric = Metric::count("jain", Better::Higher);
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_wait_ns");
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

/// Long enough for a thread to starve as long as it would.
const SLICE_MS: u64 = 400;

/// Runs the bench, with 1 to 32 threads a CPU.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = cpus()?.len();
    let threads = [1, cpus, 2 * cpus, 4 * cpus, 8 * cpus, 32 * cpus];
    let mut cells: Vec<Cell> = threads.iter().map(|&threads| Cell::new(threads, 1000, 1000)).collect();
    cells.dedup();
    Ok(Report::new(&measure("lock", &mut systems(), &cells, budget)?, Vec::new()))
}

/// Measures each system in each cell, on all CPUs and on one.
pub fn measure(
    bench: &'static str,
    systems: &mut [System<Measure>],
    cells: &[Cell],
    budget: Budget,
) -> anyhow::Result<Recorder> {
    let mut recorder = Recorder::new(bench);
    Plan::new(budget, SLICE_MS, cells, systems, [&MOPS, &JAIN, &P999, &MAX, &CPU]).in_profiles()?.run(
        &mut recorder,
        |cell, _| Some(cell.config()),
        |cell, system, slice| {
            let outcome = (system.measure)(*cell, slice)?;
            let timed = |value: u64| if outcome.waits().is_empty() { f64::NAN } else { value as f64 };
            let [p999, max] = [outcome.waits().value_at_quantile(0.999), outcome.waits().max()].map(timed);
            Ok([outcome.mops(), outcome.jain(), p999, max, outcome.cpu_ns()])
        },
    )?;
    Ok(recorder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_admits_each_thread() {
        for system in systems() {
            let outcome = (system.measure)(Cell::new(3, 100, 0), Duration::from_millis(20));
            let outcome = outcome.unwrap_or_else(|why| panic!("{}: {why}", system.name));
            assert_eq!(outcome.shares.len(), 3, "{}", system.name);
            assert!(outcome.shares.iter().all(|&share| share > 0.0), "{}", system.name);
        }
    }
}
