//! `bench callback`: deferred callbacks and reclamation: their latency, their cost, and the memory that waits.
//!
//! - `latency_*`: from the call to the callback's first instruction, after a pause that lets every worker fall asleep. A
//!   library without workers runs the callback in a thread that comes by: the caller, or a reader that leaves.
//! - `retire_ns`: allocate a value, publish it, retire the old one, in a loop; the time of all, until everything has been
//!   freed, divided by the number of values.
//! - `peak_bytes`: the most that was retired and not yet freed, while a writer floods and a reader stays in its section;
//!   `flood_ns` is what a value cost the writer then. The course over time is in the JSON.
//! - `op_ns`, `rss_bytes`: a push and a pop inside a section, which retires the node there: see [`stack`].
//!
//! Writers are registered threads, nothing is bound to a CPU. Each peer is used as its documentation recommends: see
//! [`crate::peers`].

mod flood;
mod latency;
mod payload;
mod retire;
pub(crate) mod stack;

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::harness::report::Series;
use crate::harness::{self, Budget, Metric, Plan, Recorder, Report, Skipped, System};
use crate::peers::{self, Reclaim, crossbeam, seize, stillpoint};
use flood::Flood;

/// Time from the call to the callback.
const LATENCY_P50: Metric = Metric::nanoseconds("latency_p50_ns");
const LATENCY_P99: Metric = Metric::nanoseconds("latency_p99_ns");
/// Time for each value, all threads together.
const RETIRE: Metric = Metric::nanoseconds("retire_ns");
/// Bytes retired and not yet freed.
const PEAK: Metric = Metric::bytes("peak_bytes");
/// Time for each value during the flood, waiting included.
const FLOOD: Metric = Metric::nanoseconds("flood_ns");

/// What can be measured of a system.
struct Measure {
    runs_alone: bool,
    latency: fn(usize, Duration) -> anyhow::Result<Histogram<u64>>,
    retire: fn(&retire::Cell, Duration) -> anyhow::Result<f64>,
    flood: fn(Duration) -> anyhow::Result<Flood>,
}

fn system<R: Reclaim>() -> System<Measure> {
    let (latency, retire, flood) = (latency::run::<R>, retire::run::<R>, flood::run::<R>);
    System { name: R::NAME, measure: Measure { runs_alone: R::RUNS_ALONE, latency, retire, flood } }
}

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = [
        system::<stillpoint::Stillpoint>(),
        #[cfg(feature = "liburcu")]
        system::<peers::liburcu::Workers<false>>(),
        #[cfg(feature = "liburcu")]
        system::<peers::liburcu::Workers<true>>(),
        system::<crossbeam::Epoch>(),
        system::<seize::Seize>(),
    ];
    let mut skipped = peers::missing(&[peers::LIBURCU]);
    for system in systems.iter().filter(|system| !system.measure.runs_alone) {
        let why = "latency without readers: nothing runs while no thread opens a section".to_owned();
        skipped.push(Skipped { system: system.name.into(), why });
    }
    let mut recorder = Recorder::default();
    measure_latency(&mut systems, budget.share(0.2), &mut recorder)?;
    measure_retire(&mut systems, budget.share(0.25), &mut recorder)?;
    let series = measure_flood(&mut systems, budget.share(0.15), &mut recorder)?;
    stack::measure(budget.share(0.4), &mut recorder)?;
    Ok(Report::new("callback", &recorder, skipped).with_series(series))
}

fn measure_latency(
    systems: &mut [System<Measure>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let cells = &latency::READERS;
    let timing = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(400));
    let metrics = [&LATENCY_P50, &LATENCY_P99];
    let plan = Plan { title: "bench callback: latency", timing, cells, systems, metrics };
    harness::run(
        plan,
        recorder,
        |&readers, _| latency::config(readers),
        |&readers, system, slice| {
            if readers == 0 && !system.measure.runs_alone {
                return Ok([f64::NAN; 2]);
            }
            let latencies = (system.measure.latency)(readers, slice)?;
            Ok([0.5, 0.99].map(|quantile| latencies.value_at_quantile(quantile) as f64))
        },
    )
}

fn measure_retire(
    systems: &mut [System<Measure>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let cells = &retire::CELLS;
    let timing = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(150));
    let plan = Plan { title: "bench callback: retire", timing, cells, systems, metrics: [&RETIRE] };
    harness::run(
        plan,
        recorder,
        |cell, _| cell.config(),
        |cell, system, slice| Ok([(system.measure.retire)(cell, slice)?]),
    )
}

/// Also returns the course of each system's first flood.
fn measure_flood(
    systems: &mut [System<Measure>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<Vec<Series>> {
    let timing = budget.split(systems.len() as f64, Duration::from_millis(200));
    let config = flood::config(timing.1);
    let metrics = [&PEAK, &FLOOD];
    let plan = Plan { title: "bench callback: flood", timing, cells: &[()], systems, metrics };
    let mut series: Vec<Series> = Vec::new();
    harness::run(
        plan,
        recorder,
        |(), _| config.clone(),
        |(), system, slice| {
            let flood = (system.measure.flood)(slice)?;
            let values = [flood.peak as f64, flood.value_ns];
            if !series.iter().any(|series| series.system == system.name) {
                series.push(flood.series(system.name, config.clone()));
            }
            Ok(values)
        },
    )?;
    Ok(series)
}
