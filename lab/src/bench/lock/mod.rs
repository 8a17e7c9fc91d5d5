//! `bench lock`: mutexes with more and less to do, for more and fewer threads than there are CPUs.
//!
//! - `mops`: acquisitions of all threads in a microsecond.
//! - `jain`: Jain's index of fairness over the threads' shares; `min_to_max`: the least share in terms of the greatest.
//! - `p50_ns` to `p999_ns` of the waits, and `max_wait_ns`. Percentiles are of acquisitions, of which a starved thread makes
//!   few: the maximum shows it, and has to be read beside the length of a measurement.
//! - `cpu_ns_per_op`: CPU time of all threads for each acquisition.
//!
//! Work is a calibrated loop, not a wait for the clock. Each wait is timed, which takes some tens of nanoseconds, half of
//! it under the lock; but not with one and two threads that do nothing else.

pub(crate) mod load;
pub(crate) mod parts;
mod plot;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

use crate::harness::{self, Better, Budget, Metric, Plan, Recorder, Report, Skipped, pin};
use crate::peers::Lock;
use crate::peers::pthread::Pthread;
use crate::peers::spin::{Mcs, Ticket};
use load::{Cell, Outcome, Work};

/// A lock, its name in the report, and what measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Cell, Work, Duration) -> anyhow::Result<Outcome>,
    /// Waiters do not sleep: with more threads than processors it stands still.
    pub(crate) only_spins: bool,
}

impl System {
    pub(crate) const fn new<L: Lock>(name: &'static str) -> Self {
        Self { name, run: load::run::<L>, only_spins: false }
    }

    const fn of<L: Lock>() -> Self {
        Self::new::<L>(L::NAME)
    }

    const fn spinning<L: Lock>() -> Self {
        Self { only_spins: true, ..Self::of::<L>() }
    }

    /// Whether it gets on in `cell`, on a machine with so many `cpus`.
    fn can_run(&self, cell: &Cell, cpus: usize) -> bool {
        !self.only_spins || cell.threads <= if cell.one_cpu { 1 } else { cpus }
    }
}

pub(crate) const STD: System = System::of::<std::sync::Mutex<u64>>();

const SYSTEMS: &[System] = &[
    System::of::<stillpoint::lock::Mutex<u64>>(),
    STD,
    System::of::<parking_lot_12::Mutex<u64>>(),
    System::of::<parking_lot::Mutex<u64>>(),
    System::of::<usync::Mutex<u64>>(),
    System::of::<Pthread<{ libc::PTHREAD_MUTEX_DEFAULT }>>(),
    #[cfg(target_env = "gnu")]
    System::of::<Pthread<{ libc::PTHREAD_MUTEX_ADAPTIVE_NP }>>(),
    System::spinning::<Ticket>(),
    System::spinning::<Mcs>(),
];

pub(crate) const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
pub(crate) const JAIN: Metric = Metric::count("jain", Better::Higher);
const MIN_TO_MAX: Metric = Metric::count("min_to_max", Better::Higher);
const P50: Metric = Metric::nanoseconds("p50_ns");
const P99: Metric = Metric::nanoseconds("p99_ns");
pub(crate) const P999: Metric = Metric::nanoseconds("p999_ns");
pub(crate) const MAX: Metric = Metric::nanoseconds("max_wait_ns");
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

/// In the order of [`values`].
const METRICS: [&Metric; 8] = [&MOPS, &JAIN, &MIN_TO_MAX, &P50, &P99, &P999, &MAX, &CPU];

/// Usual time of the whole grid.
pub(super) const SECONDS: f64 = 600.0;
/// Usual time of the quick one.
const QUICK_SECONDS: f64 = 80.0;
/// Long enough for a thread to starve as long as it would.
const SLICE: Duration = Duration::from_millis(400);

const QUICK: [Cell; 9] = [
    Cell::new(1, 0, 0),
    Cell::new(2, 0, 0),
    Cell::new(8, 0, 0),
    Cell::new(8, 100, 2000),
    Cell::new(8, 1000, 1000),
    Cell::new(64, 100, 100),
    Cell::new(64, 1000, 1000),
    Cell::new(64, 1000, 20_000),
    Cell::new(64, 1000, 1000).on_one_cpu(),
];

/// Threads, nanoseconds under the lock, and how many times as many without it.
fn grid() -> Vec<Cell> {
    let mut cells = Vec::new();
    for one_cpu in [false, true] {
        for cs in [0, 100, 1000, 10_000] {
            for times in [1, 5, 20] {
                for threads in [1, 2, 4, 8, 16, 32, 64] {
                    // No work is no work, however often.
                    if (cs > 0 || times == 1) && (threads > 1 || !one_cpu) {
                        let cell = Cell::new(threads, cs, cs * times);
                        cells.push(if one_cpu { cell.on_one_cpu() } else { cell });
                    }
                }
            }
        }
    }
    cells
}

