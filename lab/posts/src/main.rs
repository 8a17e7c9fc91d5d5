//! The command `posts`: the experiments of the posts that the library descends from, repeated on it, and a model of
//! what the library costs on larger machines.

mod reproduce;
mod scale;

use clap::{Parser, Subcommand};

use harness::worker::{self, Remote};
use harness::{Report, seccomp_deny};

/// The experiments of the original posts, and what operations cost on larger machines.
#[derive(Debug, Parser)]
#[command(name = "posts", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Reproduce(reproduce::Args),
    Scale(scale::Args),
    #[command(hide = true)]
    SeccompDeny(seccomp_deny::Args),
    /// Serves measurements to another process.
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
    /// An experiment, for the report.
    Part(worker::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::SeccompDeny(args) => match seccomp_deny::run(args)? {},
        Command::Worker(worker) => match worker {
            Worker::Fence(args) => Remote::serve(&measure::bench::fence::REMOTES, &args),
            Worker::Grace(args) => Remote::serve(reproduce::e2::REMOTES, &args),
            Worker::Track(args) => Remote::serve(reproduce::track::REMOTES, &args),
            Worker::Part(args) => worker::serve(None, |seconds: f64| -> anyhow::Result<Report> {
                reproduce::measure(&args.name, seconds)
            }),
        },
    }
}
