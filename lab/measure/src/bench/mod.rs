//! `bench`: the library beside its peers.

pub mod arc;
pub mod callback;
pub mod counter;
pub mod fence;
pub mod hazard;
pub mod lock;
pub mod map;
pub mod percpu;
pub mod programs;
pub mod qsbr;
pub mod read;
pub mod srcu;
pub mod sync;

use std::time::Duration;

use harness::options::{Offer, parser};
use harness::timed_loop::Threads;
use harness::{Budget, Config, Metric, Options, Plan, Recorder, System};

/// Measure the library beside its peers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bench to run.
    #[arg(value_parser = parser(&BENCHES))]
    name: String,
    #[command(flatten)]
    options: Options,
}

/// All but `counter` and `lock-ablation` are parts of the report.
const BENCHES: [Offer; 15] = [
    ("read", "A read-side critical section: enter, load, leave", 30.0, read::run),
    ("sync", "The latency of synchronize()", 60.0, sync::run),
    ("fence", "The process-wide fence", 30.0, fence::run),
    ("qsbr", "QSBR: a read, a report, and the rate of updates beside readers", 40.0, qsbr::run),
    ("srcu", "SRCU: a section", 30.0, srcu::run),
    ("arc", "Atomic Arcs: a load beside guards that are held, a store beside idle threads", 40.0, arc::run),
    ("hazard", "Hazard pointers: protecting one value or eight, and retiring", 30.0, hazard::run),
    ("percpu", "Per-CPU counters, pools, histograms, reference counts, the CPU number", 40.0, percpu::run),
    (
        "counter",
        "Counters with labels: an add, a lookup, memory, a sum, a million of them",
        60.0,
        counter::run,
    ),
    ("lock", "Mutexes: throughput, fairness, and how long threads wait", 120.0, lock::run),
    (
        "lock-ablation",
        "The mechanisms and constants of our lock, each changed alone",
        400.0,
        lock::ablation::run,
    ),
    ("map", "Hash maps: CPU time of operations, latency of gets during a resize, memory", 60.0, map::run),
    (
        "rwlock",
        "Reader-writer locks: a read, and throughput and waits beside writers",
        60.0,
        lock::shared::run,
    ),
    ("programs", "What people write with locks: queues, pools, caches, tables", 100.0, programs::run),
    ("callback", "Deferred callbacks: latency, cost, and unreclaimed memory", 60.0, callback::run),
];

/// Runs the bench that `args` names.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.options.run("bench", &args.name, &BENCHES)
}

/// Returns the nanoseconds of an iteration of a loop: the mean of the threads.
pub type TimeLoop = fn(Threads, Duration) -> anyhow::Result<f64>;

/// Records the time of a loop of each system, in one thread and in one a CPU. `more` are parameters.
pub fn time_loops(
    budget: Budget,
    recorder: &mut Recorder,
    metric: &'static Metric,
    more: &[(&str, serde_json::Value)],
    mut systems: Vec<System<TimeLoop>>,
) -> anyhow::Result<()> {
    let config = |threads: &Threads| {
        let threads = Config::new([("threads", threads.count.into())]);
        more.iter().fold(threads, |config, (name, value)| config.with(name, value.clone()))
    };
    Plan::new(budget, 40, &Threads::pinned()?, &mut systems, [metric]).run(
        recorder,
        |threads, _| Some(config(threads)),
        |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
    )
}
