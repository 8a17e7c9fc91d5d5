//! `seeds`: the experiments of the posts that this library descends from, repeated on it, beside their figures.

pub(crate) mod e1;
pub(crate) mod e2;
pub(crate) mod e3;
pub(crate) mod e4;
pub(crate) mod e5;
pub(crate) mod e6;
pub(crate) mod e7;

use comfy_table::Table;

use crate::harness::{Options, Report};

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
    /// The process-wide fence: what it costs its caller, and others.
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
    /// A failed compare-exchange orders nothing: the litmus of the lock's kick.
    E7,
}

/// What an experiment found out, and how to show it.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) report: Report,
    /// Tables in which our figures stand beside the posted ones, each with its title.
    pub(crate) tables: Vec<(String, Table)>,
}

/// Runs the experiments that `args` names.
///
/// # Errors
///
/// Fails if the machine does not allow the measurement, or the JSON file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for name in &args.names {
        let findings = match name {
            Name::E1 => e1::run(args.options.budget(40.0))?,
            Name::E2 => e2::run(args.options.budget(40.0))?,
            Name::E4 => e4::run(args.options.budget(40.0))?,
            Name::E3 => e3::run(args.options.budget(e3::SECONDS))?,
            Name::E5 => e5::run(args.options.budget(30.0))?,
            Name::E6 => e6::run(args.options.budget(60.0))?,
            Name::E7 => e7::run(args.options.budget(1.0))?,
        };
        findings.print();
        args.options.write(&findings.report, args.names.len())?;
    }
    Ok(())
}

impl Findings {
    fn print(&self) {
        println!("seeds {}", self.report.headline());
        if let Some(posted) = self.report.posted() {
            println!("posted: {}", posted.source);
            println!("expected: {}", posted.expected);
        }
        for (title, table) in &self.tables {
            println!("\n{title}\n{table}");
        }
        self.report.print_skipped();
    }
}
