//! `bench sync`: how long `synchronize()` takes.
//!
//! Callers record the latency of each call, beside threads that read and threads that are registered but idle.
//! Callers are pure updaters, registered with neither library, and nothing is bound to a CPU: grace periods meet the
//! scheduler as they do in programs.
//!
//! Between two calls a caller sleeps for a random time, 0.1 ms in the mean, so that calls are independent of the
//! readers' rhythm. Of calls back to back, most would fall into the moments in which every reader happens to be
//! preempted outside a section, a thousand short ones in the time of one long one: the median would be that of these
//! moments only.
//!
//! All is measured on all CPUs and on one.

pub mod load;

use crate::peers::{self, ReadSide as _, stillpoint};
use harness::{Budget, Metric, Plan, Recorder, Report, systems};
use load::{Cell, run as run_load};

/// Latencies of a call.
pub const P50: Metric = Metric::nanoseconds("p50_ns");
const P90: Metric = Metric::nanoseconds("p90_ns");
pub const P99: Metric = Metric::nanoseconds("p99_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const MAX: Metric = Metric::nanoseconds("max_ns");

const METRICS: [&Metric; 5] = [&P50, &P90, &P99, &P999, &MAX];

const CELLS: [Cell; 12] = [
    Cell::new(0, 0, 1, 0),
    Cell::new(1, 0, 1, 0),
    Cell::new(4, 0, 1, 0),
    Cell::new(4, 100, 1, 0),
    Cell::new(4, 1000, 1, 0),
    Cell::new(4, 10_000, 1, 0),
    Cell::new(16, 100, 1, 0),
    Cell::new(16, 1000, 1, 0),
    Cell::new(16, 10_000, 1, 0),
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
    let mut recorder = Recorder::new("sync");
    for (cells, part) in [(&CELLS[..], 0.85), (&CROWD, 0.15)] {
        Plan::new(budget.share(part), SLICE_MS, cells, &mut systems, METRICS).in_profiles()?.run(
            &mut recorder,
            |cell, _| Some(cell.config()),
            |cell, system, slice| {
                let latencies = (system.measure)(*cell, slice)?.latencies;
                let latency = |quantile| latencies.value_at_quantile(quantile) as f64;
                Ok([latency(0.5), latency(0.9), latency(0.99), latency(0.999), latencies.max() as f64])
            },
        )?;
    }
    Ok(Report::new(&recorder, peers::missing(&[peers::LIBURCU])))
}