/// As many threads as there are CPUs, and up to 32 times as many, with a microsecond under the lock and one without; and
/// the most of them on one CPU.
pub(crate) fn by_threads(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let threads = [1, cpus, 2 * cpus, 4 * cpus, 8 * cpus, 32 * cpus];
    let mut cells: Vec<Cell> = threads.iter().map(|&threads| Cell::new(threads, 1000, 1000)).collect();
    cells.dedup();
    cells.push(Cell::new(32 * cpus, 1000, 1000).on_one_cpu());
    report(measure("bench lock", SYSTEMS, &cells, budget)?)
}

/// Runs the bench; draws to `plot`.
pub(super) fn run(
    quick: bool,
    cs: Option<u32>,
    plot: Option<&Path>,
    budget: Budget,
) -> anyhow::Result<Report> {
    let mut cells = if quick { QUICK.to_vec() } else { grid() };
    cells.retain(|cell| cs.is_none_or(|cs| cell.cs == cs));
    ensure!(!cells.is_empty(), "nothing is measured with so much work under the lock");
    let budget = if quick { budget.instead_of(SECONDS, QUICK_SECONDS) } else { budget };
    let recorder = measure("bench lock", SYSTEMS, &cells, budget)?;
    if let Some(path) = plot {
        plot::draw(path, &recorder.rows(), &MOPS, &MAX)?;
    }
    report(recorder)
}

fn report(recorder: Recorder) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let why = || format!("with more threads than the {cpus} CPUs: it only spins");
    let spinning = SYSTEMS.iter().filter(|system| system.only_spins);
    let skipped = spinning.map(|system| Skipped { system: system.name.into(), why: why() });
    #[cfg(not(target_env = "gnu"))]
    let skipped =
        skipped.chain([Skipped { system: "pthread-adaptive".into(), why: "only glibc has it".into() }]);
    let skipped = skipped.collect();
    Ok(Report::new("lock", &recorder, skipped))
}

/// Measures each system in each cell.
pub(crate) fn measure(
    name: &'static str,
    systems: &[System],
    cells: &[Cell],
    budget: Budget,
) -> anyhow::Result<Recorder> {
    let cpus = pin::allowed()?.len();
    let all = cells.iter().map(|cell| systems.iter().filter(|system| system.can_run(cell, cpus)).count());
    let timing = budget.split(all.sum::<usize>() as f64, SLICE);
    let systems = systems.iter();
    let mut systems: Vec<_> =
        systems.map(|&measure| harness::System { name: measure.name, measure }).collect();
    let plan = Plan { title: name, timing, cells, systems: &mut systems, metrics: METRICS };
    let mut recorder = Recorder::default();
    let work = Work::measure();
    harness::run(
        plan,
        &mut recorder,
        |cell, _| cell.config(cpus),
        |cell, system, slice| {
            let system = system.measure;
            if !system.can_run(cell, cpus) {
                return Ok([f64::NAN; 8]);
            }
            Ok(values(&(system.run)(*cell, work, slice)?))
        },
    )?;
    Ok(recorder)
}

/// The values of [`METRICS`].
fn values(outcome: &Outcome) -> [f64; 8] {
    let total = outcome.total();
    let if_any = |is: bool, value: f64| if is { value } else { f64::NAN };
    let shared = |value| if_any(outcome.shares.len() > 1, value);
    let timed = |value: u64| if_any(!outcome.waits.is_empty(), value as f64);
    let wait = |quantile| timed(outcome.waits.value_at_quantile(quantile));
    [
        total / outcome.elapsed.as_secs_f64() / 1e6,
        shared(outcome.jain()),
        shared(outcome.min_to_max()),
        wait(0.5),
        wait(0.99),
        wait(0.999),
        timed(outcome.waits.max()),
        outcome.cpu.as_nanos() as f64 / total,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_lets_each_thread_in() {
        let cell = Cell::new(3, 100, 0);
        for system in SYSTEMS {
            let outcome = (system.run)(cell, Work::measure(), Duration::from_millis(20));
            let outcome = outcome.unwrap_or_else(|why| panic!("{}: {why}", system.name));
            assert_eq!(outcome.shares.len(), 3, "{}", system.name);
            assert!(outcome.shares.iter().all(|&share| share > 0), "{}", system.name);
        }
    }
}
