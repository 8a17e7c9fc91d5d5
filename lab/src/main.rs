//! The command `stillpoint`: a demo, a look at the machine, benchmarks, and tests under load.

mod bench;
mod compare;
mod demo;
mod harness;
mod peers;
mod probe;
mod report;
mod reproduce;
mod scale;
mod seccomp_deny;
mod torture;

use clap::{Parser, Subcommand};

use harness::worker::{self, Remote};

/// Scalable synchronization on this machine: a demo, a look at the kernel, benchmarks.
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
    /// Measure the library beside its peers.
    Bench(bench::Args),
    Reproduce(reproduce::Args),
    Report(report::Args),
    Compare(compare::Args),
    Scale(scale::Args),
    Torture(torture::Args),
    SeccompDeny(seccomp_deny::Args),
    /// Serves measurements to another process of this program.
    #[command(subcommand, hide = true)]
    Worker(Worker),
}

/// The kinds of workers (see [`harness::worker`]).
#[derive(Debug, Subcommand)]
enum Worker {
    /// A process-wide fence.
    Fence(worker::Args),
    /// Readers and grace periods.
    Grace(worker::Args),
    /// A way to wait for grace periods.
    Track(worker::Args),
    /// Nodes retired inside sections.
    Stack(worker::Args),
    /// A part of the report.
    Part(report::part::Args),
    /// A table of the demo.
    Table(demo::worker::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        None => demo::run(demo::Args::default()),
        Some(Command::Demo(args)) => demo::run(args),
        Some(Command::Probe) => probe::run(),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::SeccompDeny(args)) => match seccomp_deny::run(args)? {},
        Some(Command::Reproduce(args)) => reproduce::run(&args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Scale(args)) => scale::run(&args),
        Some(Command::Torture(args)) => {
            torture::run(&args.name);
            Ok(())
        }
        Some(Command::Worker(worker)) => match worker {
            Worker::Fence(args) => Remote::serve(&bench::fence::REMOTES, &args),
            Worker::Grace(args) => Remote::serve(&reproduce::e2::REMOTES, &args),
            Worker::Track(args) => Remote::serve(&reproduce::track::REMOTES, &args),
            Worker::Stack(args) => Remote::serve(bench::callback::stack::REMOTES, &args),
            Worker::Part(args) => report::part::serve(&args),
            Worker::Table(args) => demo::worker::serve(&args),
        },
    }
}
