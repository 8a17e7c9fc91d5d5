//! `bench sync`: how long `synchronize()` takes, and what a grace period costs.
//!
//! Callers record the latency of each call, beside threads that read and threads that are registered but idle. Callers
//! are pure updaters, registered with neither library, and nothing is bound to a CPU: grace periods meet the scheduler
//! as they do in programs.
//!
//! Between two calls a caller sleeps for a random time, 0.1 ms in the mean, so that calls come at times that have nothing
//! to do with what readers are doing. Called back to back, most calls fall into the moments in which every reader happens
//! to be preempted outside a section, a thousand short ones in the time of one long one: the median would tell of
//! these moments only.
//!
//! The events of a grace period are differences of counters over a measurement, divided by its grace periods. The
//! counters of stillpoint are the library's own; those of liburcu are counted at its syscalls, and its grace periods
//! are the calls that issued a barrier, as only the leader of a grace period does (`peers/liburcu.c`).
//!
//! Then calls are compared with those of callers that defer something before they wait: see [`deferred`].
//!
//! The JSON has the latencies of all rounds in power-of-two buckets, too.

mod deferred;
pub(crate) mod flavors;
pub(crate) mod load;

use std::time::Duration;

use crate::harness::buckets::{self, BUCKETS};
use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Report, Schedule};
use load::Outcome;

/// Latencies of a call.
const P50: Metric = Metric::nanoseconds("p50_ns");
const P99: Metric = Metric::nanoseconds("p99_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_ns");
/// Process-wide fences, or calls of `membarrier`, for each grace period.
const HEAVY: Metric = Metric::count("heavy_per_gp", Better::Lower);
/// Futex wake-ups for each grace period: of the thread that drives it and of the callers it serves.
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);
/// Calls that a grace period serves.
const CALLERS: Metric = Metric::count("callers_per_gp", Better::Higher);

/// A load, and the share of the time that it needs to say something about its tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    readers: usize,
    section: Duration,
    callers: usize,
    idle_threads: usize,
    weight: u32,
    longest_pause: Duration,
}

impl Cell {
    /// Threads that read in sections of `section_us` (0: as short as can be), threads that call, and idle ones.
    pub(crate) const fn new(
        readers: usize,
        section_us: u64,
        callers: usize,
        idle_threads: usize,
        weight: u32,
    ) -> Self {
        let section = Duration::from_micros(section_us);
        Self { readers, section, callers, idle_threads, weight, longest_pause: Duration::from_micros(200) }
    }

    /// Callers pause for a random time up to this between two calls: see the [module](self).
    const fn with_pauses(self, longest_pause: Duration) -> Self {
        Self { longest_pause, ..self }
    }

    fn config(&self) -> Config {
        Config::new([
            ("readers", self.readers.into()),
            ("section_us", (self.section.as_micros() as u64).into()),
            ("callers", self.callers.into()),
            ("idle_threads", self.idle_threads.into()),
        ])
    }
}

/// Slow grace periods (long sections, many callers) get more time than fast ones.
const CELLS: [Cell; 7] = [
    Cell::new(0, 0, 1, 0, 1),
    Cell::new(1, 0, 1, 0, 1),
    Cell::new(4, 0, 1, 0, 2),
    Cell::new(4, 1000, 1, 0, 3),
    Cell::new(2, 0, 1, 0, 1),
    Cell::new(2, 0, 8, 0, 2),
    Cell::new(2, 0, 32, 0, 3),
];

/// Measured after all rounds of the others: a registry that keeps the size it once had would slow them.
const CROWD: [Cell; 1] = [Cell::new(0, 0, 1, 1000, 1)];

