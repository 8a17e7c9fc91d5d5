//! `bench`: the library beside its peers.

pub mod arc;
pub mod callback;
pub mod fence;
pub mod hazard;
pub mod lock;
pub mod map;
pub mod percpu;
pub mod programs;
pub mod qsbr;
pub mod read;
pub mod rwlock;
pub mod srcu;
pub mod sync;

use harness::Options;
use harness::options::{Offer, parser};

/// Measure the library beside its peers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bench to run.
    #[arg(value_parser = parser(&BENCHES))]
    name: String,
    #[command(flatten)]
    options: Options,
}

/// Callbacks last: liburcu keeps a registered worker from then on. All are parts of the report.
const BENCHES: [Offer; 14] = [
    ("read", "A read-side critical section: enter, load, leave", 30.0, read::run),
    ("sync", "The latency of synchronize()", 60.0, sync::run),
    ("fence", "The process-wide fence", 30.0, fence::run),
    ("qsbr", "QSBR: a read, a report, and the rate of updates beside readers", 40.0, qsbr::run),
    ("srcu", "SRCU: a section, and a grace period that waits for many of them", 30.0, srcu::run),
    (
        "arc",
        "Atomic Arcs: a load beside guards that are held, and a store beside idle threads",
        40.0,
        arc::run,
    ),
    ("hazard", "Hazard pointers: protecting one value or eight, and retiring", 30.0, hazard::run),
    (
        "percpu",
        "Per-CPU counters, pools, histograms, reference counts, and the CPU number",
        40.0,
        percpu::run,
    ),
    ("lock", "Mutexes: throughput, fairness, and how long threads wait", 600.0, lock::run),
    (
        "lock-ablation",
        "The mechanisms and constants of our lock, each changed alone, beside peers; the frontier of the report",
        400.0,
        lock::ablation::run,
    ),
    ("map", "Hash maps: CPU time of operations, latency of gets during a resize, memory", 180.0, map::run),
    ("rwlock", "Reader-writer locks: a read, and throughput and waits beside writers", 60.0, rwlock::run),
    ("programs", "What people write with locks: queues, pools, caches, tables", 300.0, programs::run),
    ("callback", "Deferred callbacks: latency, cost, and unreclaimed memory", 60.0, callback::run),
];

/// Runs the benches that `args` names.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.options.run("bench", std::slice::from_ref(&args.name), &BENCHES)
}
