//! `bench sync`: how long `synchronize()` takes, and what a grace period costs.
//!
//! Callers record the latency of each call, beside threads that read and threads that are registered but idle. Callers
//! are pure updaters, registered with neither library, and nothing is bound to a CPU: grace periods meet the scheduler
//! as they do in programs.
//!
//! Between two calls a caller sleeps for a random time, 0.1 ms in the mean, so that calls are independent of the
//! readers' rhythm. Of calls back to back, most would fall into the moments in which every reader happens to be
//! preempted outside a section, a thousand short ones in the time of one long one: the median would be that of these
//! moments only.
//!
//! The events of a grace period are differences of counters over a measurement, divided by its grace periods. The
//! counters of stillpoint are the library's own; those of liburcu are counted at its syscalls, and its grace periods
//! are the calls that issued a barrier, as only the leader of a grace period does (`peers/liburcu.c`).
//!
//! Then calls are compared with those of callers that defer something before they wait: see [`deferred`].
//!
//! All is measured on all CPUs and on one. The JSON has the latencies of all rounds in power-of-two buckets, too,
//! also of those that were repeated.

mod deferred;
pub mod load;

use crate::peers::{self, ReadSide as _, stillpoint};
use harness::buckets::{Collected, counts};
use harness::{Better, Budget, Metric, Plan, Profile, Recorder, Report, systems};
use load::{Cell, Outcome, run as run_load};

/// Latencies of a call.
pub const P50: Metric = Metric::nanoseconds("p50_ns");
pub const P99: Metric = Metric::nanoseconds("p99_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_ns");
/// Process-wide fences, or calls of `membarrier`, for each grace period.
const HEAVY: Metric = Metric::count("heavy_per_gp", Better::Lower);
/// Futex wake-ups for each grace period: of the thread that drives it and of the callers it serves.
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);
/// Calls that a grace period serves.
const CALLERS: Metric = Metric::count("callers_per_gp", Better::Higher);

/// In the order of [`values`].
const METRICS: [&Metric; 7] = [&P50, &P99, &P999, &MAX, &HEAVY, &WAKES, &CALLERS];

const CELLS: [Cell; 7] = [
    Cell::new(0, 0, 1, 0),
    Cell::new(1, 0, 1, 0),
    Cell::new(4, 0, 1, 0),
    Cell::new(4, 1000, 1, 0),
    Cell::new(2, 0, 1, 0),
    Cell::new(2, 0, 8, 0),
    Cell::new(2, 0, 32, 0),
];

/// Measured after all rounds of the others: a registry that keeps the size it once had would slow them.
const CROWD: [Cell; 1] = [Cell::new(0, 0, 1, 1000)];

/// Slow grace periods (long sections, many callers) need as long to show their tail.
const SLICE_MS: u64 = 600;

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = systems![run_load:
        stillpoint::RcuReaders,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
    ];
    let (mut recorder, mut collected) = (Recorder::new("sync"), Collected::default());
    let mut measure = |cells: &[Cell], part, recorder: &mut Recorder| {
        Plan::new(budget.share(part), SLICE_MS, cells, &mut systems, METRICS).in_profiles()?.run(
            recorder,
            |cell, _| Some(cell.config()),
            |cell, system, slice| {
                let outcome = (system.measure)(*cell, slice)?;
                let config = cell.config().on(Profile::now()?);
                collected.add(system.name, "calls", &config, &counts(&outcome.latencies));
                Ok(values(&outcome, cell.callers))
            },
        )
    };
    measure(&CELLS, 0.65, &mut recorder)?;
    deferred::measure(budget.share(0.25), &mut recorder)?;
    measure(&CROWD, 0.1, &mut recorder)?;
    let report = Report::new(&recorder, peers::missing(&[peers::LIBURCU]));
    Ok(Report { series: collected.into_series(), ..report })
}

/// Returns the values of [`METRICS`].
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
    use harness::buckets::histogram;

    #[test]
    fn events_are_counted_per_grace_period() {
        let mut latencies = histogram();
        for latency in [100, 200, 300, 400] {
            latencies.record(latency).expect("within the bounds");
        }
        let mut outcome = Outcome {
            latencies,
            events: Events { grace_periods: 2, heavy: 3, wakes: 2 },
            section_ns: f64::NAN,
        };
        assert_eq!(values(&outcome, 8)[3..], [400.0, 1.5, 1.0, 2.0]);
        outcome.events = Events::default();
        assert_eq!(values(&outcome, 1)[4..], [0.0, 0.0, 1.0]);
    }
}