/// Runs the bench.
///
/// # Errors
///
/// Fails if the machine does not allow the threads of a load.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (flavors, skipped) = flavors::all();
    let cells = || CELLS.iter().chain(&CROWD);
    let weights: u32 = cells().map(|cell| cell.weight).sum();
    let (deferred_slices, deferred) = deferred::amount();
    let slices = f64::from(weights) * flavors.len() as f64 + deferred_slices;
    let (rounds, slice) = budget.split(slices, Duration::from_millis(300));
    let measurements = rounds * (flavors.len() * cells().count() + deferred);
    let progress = Progress::new("bench sync", measurements, Duration::from_secs_f64(budget.seconds));
    let mut recorder = Recorder::default();
    let mut histograms = vec![[0; BUCKETS]; cells().count() * flavors.len()];
    for cell in cells() {
        for metric in [&P50, &P99, &P999, &MAX, &HEAVY, &WAKES, &CALLERS] {
            flavors.iter().for_each(|flavor| recorder.announce(flavor.name(), metric, &cell.config()));
        }
    }
    for (first, cells) in [(0, &CELLS[..]), (CELLS.len(), &CROWD)] {
        if first != 0 {
            deferred::measure(rounds, slice, &progress, &mut recorder)?;
        }
        let schedule = Schedule { rounds, cells: cells.len(), systems: flavors.len() };
        for step in schedule.steps() {
            let (cell, flavor) = (&cells[step.cell], &flavors[step.system]);
            let config = cell.config();
            progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, flavor.name()));
            let outcome = load::run(flavor.as_ref(), cell, slice * cell.weight)?;
            for (metric, value) in metrics(&outcome, cell.callers) {
                recorder.record(step.round, flavor.name(), metric, &config, value);
            }
            buckets::add(
                &mut histograms[(first + step.cell) * flavors.len() + step.system],
                &outcome.latencies,
            );
            progress.advance();
        }
    }
    drop(progress);
    let loads = cells().flat_map(|cell| flavors.iter().map(move |flavor| (flavor.name(), cell.config())));
    let series = loads.zip(histograms);
    let series = series.map(|((flavor, config), counts)| buckets::series(flavor, "calls", config, counts));
    Ok(Report::new("sync", &recorder, skipped).with_series(series.collect()))
}

fn metrics(outcome: &Outcome, callers: usize) -> Vec<(&'static Metric, f64)> {
    let latency = |quantile| outcome.latencies.value_at_quantile(quantile) as f64;
    let mut metrics = vec![
        (&P50, latency(0.5)),
        (&P99, latency(0.99)),
        (&P999, latency(0.999)),
        (&MAX, outcome.latencies.max() as f64),
    ];
    let calls = outcome.latencies.len();
    // Where no thread is registered a library may return at once and count no grace period. A single caller shares
    // none with others, so each of its calls was one.
    let grace_periods = match outcome.events.grace_periods {
        0 if callers == 1 => calls,
        counted => counted,
    };
    if grace_periods > 0 {
        let each = |events: u64| events as f64 / grace_periods as f64;
        metrics.push((&HEAVY, each(outcome.events.heavy)));
        metrics.push((&WAKES, each(outcome.events.wakes)));
        metrics.push((&CALLERS, each(calls)));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::flavors::Events;
    use super::*;

    fn outcome(events: Events) -> Outcome {
        let mut latencies = load::histogram();
        for latency in [100, 200, 300, 400] {
            latencies.record(latency).expect("within the bounds");
        }
        Outcome { latencies, events, section_ns: f64::NAN }
    }

    fn value(metrics: &[(&'static Metric, f64)], metric: &Metric) -> f64 {
        metrics.iter().find(|(m, _)| *m == metric).map(|&(_, value)| value).expect("measured")
    }

    #[test]
    fn events_are_divided_by_grace_periods() {
        let metrics = metrics(&outcome(Events { grace_periods: 2, heavy: 3, wakes: 2 }), 8);
        assert_eq!(value(&metrics, &HEAVY), 1.5);
        assert_eq!(value(&metrics, &WAKES), 1.0);
        assert_eq!(value(&metrics, &CALLERS), 2.0);
        assert_eq!(value(&metrics, &MAX), 400.0);
    }

    #[test]
    fn a_single_caller_without_counted_grace_periods_had_one_a_call() {
        let metrics = metrics(&outcome(Events { grace_periods: 0, heavy: 0, wakes: 0 }), 1);
        assert_eq!(value(&metrics, &HEAVY), 0.0);
        assert_eq!(value(&metrics, &CALLERS), 1.0);
    }
}
