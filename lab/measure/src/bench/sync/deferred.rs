//! The cost of deferred work for a caller of `synchronize()`, which replaces a value or defers a callback before.
//!
//! The worker needs a grace period for deferred work, too. If it leads one of its own, the caller waits for the next
//! one, and so for up to two. The latencies of a caller are compared with those of `synchronize()` alone in the same
//! round.

use std::time::Duration;

use stillpoint::rcu;

use super::load::{self, Cell};
use super::{P50, SLICE_MS};
use crate::peers::GracePeriods as _;
use crate::peers::stillpoint::RcuReaders;
use harness::report::OURS;
use harness::{Budget, Config, Metric, Plan, Profile, Recorder, System};

/// The calls, as the report names them.
const ALONE: &str = "synchronize";
const REPLACE: &str = "replace + synchronize";
const CALL: &str = "call + synchronize";

/// Of a call, with what comes before it.
const P90: Metric = Metric::nanoseconds("p90_ns");
const MEAN: Metric = Metric::nanoseconds("mean_ns");
/// The same, divided by those of `synchronize()` alone.
const RATIOS: [Metric; 3] =
    [Metric::ratio("p50_to_alone"), Metric::ratio("p90_to_alone"), Metric::ratio("mean_to_alone")];
const METRICS: [&Metric; 3] = [&P50, &P90, &MEAN];

/// Longer than a thread keeps the CPU, so that each call meets other readers that were preempted inside a section.
const PAUSE: Duration = Duration::from_millis(8);

/// Readers in sections as short as can be, which never sleep.
const CELLS: [Cell; 2] = [
    Cell { longest_pause: PAUSE, ..Cell::new(4, 0, 1, 0) },
    Cell { longest_pause: PAUSE, ..Cell::new(1, 0, 1, 0) },
];

fn config(cell: &Cell, call: &str) -> Config {
    Config::new([("readers", cell.readers.into()), ("call", call.into())])
}

/// Records the latencies and the ratios.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = [ALONE, REPLACE, CALL].map(|measure| System { name: OURS, measure });
    Plan::new(budget, SLICE_MS, &CELLS, &mut systems, METRICS).in_profiles()?.run(
        recorder,
        |cell, call| Some(config(cell, call.measure)),
        |cell, call, slice| {
            let outcome = load::run_with(cell, slice, |readers: &RcuReaders| {
                match call.measure {
                    REPLACE => readers.replace(),
                    CALL => rcu::call(|| ()),
                    _ => (),
                }
                readers.synchronize();
            })?;
            // Leaves nothing for the next measurement.
            rcu::barrier();
            let quantile = |quantile| outcome.latencies.value_at_quantile(quantile) as f64;
            Ok([quantile(0.5), quantile(0.9), outcome.latencies.mean()])
        },
    )?;
    for profile in Profile::every()? {
        for (cell, call) in CELLS.iter().flat_map(|cell| [(cell, REPLACE), (cell, CALL)]) {
            let [of, alone] = [call, ALONE].map(|call| config(cell, call).on(*profile));
            for (ratio, metric) in RATIOS.iter().zip(METRICS) {
                recorder
                    .derive(ratio, (OURS, metric, &of), (OURS, metric, &alone), |call, alone| call / alone);
            }
        }
    }
    Ok(())
}
