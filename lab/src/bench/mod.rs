//! `bench`: the library beside its peers.

mod callback;
pub(crate) mod fence;
pub(crate) mod percpu;
mod qsbr;
pub(crate) mod read;
mod srcu;
pub(crate) mod sync;

use crate::harness::{Budget, Options, Report};

/// Measure the library beside its peers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    name: Name,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// A read-side section: open, load, close.
    Read,
    /// The latency of `synchronize()`.
    Sync,
    /// The process-wide fence.
    Fence,
    /// Readers that report quiescent states, and updates beside them.
    Qsbr,
    /// Sections that may sleep: what they cost, and the grace period that waits for many of them.
    Srcu,
    /// Per-CPU data: counters, pools, histograms, and the number of the CPU.
    Percpu,
    /// What is done after a grace period: how soon, at what cost, and how much waits.
    Callback,
    /// All of them, one after the other.
    All,
}

/// A bench, its name and its usual time in seconds.
type Bench = (Name, f64, fn(Budget) -> anyhow::Result<Report>);

/// Callbacks last: liburcu keeps a registered worker from then on.
const BENCHES: [Bench; 7] = [
    (Name::Read, 30.0, read::run),
    (Name::Sync, 40.0, sync::run),
    (Name::Fence, 30.0, fence::run),
    (Name::Qsbr, 40.0, qsbr::run),
    (Name::Srcu, 30.0, srcu::run),
    (Name::Percpu, 40.0, percpu::run),
    (Name::Callback, 40.0, callback::run),
];

/// Runs the benches that `args` names.
///
/// # Errors
///
/// Fails if the machine does not allow the measurement, or the JSON file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = |bench: &&Bench| args.name == bench.0 || args.name == Name::All;
    let reports = BENCHES.iter().filter(wanted).count();
    for (_, seconds, run) in BENCHES.iter().filter(wanted) {
        let report = run(args.options.budget(*seconds))?;
        report.print();
        args.options.write(&report, reports)?;
    }
    Ok(())
}
