//! The command `stillpoint`: a demo, a look at the machine and at running processes, and, with the feature `bench`,
//! measurements.

use clap::{Parser, Subcommand};
use harness::{probe, seccomp_deny};
use measure::{demo, top};

/// Scalable synchronization on this machine: a demo, a look at the kernel and at running processes, benchmarks.
#[derive(Debug, Parser)]
#[command(name = "stillpoint", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A routing table under live updates, on stillpoint and its peers (the default).
    Demo(demo::Args),
    /// Print what this machine offers and what the library chose.
    Probe,
    /// Show what the library does in a running process, live.
    Top(top::Args),
    SeccompDeny(seccomp_deny::Args),
    #[cfg(feature = "bench")]
    #[command(flatten)]
    Measure(bench::Command),
    /// Measure the library beside its peers, as do `report` and `claims` (needs `--features bench`).
    #[cfg(not(feature = "bench"))]
    #[command(aliases = ["report", "claims"], disable_help_flag = true)]
    Bench(Ignored),
    /// Serves measurements to another process of this program.
    #[cfg(feature = "bench")]
    #[command(subcommand, hide = true)]
    Worker(bench::Worker),
}

#[cfg(not(feature = "bench"))]
#[derive(Debug, clap::Args)]
struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[cfg(feature = "bench")]
mod bench {
    use clap::Subcommand;
    use harness::worker::{self, Remote};
    use measure::{bench, report};

    #[derive(Debug, Subcommand)]
    pub(crate) enum Command {
        /// Measure the library beside its peers.
        Bench(bench::Args),
        Report(report::Args),
        Claims(report::claims::Args),
    }

    impl Command {
        pub(crate) fn run(&self) -> anyhow::Result<()> {
            match self {
                Self::Bench(args) => bench::run(args),
                Self::Report(args) => report::run(args),
                Self::Claims(args) => report::claims::run(args),
            }
        }
    }

    /// The kinds of workers (see [`harness::worker`]).
    #[derive(Debug, Subcommand)]
    pub(crate) enum Worker {
        /// A process-wide fence.
        Fence(worker::Args),
        /// A hash map.
        Map(worker::Args),
        /// Stores to an atomic `Arc`.
        Stores(worker::Args),
        /// A part of the report.
        Part(report::part::Args),
    }

    impl Worker {
        pub(crate) fn serve(&self) -> anyhow::Result<()> {
            match self {
                Self::Fence(args) => Remote::serve(&bench::fence::REMOTES, args),
                Self::Map(args) => bench::map::systems::serve(args),
                Self::Stores(args) => Remote::serve(bench::arc::REMOTES, args),
                Self::Part(args) => report::part::serve(args),
            }
        }
    }
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        None => demo::run(&demo::Args::default()),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Probe) => probe::run(),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::SeccompDeny(args)) => match seccomp_deny::run(args)? {},
        #[cfg(feature = "bench")]
        Some(Command::Measure(command)) => command.run(),
        #[cfg(not(feature = "bench"))]
        Some(Command::Bench(_)) => {
            anyhow::bail!(
                "not built in, so that the demo is soon built: `cargo run --profile bench --features bench -- ...`"
            )
        }
        #[cfg(feature = "bench")]
        Some(Command::Worker(worker)) => worker.serve(),
    }
}
