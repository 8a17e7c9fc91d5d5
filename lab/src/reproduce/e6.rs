//! E6: the queued lock with each of its mechanisms switched off in turn, for more and more threads a CPU.
//!
//! The posts measured a kernel build in guests with more virtual CPUs than the host has. Here, a thread stands for a
//! virtual CPU, and the loops of `bench lock` for the build. The events of the lock are counted in a run of their own.

use std::time::Duration;

use stillpoint::lock::lab::{self, Event, Policy};

use super::posted;
use crate::bench::lock::ablation::VARIANTS;
use crate::bench::lock::load::{self, Cell};
use crate::bench::lock::measure;
use crate::harness::plan::system;
use crate::harness::report::OURS;
use crate::harness::{Better, Budget, Config, Metric, Report, pin};
use crate::peers::stillpoint::Variant;

/// The default policy, with events counted.
struct Counted;

impl Policy for Counted {
    const COUNTS: bool = true;

    fn add(event: Event, by: u64) {
        lab::add(event, by);
    }
}

/// Events per second, and latencies.
const EVENTS: [Metric; 9] = [
    Metric::count("steal_per_s", Better::Higher),
    Metric::count("lock_slowpath_per_s", Better::Lower),
    Metric::count("wait_node_per_s", Better::Lower),
    Metric::count("wait_head_per_s", Better::Lower),
    Metric::count("kick_unlock_per_s", Better::Lower),
    Metric::count("spurious_wakeup_per_s", Better::Lower),
    Metric::count("reserve_per_s", Better::Lower),
    Metric::nanoseconds("latency_kick_ns"),
    Metric::nanoseconds("latency_wake_ns"),
];

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    // 1, 1.5, 2, 8 and 32 threads a CPU.
    let cells: Vec<Cell> =
        [2, 3, 4, 16, 64].iter().map(|halves| Cell::new((halves * cpus).div_ceil(2), 1000, 1000)).collect();
    let [default, no_steal, no_reserve, no_defer, ..] = VARIANTS;
    let std = system("std", load::run::<std::sync::Mutex<u64>>);
    let mut systems = [default, std, no_steal, no_reserve, no_defer];
    let mut recorder = measure("e6", &mut systems, &cells, budget.share(0.95))?;
    let time = Duration::from_secs_f64(budget.seconds * 0.05 / cells.len() as f64);
    for cell in &cells {
        let config = Config::new([("threads", cell.threads.into())]);
        for (metric, value) in EVENTS.iter().zip(count(*cell, time)?) {
            recorder.record(0, OURS, metric, &config, value);
        }
    }
    let posted = posted(
        "pvqspinlock v2, 2015; 32 and 48 virtual CPUs on 32 CPUs, kernel build",
        "deferred kicks gain most where CPUs are overcommitted, kick-ahead next to nothing; the lock rate of two threads \
         gains by the pending bit",
        &[
            "kernel build | s
             patches | Westmere 32 | Westmere 48 | Haswell 32 | Haswell 48
             before | 205.0 | 634.1 | 122.0 | 935.9
             + kick-ahead | 207.4 | 632.0 | 120.8 | 892.5
             + deferred kick | 181.3 | 590.9 | 120.5 | 808.1
             + adaptive spinning | 186.2 | 578.0 | 121.8 | 546.9",
            "lock rate of 2 threads | 1/us
             | same socket | other socket
             before | 6.52 | 2.97
             pending bit | 7.08 | 4.35",
            "statistics of one build | count
             | pending_lock | pending_fail | wait_node | lock_kick | unlock_kick | spurious
             build | 2912098 | 10619 | 755359 | 755354 | 87 | 8",
            "latencies | us
             | least | greatest
             wake-up | 67.6 | 89.8
             kick | 7.4 | 9.3",
        ],
    );
    Ok(Report { posted, ..Report::new(&recorder, Vec::new()) })
}

/// Returns the values of [`EVENTS`].
fn count(cell: Cell, time: Duration) -> anyhow::Result<[f64; 9]> {
    lab::reset();
    let outcome = load::run::<Variant<Counted>>(cell, time)?;
    let events = lab::read();
    let rate = |count: u64| count as f64 / outcome.elapsed.as_secs_f64();
    Ok([
        rate(events.steal),
        rate(events.lock_slowpath),
        rate(events.wait_node),
        rate(events.wait_head),
        rate(events.kick_unlock),
        rate(events.spurious_wakeup),
        rate(events.reserve),
        events.latency_kick_ns as f64,
        events.latency_wake_ns as f64,
    ])
}
