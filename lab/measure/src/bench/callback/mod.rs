//! `bench callback`: deferred callbacks and reclamation: their latency, their cost, and the unreclaimed memory.
//!
//! - `latency_*`: from the call to the callback's first instruction, after a pause that lets every worker fall
//!   asleep. A library without workers runs the callback in another thread: the caller, or a reader that leaves. On
//!   all CPUs and on one.
//! - `retire_ns`: allocate a value, publish it, retire the old one, in a loop; the time of all, until everything has
//!   been freed, divided by the number of values.
//! - `peak_bytes`: the most that was retired and not yet freed, while a writer floods and a reader stays in its
//!   section, or protects a value by a hazard pointer; `flood_ns` is the cost of a value for the writer then. The
//!   course over time is in the JSON.
//!
//! Writers are registered threads, nothing is bound to a CPU. Each peer is used as its documentation recommends: see
//! [`crate::peers`].

mod flood;
mod latency;
mod retire;

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::peers::{self, Reclaim, crossbeam, seize, stillpoint};
use flood::{Flood, Flooded, Haphazard, Hazards, InSections};
use harness::report::Series;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, Skipped, System};

/// Time from the call to the callback.
const LATENCY_P50: Metric = Metric::nanoseconds("latency_p50_ns");
const LATENCY_P99: Metric = Metric::nanoseconds("latency_p99_ns");
/// Time for each value, all threads together.
const RETIRE: Metric = Metric::nanoseconds("retire_ns");
/// Bytes retired and not yet freed.
const PEAK: Metric = Metric::bytes("peak_bytes");
/// Time for each value during the flood, waiting included.
const FLOOD: Metric = Metric::nanoseconds("flood_ns");

/// A value that is published and retired.
trait Payload: Send + Sync + 'static {
    fn new(number: u64) -> Self;

    /// Reads all of it.
    fn sum(&self) -> u64;
}

/// 64 bytes that need no destructor.
impl Payload for [u64; 8] {
    fn new(number: u64) -> Self {
        [number; 8]
    }

    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

/// The measurements of a system.
struct Measures {
    runs_alone: bool,
    latency: fn(usize, Duration) -> anyhow::Result<Histogram<u64>>,
    retire: fn(retire::Cell, Duration) -> anyhow::Result<f64>,
    flood: Measure,
}

/// Floods for a time.
type Measure = fn(Duration) -> anyhow::Result<Flood>;

fn system<R: Reclaim>() -> System<Measures> {
    let (latency, retire, flood) = (latency::run::<R>, retire::run::<R>, flood::run::<InSections<R>>);
    System { name: R::NAME, measure: Measures { runs_alone: R::RUNS_ALONE, latency, retire, flood } }
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
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
        let why = "latency without readers: nothing runs while no thread enters a section".to_owned();
        skipped.push(Skipped { system: system.name.into(), why });
    }
    let mut recorder = Recorder::new("callback");
    Plan::new(budget.share(0.4), 400, &latency::READERS, &mut systems, [&LATENCY_P50, &LATENCY_P99])
        .in_profiles()?
        .run(
            &mut recorder,
            |&readers, system| {
                let config =
                    [("threads", 1.into()), ("readers", readers.into()), ("payload", "closure".into())];
                (readers > 0 || system.measure.runs_alone).then(|| Config::new(config))
            },
            |&readers, system, slice| {
                let latencies = (system.measure.latency)(readers, slice)?;
                Ok([0.5, 0.99].map(|quantile| latencies.value_at_quantile(quantile) as f64))
            },
        )?;
    Plan::new(budget.share(0.35), 150, &retire::CELLS, &mut systems, [&RETIRE]).run(
        &mut recorder,
        |&cell, _| Some(retire::config(cell)),
        |&cell, system, slice| Ok([(system.measure.retire)(cell, slice)?]),
    )?;
    let mut floods: Vec<_> =
        systems.iter().map(|system| System { name: system.name, measure: system.measure.flood }).collect();
    floods.push(System { name: Hazards::NAME, measure: flood::run::<Hazards> });
    floods.push(System { name: Haphazard::NAME, measure: flood::run::<Haphazard> });
    let series = measure_flood(&mut floods, budget.share(0.25), &mut recorder)?;
    Ok(Report { series, ..Report::new(&recorder, skipped) })
}

/// Returns the course of each system's first flood.
fn measure_flood(
    systems: &mut [System<Measure>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<Vec<Series>> {
    let slice_ms = 200;
    let config = flood::config(budget.split(systems.len(), slice_ms).1);
    let mut series: Vec<Series> = Vec::new();
    Plan::new(budget, slice_ms, &[()], systems, [&PEAK, &FLOOD]).run(
        recorder,
        |(), _| Some(config.clone()),
        |(), system, slice| {
            let Flood { peak, value_ns, course } = (system.measure)(slice)?;
            if !series.iter().any(|series| series.system == system.name) {
                let (metric, unit, over) = ("live_bytes".into(), "bytes".into(), "time_ms".into());
                let (system, config) = (system.name.into(), config.clone());
                series.push(Series { system, metric, unit, over, config, points: course });
            }
            Ok([peak as f64, value_ns])
        },
    )?;
    Ok(series)
}
