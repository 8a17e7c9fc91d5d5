//! E2: the cost of readers and grace periods with a full fence in each reader, and with membarrier.
//!
//! Readers and callers come from `bench sync`. Readers are timed while there are no calls, by their CPU time: with
//! more readers than CPUs the wall time would measure the scheduler.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::posted::posted;
use harness::report::OURS;
use harness::worker::Remote;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, pin};
use measure::bench::fence::running_threads;
use measure::bench::sync::load::{self, Cell};
use measure::bench::sync::{P50, P99};
use measure::peers::stillpoint::RcuReaders;
use measure::peers::{self, GracePeriods};

/// CPU time of a section.
const SECTION: Metric = Metric::nanoseconds("section_ns");

/// The library on its two backends, and liburcu on membarrier.
pub(crate) const REMOTES: &[Remote<Load, [f64; 3]>] = &[
    remote::<RcuReaders>(OURS, "membarrier", "membarrier"),
    remote::<RcuReaders>("stillpoint-seqcst", "seqcst", "seqcst"),
    #[cfg(feature = "liburcu")]
    remote::<peers::liburcu::Readers>(peers::LIBURCU, "liburcu", "membarrier"),
];

const fn remote<S: GracePeriods>(
    system: &'static str,
    name: &'static str,
    backend: &'static str,
) -> Remote<Load, [f64; 3]> {
    Remote { system, name, backend: Some(backend), measure: measure::<S> }
}

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Threads that read, in sections as short as can be.
    readers: usize,
    /// One half without a caller of `synchronize()`, the other with one.
    time: Duration,
}

/// Measures in the worker: the CPU time of a section without calls, and two percentiles of the latency of a call, in
/// nanoseconds.
fn measure<S: GracePeriods>(Load { readers, time }: Load) -> anyhow::Result<[f64; 3]> {
    let quiet = load::run::<S>(Cell::new(readers, 0, 0, 0), time / 2)?;
    let calls = load::run::<S>(Cell::new(readers, 0, 1, 0), time / 2)?.latencies;
    let latency = |quantile| calls.value_at_quantile(quantile) as f64;
    Ok([quiet.section_ns, latency(0.5), latency(0.99)])
}

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut workers, mut skipped) = Remote::start("grace", REMOTES)?;
    skipped.extend(peers::missing(&[peers::LIBURCU]));
    let mut recorder = Recorder::new("e2");
    let cells = &running_threads(pin::allowed()?.len())[1..];
    Plan::new(budget, 200, cells, &mut workers, [&SECTION, &P50, &P99]).run(
        &mut recorder,
        |&readers, _| Some(Config::new([("readers", readers.into())])),
        |&readers, worker, time| worker.measure.measure(&Load { readers, time }),
    )?;
    let posted = posted(
        "sys_membarrier RFC v3b, 2010",
        "sections are cheapest where readers execute no fence (membarrier, signals), grace periods where they do",
        &[],
    );
    Ok(Report { posted, ..Report::new(&recorder, skipped) })
}
