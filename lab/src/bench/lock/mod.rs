//! `bench lock`: mutexes with more and less to do, for more and fewer threads than there are CPUs.
//!
//! - `mops`: acquisitions of all threads in a microsecond.
//! - `jain`: Jain's index of fairness over the threads' shares; `min_to_max`: the least share in terms of the
//!   greatest.
//! - `p50_ns` to `p999_ns` of the waits, and `max_wait_ns`. Percentiles are of acquisitions, of which a starved
//!   thread makes few: the maximum shows it, and has to be read beside the length of a measurement.
//! - `cpu_ns_per_op`: CPU time of all threads for each acquisition.
//!
//! Work is a calibrated loop, not a look at the clock. Each wait is timed, which takes some tens of nanoseconds, half
//! of it under the lock; but not with one and two threads that do nothing else.

pub(crate) mod load;
pub(crate) mod parts;
mod plot;
pub(crate) mod systems;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Report, Schedule, Skipped, pin};
use load::{Cell, Outcome, Work};
use systems::{SYSTEMS, System};

pub(crate) const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
pub(crate) const JAIN: Metric = Metric::count("jain", Better::Higher);
const MIN_TO_MAX: Metric = Metric::count("min_to_max", Better::Higher);
const P50: Metric = Metric::nanoseconds("p50_ns");
const P99: Metric = Metric::nanoseconds("p99_ns");
pub(crate) const P999: Metric = Metric::nanoseconds("p999_ns");
pub(crate) const MAX: Metric = Metric::nanoseconds("max_wait_ns");
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

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

/// As many threads as there are CPUs, and up to 32 times as many, with a microsecond under the lock and one without;
/// and the most of them on one CPU.
///
/// # Errors
///
/// Fails if the machine does not allow the threads.
pub(crate) fn by_threads(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let threads = [1, cpus, 2 * cpus, 4 * cpus, 8 * cpus, 32 * cpus];
    let mut cells: Vec<Cell> = threads.iter().map(|&threads| Cell::new(threads, 1000, 1000)).collect();
    cells.dedup();
    cells.push(Cell::new(32 * cpus, 1000, 1000).on_one_cpu());
    report(measure("bench lock", SYSTEMS, &cells, budget)?)
}

/// Runs the bench; draws to `plot`.
///
/// # Errors
///
/// Fails if the machine does not allow the threads, or the plot cannot be written.
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
        plot::draw(path, &recorder.rows())?;
    }
    report(recorder)
}

fn report(recorder: Recorder) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let why = || format!("with more threads than the {cpus} CPUs: it only spins");
    let spinning = SYSTEMS.iter().filter(|system| system.only_spins);
    let skipped = spinning.map(|system| Skipped { system: system.name, why: why() });
    #[cfg(not(target_env = "gnu"))]
    let skipped = skipped.chain([Skipped { system: "pthread-adaptive", why: "only glibc has it".into() }]);
    let skipped = skipped.collect();
    Ok(Report::new("lock", &recorder, skipped))
}

/// Measures each system in each cell.
///
/// # Errors
///
/// Fails if the machine does not allow the threads.
pub(crate) fn measure(
    name: &'static str,
    systems: &[System],
    cells: &[Cell],
    budget: Budget,
) -> anyhow::Result<Recorder> {
    let cpus = pin::allowed()?.len();
    let runs = |system: &System, cell: &Cell| {
        !system.only_spins || cell.threads <= if cell.one_cpu { 1 } else { cpus }
    };
    let all = cells.iter().map(|cell| systems.iter().filter(|system| runs(system, cell)).count());
    let (rounds, slice) = budget.split(all.sum::<usize>() as f64, SLICE);
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new(name, schedule.len(), Duration::from_secs_f64(budget.seconds));
    let mut recorder = Recorder::default();
    for cell in cells {
        for metric in METRICS {
            systems.iter().for_each(|system| recorder.announce(system.name, metric, &cell.config(cpus)));
        }
    }
    let work = Work::measure();
    for step in schedule.steps() {
        let (cell, system) = (&cells[step.cell], &systems[step.system]);
        if runs(system, cell) {
            let config = cell.config(cpus);
            progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
            record(&mut recorder, step.round, system.name, &config, &(system.run)(*cell, work, slice)?);
        }
        progress.advance();
    }
    Ok(recorder)
}

fn record(recorder: &mut Recorder, round: usize, system: &'static str, config: &Config, outcome: &Outcome) {
    let mut add = |metric, value| recorder.record(round, system, metric, config, value);
    let total = outcome.total();
    add(&MOPS, total / outcome.elapsed.as_secs_f64() / 1e6);
    add(&CPU, outcome.cpu.as_nanos() as f64 / total);
    if outcome.shares.len() > 1 {
        add(&JAIN, outcome.jain());
        add(&MIN_TO_MAX, outcome.min_to_max());
    }
    if !outcome.waits.is_empty() {
        let wait = |quantile| outcome.waits.value_at_quantile(quantile) as f64;
        add(&P50, wait(0.5));
        add(&P99, wait(0.99));
        add(&P999, wait(0.999));
        add(&MAX, outcome.waits.max() as f64);
    }
}
