//! `bench lock`: mutexes with more and less work under the lock, for more and fewer threads than CPUs.
//!
//! - `mops`: acquisitions of all threads per microsecond.
//! - `jain`: Jain's index of fairness over the threads' shares, 1 if all are equal, 1/n if one of n threads has all;
//!   `min_to_max`: the least share divided by the greatest.
//! - `p50_ns` to `p999_ns` of the waits, and `max_wait_ns`. Percentiles are of acquisitions, of which a starved thread
//!   makes few: the maximum shows it, and has to be read beside the length of a measurement.
//! - `cpu_ns_per_op`: CPU time of all threads for each acquisition.
//!
//! `--cells` selects a set of cells in place of the grid: see [`SETS`].
//!
//! Work is a calibrated loop, not a wait for the clock. Each wait is timed, which takes some tens of nanoseconds, half
//! of it under the lock; but not with one and two threads that do nothing else.

pub mod ablation;
pub mod load;

use std::time::Duration;

use anyhow::bail;

use crate::peers::Lock;
use crate::peers::pthread::Pthread;
use crate::peers::pvq::{self, Pvq};
use crate::peers::spin::{Mcs, Ticket};
use harness::profile::cpus;
use harness::{Better, Budget, Metric, Plan, Recorder, Report, Skipped, System, pin, systems};
use load::{Cell, Outcome, run as run_load};

type Measure = fn(Cell, Duration) -> anyhow::Result<Outcome>;

fn systems() -> Vec<System<Measure>> {
    systems![run_load:
        stillpoint::lock::Mutex<u64>,
        std::sync::Mutex<u64>,
        parking_lot_12::Mutex<u64>,
        parking_lot::Mutex<u64>,
        usync::Mutex<u64>,
        Pthread<{ libc::PTHREAD_MUTEX_DEFAULT }>,
        #[cfg(target_env = "gnu")] Pthread<{ libc::PTHREAD_MUTEX_ADAPTIVE_NP }>,
        Ticket,
        Mcs,
        Pvq<pvq::Series>,
    ]
    .into()
}

/// Locks whose waiters do not sleep: with more threads than CPUs they hardly make progress.
const SPINNING: [&str; 2] = [Ticket::NAME, Mcs::NAME];

pub const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
const JAIN: Metric = Metric::count("jain", Better::Higher);
const MIN_TO_MAX: Metric = Metric::count("min_to_max", Better::Higher);
const P50: Metric = Metric::nanoseconds("p50_ns");
const P99: Metric = Metric::nanoseconds("p99_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_wait_ns");
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

/// In the order of [`values`].
const METRICS: [&Metric; 8] = [&MOPS, &JAIN, &MIN_TO_MAX, &P50, &P99, &P999, &MAX, &CPU];

/// Long enough for a thread to starve as long as it would.
const SLICE_MS: u64 = 400;

const QUICK: [Cell; 8] = [
    Cell::new(1, 0, 0),
    Cell::new(2, 0, 0),
    Cell::new(8, 0, 0),
    Cell::new(8, 100, 2000),
    Cell::new(8, 1000, 1000),
    Cell::new(64, 100, 100),
    Cell::new(64, 1000, 1000),
    Cell::new(64, 1000, 20_000),
];

/// Returns the cells of the full run.
fn grid() -> Vec<Cell> {
    product(&[1, 2, 4, 8, 16, 32, 64], &[0, 100, 1000, 10_000], &[1, 5, 20])
}

/// Returns the cells of a set, on a machine with so many CPUs.
type Set = fn(usize) -> Vec<Cell>;

/// The sets of cells that can be selected.
const SETS: [(&str, Set); 2] = [
    ("bottleneck", |_| bottleneck()),
    ("cpus+1", |cpus| product(&[cpus + 1], &[0, 100, 1000, 10_000], &[1, 5])),
];

/// Returns the cells in which the lock is all that threads do.
fn bottleneck() -> Vec<Cell> {
    product(&[8, 64], &[100, 1000, 10_000], &[1])
}

/// Returns all combinations of threads, work under the lock, and work without it, as a multiple of the former.
fn product(threads: &[usize], cs: &[u32], times: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &cs in cs {
        // A multiple of no work is no work.
        for &times in if cs > 0 { times } else { &times[..1] } {
            cells.extend(threads.iter().map(|&threads| Cell::new(threads, cs, cs * times)));
        }
    }
    cells
}

