//! `bench sync`: how long `synchronize()` takes, and what a grace period costs.
//!
//! Callers record the latency of each call, beside threads that read and threads that are registered but idle. Callers
//! are pure updaters, registered with neither library, and nothing is bound to a CPU: grace periods meet the scheduler
//! as they do in programs.
//!
//! Between two calls a caller sleeps for a random time, 0.1 ms in the mean, so that calls come at times that have nothing
//! to do with what readers are doing. Called back to back, most calls fall into the moments in which every reader happens
//! to be preempted outside a section, a thousand short ones in the time of one long one: the median would be that
//! of these moments only.
//!
//! The events of a grace period are differences of counters over a measurement, divided by its grace periods. The
//! counters of stillpoint are the library's own; those of liburcu are counted at its syscalls, and its grace periods
//! are the calls that issued a barrier, as only the leader of a grace period does (`peers/liburcu.c`).
//!
//! Then calls are compared with those of callers that defer something before they wait: see [`deferred`].
//!
//! The JSON has the latencies of all rounds in power-of-two buckets, too.

mod deferred;
pub(crate) mod load;

use std::time::Duration;

use crate::harness::buckets::{self, BUCKETS};
use crate::harness::report::Series;
use crate::harness::{self, Better, Budget, Metric, Plan, Recorder, Report, System, systems};
use crate::peers::{self, ReadSide as _, stillpoint};
use load::{Cell, Measure, Outcome, P50, run as run_load};

/// Latencies of a call; [`P50`] is one of them.
const P99: Metric = Metric::nanoseconds("p99_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_ns");
/// Process-wide fences, or calls of `membarrier`, for each grace period.
const HEAVY: Metric = Metric::count("heavy_per_gp", Better::Lower);
/// Futex wake-ups for each grace period: of the thread that drives it and of the callers it serves.
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);
/// Calls that a grace period serves.
const CALLERS: Metric = Metric::count("callers_per_gp", Better::Higher);

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

/// In the order of [`values`].
const METRICS: [&Metric; 7] = [&P50, &P99, &P999, &MAX, &HEAVY, &WAKES, &CALLERS];

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = systems![run_load:
        stillpoint::RcuReaders,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
    ];
    let skipped = peers::missing(&[peers::LIBURCU]);
    let weights: u32 = CELLS.iter().chain(&CROWD).map(|cell| cell.weight).sum();
    let slices = f64::from(weights) * systems.len() as f64 + deferred::slices();
    let timing = budget.split(slices, Duration::from_millis(300));
    let mut recorder = Recorder::default();
    let mut series = measure("bench sync", &CELLS, &mut systems, timing, &mut recorder)?;
    deferred::measure(timing, &mut recorder)?;
    series.extend(measure("bench sync: idle threads", &CROWD, &mut systems, timing, &mut recorder)?);
    Ok(Report::new("sync", &recorder, skipped).with_series(series))
}

/// Records the metrics of `cells`; the histograms of the latencies.
fn measure(
    title: &str,
    cells: &[Cell],
    systems: &mut [System<Measure>],
    timing: (usize, Duration),
    recorder: &mut Recorder,
) -> anyhow::Result<Vec<Series>> {
    let loads = cells.iter().flat_map(|cell| systems.iter().map(|system| (system.name, cell.config())));
    let mut histograms: Vec<_> = loads.map(|load| (load, [0; BUCKETS])).collect();
    let plan = Plan { title, timing, cells, systems, metrics: METRICS };
    harness::run(
        plan,
        recorder,
        |cell, _| cell.config(),
        |cell, system, slice| {
            let outcome = (system.measure)(*cell, slice * cell.weight)?;
            let load = (system.name, cell.config());
            let histogram = histograms.iter_mut().find(|(its_load, _)| *its_load == load);
            histogram.into_iter().for_each(|(_, counts)| buckets::add(counts, &outcome.latencies));
            Ok(values(&outcome, cell.callers))
        },
    )?;
    let series = histograms.into_iter();
    Ok(series.map(|((system, config), counts)| buckets::series(system, "calls", config, counts)).collect())
}

/// The values of [`METRICS`].
fn values(outcome: &Outcome, callers: usize) -> [f64; 7] {
    let latency = |quantile| outcome.latencies.value_at_quantile(quantile) as f64;
    let calls = outcome.latencies.len();
    // Where no thread is registered a library may return at once and count no grace period. A single caller shares
    // none with others, so each of its calls was one.
    let grace_periods = match outcome.events.grace_periods {
        0 if callers == 1 => calls,
        counted => counted,
    };
    let each = |events: u64| if grace_periods == 0 { f64::NAN } else { events as f64 / grace_periods as f64 };
    [
        latency(0.5),
        latency(0.99),
        latency(0.999),
        outcome.latencies.max() as f64,
        each(outcome.events.heavy),
        each(outcome.events.wakes),
        each(calls),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Events;

    fn outcome(events: Events) -> Outcome {
        let mut latencies = buckets::histogram();
        for latency in [100, 200, 300, 400] {
            latencies.record(latency).expect("within the bounds");
        }
        Outcome { latencies, events, section_ns: f64::NAN }
    }

    #[test]
    fn events_are_counted_per_grace_period() {
        let [.., max, heavy, wakes, callers] =
            values(&outcome(Events { grace_periods: 2, heavy: 3, wakes: 2 }), 8);
        assert_eq!([max, heavy, wakes, callers], [400.0, 1.5, 1.0, 2.0]);
    }

    #[test]
    fn single_caller_without_grace_periods_counts_one_a_call() {
        let [.., heavy, _, callers] = values(&outcome(Events::default()), 1);
        assert_eq!([heavy, callers], [0.0, 1.0]);
    }
}
