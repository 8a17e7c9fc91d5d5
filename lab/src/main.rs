//! The command `stillpoint`: shows what a machine offers, what the library does with it, and what that is worth.

mod bench;
mod compare;
mod demo;
mod harness;
mod peers;
mod probe;
mod report;
mod seccomp_deny;
mod seeds;
mod torture;

use clap::{Parser, Subcommand};

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
    /// What this machine offers and what the library chose.
    Probe,
    /// Measure the library beside its peers.
    Bench(bench::Args),
    Seeds(seeds::Args),
    Report(report::Args),
    Compare(compare::Args),
    Torture(torture::Args),
    SeccompDeny(seccomp_deny::Args),
    /// Serves measurements to another process of this program.
    #[command(subcommand, hide = true)]
    Worker(Worker),
}

/// What a worker process measures (see [`harness::worker`]).
#[derive(Debug, Subcommand)]
enum Worker {
    /// One kind of fence.
    Fence(bench::fence::kind::Args),
    /// A process that computes.
    Neighbour,
    /// Readers and grace periods.
    Grace(seeds::e2::kind::Args),
    /// A way to wait for grace periods.
    Track(seeds::e3::load::Args),
    /// Nodes retired inside sections.
    Stack(bench::callback::stack::Args),
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
        Some(Command::Seeds(args)) => seeds::run(&args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Torture(args)) => {
            torture::run(&args);
            Ok(())
        }
        Some(Command::Worker(worker)) => match worker {
            Worker::Fence(args) => bench::fence::kind::serve(&args),
            Worker::Neighbour => seeds::e1::neighbour::serve(),
            Worker::Grace(args) => seeds::e2::kind::serve(&args),
            Worker::Track(args) => seeds::e3::load::serve(&args),
            Worker::Stack(args) => bench::callback::stack::serve(&args),
            Worker::Part(args) => report::part::serve(&args),
            Worker::Table(args) => demo::worker::serve(&args),
        },
    }
}
