//! `bench`: the library beside its peers.

pub(crate) mod callback;
pub(crate) mod fence;
pub(crate) mod lock;
pub(crate) mod percpu;
pub(crate) mod qsbr;
pub(crate) mod read;
pub(crate) mod srcu;
pub(crate) mod sync;

use crate::harness::{Budget, Options, Report};

/// Measure the library beside its peers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    name: Name,
    /// A part of the grid that takes less than two minutes (lock, lock-ablation).
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// A read-side critical section: enter, load, leave.
    Read,
    /// The latency of `synchronize()`.
    Sync,
    /// The process-wide fence.
    Fence,
    /// QSBR: the cost of a read and of a report, and the rate of updates beside readers.
    Qsbr,
    /// SRCU: the cost of a section, and of a grace period that waits for many of them.
    Srcu,
    /// Per-CPU data: counters, pools, histograms, rings, values, and the number of the CPU.
    Percpu,
    /// Deferred callbacks: their latency, their cost, and the unreclaimed memory.
    Callback,
    /// Mutexes: throughput, fairness, and how long threads wait.
    Lock,
    /// The mechanisms and constants of our lock, each changed by itself.
    LockAblation,
    /// All of them, one after the other.
    All,
}

/// A bench, its name and its usual time in seconds.
type Bench = (Name, f64, fn(&Args, Budget) -> anyhow::Result<Report>);

/// Callbacks last: liburcu keeps a registered worker from then on.
const BENCHES: [Bench; 9] = [
    (Name::Read, 30.0, |_, budget| read::run(budget)),
    (Name::Sync, 60.0, |_, budget| sync::run(budget)),
    (Name::Fence, 30.0, |_, budget| fence::run(budget)),
    (Name::Qsbr, 40.0, |_, budget| qsbr::run(budget)),
    (Name::Srcu, 30.0, |_, budget| srcu::run(budget)),
    (Name::Percpu, 40.0, |_, budget| percpu::run(budget)),
    (Name::Lock, lock::SECONDS, |args, budget| lock::run(args.quick, budget)),
    (Name::LockAblation, lock::ablation::SECONDS, |args, budget| lock::ablation::run(args.quick, budget)),
    (Name::Callback, 60.0, |_, budget| callback::run(budget)),
];

/// Runs the benches that `args` names.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = |bench: &&Bench| args.name == bench.0 || args.name == Name::All;
    let reports = BENCHES.iter().filter(wanted).count();
    for (_, seconds, run) in BENCHES.iter().filter(wanted) {
        args.options.show(&run(args, args.options.budget(*seconds))?, "bench", reports)?;
    }
    Ok(())
}
