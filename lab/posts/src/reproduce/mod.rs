//! `reproduce`: the experiments of the posts that this library descends from, repeated on it, beside their figures.
//!
//! Most are benches with other cells. Times belong to machines; what must carry over is the shape.

pub(crate) mod e1;
pub(crate) mod e2;
pub(crate) mod e3;
pub(crate) mod e4;
pub(crate) mod e5;
pub(crate) mod e6;
mod posted;
#[cfg(target_arch = "x86_64")]
mod section;
pub(crate) mod track;

use anyhow::Context as _;
use harness::options::{Offer, parser};
use harness::{Budget, Options, Report};

/// Repeat the experiments of the original posts, beside their figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The experiment to run.
    #[arg(value_parser = parser(&EXPERIMENTS))]
    name: String,
    #[command(flatten)]
    options: Options,
}

const EXPERIMENTS: [Offer; 6] = [
    ("e1", "The process-wide fence: its cost for its caller, and for others", 40.0, e1::run),
    ("e2", "Readers and grace periods on membarrier and on ordinary fences", 40.0, e2::run),
    ("e3", "synchronize() on its own track, against a callback that wakes its caller", e3::SECONDS, e3::run),
    ("e4", "QSBR grace periods that sleep: a flag for each reader, or one for all", 40.0, e4::run),
    ("e5", "A per-CPU counter: locked, and in critical sections; and the CPU number", 30.0, e5::run),
    ("e6", "The queued lock of the posts, patch by patch, beside ours", 120.0, e6::run),
];

/// Runs the experiment that `args` names.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.options.run("reproduce", &args.name, &EXPERIMENTS)
}

/// Measures an experiment for the report.
pub(crate) fn measure(name: &str, seconds: f64) -> anyhow::Result<Report> {
    let (_, _, _, run) =
        EXPERIMENTS.into_iter().find(|offer| offer.0 == name).context("no such experiment")?;
    Ok(run(Budget { seconds, rounds: None, cells: None })?.as_part(name, seconds))
}
