//! `reproduce`: the experiments of the posts that this library descends from, repeated on it, beside their figures.
//!
//! Most are benches with other cells. Times belong to machines; what must carry over is the shape.

pub(crate) mod e1;
pub(crate) mod e2;
pub(crate) mod e3;
pub(crate) mod e4;
pub(crate) mod e5;
pub(crate) mod e6;
#[cfg(target_arch = "x86_64")]
mod section;
pub(crate) mod track;
mod witness;

use crate::harness::report::{Figures, Posted};
use crate::harness::{Budget, Options, Report};

/// Repeat the experiments of the original posts, beside their figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which ones.
    #[arg(value_enum, required = true)]
    names: Vec<Name>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// The process-wide fence: its cost for its caller, and for others.
    E1,
    /// Readers and grace periods on membarrier, on signals, and on ordinary fences.
    E2,
    /// `synchronize()` on its own track, against a callback that wakes its caller.
    E3,
    /// QSBR grace periods that sleep: a flag for each reader, or one for all.
    E4,
    /// A per-CPU counter: locked, and in critical sections; and the number of the CPU.
    E5,
    /// The queued lock, its mechanisms switched off in turn.
    E6,
}

/// Runs the experiments that `args` names.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for name in &args.names {
        let (run, seconds): (fn(Budget) -> anyhow::Result<Report>, _) = match name {
            Name::E1 => (e1::run, 40.0),
            Name::E2 => (e2::run, 40.0),
            Name::E3 => (e3::run, e3::SECONDS),
            Name::E4 => (e4::run, 40.0),
            Name::E5 => (e5::run, 30.0),
            Name::E6 => (e6::run, 60.0),
        };
        args.options.show(&run(args.options.budget(seconds))?, "reproduce", args.names.len())?;
    }
    Ok(())
}

/// Collects what a post reports: the post and its machine, the shape that must carry over, and its tables.
fn posted(source: &'static str, expected: &'static str, tables: &[&'static str]) -> Option<Posted> {
    let tables = tables.iter().map(|table| Figures::parse(table)).collect();
    Some(Posted { source: source.into(), expected: expected.into(), tables })
}