/// Returns the cells that the user selected, or `usual`.
fn selected(budget: Budget, usual: Vec<Cell>) -> anyhow::Result<Vec<Cell>> {
    let Some(name) = budget.cells else { return Ok(usual) };
    let Some((_, set)) = SETS.iter().find(|set| set.0 == name) else {
        bail!("no such set of cells: {name}; there are {}", SETS.map(|set| set.0).join(", "));
    };
    Ok(set(cpus()?.len()))
}

/// Measures 1 to 32 threads a CPU with a microsecond of work under the lock and one without.
pub fn by_threads(budget: Budget) -> anyhow::Result<Report> {
    let cpus = cpus()?.len();
    let threads = [1, cpus, 2 * cpus, 4 * cpus, 8 * cpus, 32 * cpus];
    let mut cells: Vec<Cell> = threads.iter().map(|&threads| Cell::new(threads, 1000, 1000)).collect();
    cells.dedup();
    report(&measure("lock", &mut systems(), &cells, budget)?)
}

/// Runs the bench.
pub(super) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cells = selected(budget, if budget.quick { QUICK.to_vec() } else { grid() })?;
    let budget = budget.quick_instead_of(600.0, 80.0);
    report(&measure("lock", &mut systems(), &cells, budget)?)
}

fn report(recorder: &Recorder) -> anyhow::Result<Report> {
    let why = "with more threads than CPUs: it only spins";
    let skipped = SPINNING.map(|system| Skipped { system: system.into(), why: why.to_owned() });
    let adaptive = Skipped { system: "pthread-adaptive".into(), why: "only glibc has it".to_owned() };
    let adaptive = (!cfg!(target_env = "gnu")).then_some(adaptive);
    Ok(Report::new(recorder, skipped.into_iter().chain(adaptive).collect()))
}

/// Measures each system in each cell, on all CPUs and on one.
pub fn measure(
    bench: &'static str,
    systems: &mut [System<Measure>],
    cells: &[Cell],
    budget: Budget,
) -> anyhow::Result<Recorder> {
    let mut recorder = Recorder::new(bench);
    Plan::new(budget, SLICE_MS, cells, systems, METRICS).in_profiles()?.run(
        &mut recorder,
        |cell, system| {
            let cpus = pin::allowed().map_or(1, |cpus| cpus.len());
            (!SPINNING.contains(&system.name) || cell.threads <= cpus).then(|| cell.config())
        },
        |cell, system, slice| Ok(values(&(system.measure)(*cell, slice)?)),
    )?;
    Ok(recorder)
}

/// Returns the values of [`METRICS`].
fn values(outcome: &Outcome) -> [f64; 8] {
    let Outcome { shares, elapsed, cpu, waits } = outcome;
    let (total, squares) =
        (shares.iter().sum::<f64>(), shares.iter().map(|share| share.powi(2)).sum::<f64>());
    let (min, max) =
        (shares.iter().copied().fold(total, f64::min), shares.iter().copied().fold(0.0, f64::max));
    let shared = |value: f64| if shares.len() > 1 { value } else { f64::NAN };
    let timed = |value: u64| if waits.is_empty() { f64::NAN } else { value as f64 };
    let wait = |quantile| timed(waits.value_at_quantile(quantile));
    [
        total / elapsed.as_secs_f64() / 1e6,
        shared(total.powi(2) / (shares.len() as f64 * squares)),
        shared(min / max),
        wait(0.5),
        wait(0.99),
        wait(0.999),
        timed(waits.max()),
        cpu.as_nanos() as f64 / total,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_of_cells_is_selected_by_its_name() {
        let budget = |cells| Budget { seconds: 1.0, rounds: None, quick: false, cells };
        for (name, set) in SETS {
            let cells = selected(budget(Some(name)), Vec::new()).expect("a known set");
            assert!(!cells.is_empty() && cells == set(cpus().expect("CPUs").len()), "{name}");
        }
        assert_eq!(selected(budget(None), grid()).expect("the usual cells").len(), grid().len());
        assert!(selected(budget(Some("none")), Vec::new()).is_err());
    }

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
