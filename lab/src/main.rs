//! The command `stillpoint`: shows what a machine offers, what the library does with it, and what that is worth.

mod bench;
mod demo;
mod deny;
mod harness;
mod peers;
mod probe;

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
    Deny(deny::Args),
    /// Serves measurements to `bench fence`.
    #[command(hide = true)]
    FenceLane(bench::fence::lane::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        None => demo::run(demo::Args::default()),
        Some(Command::Demo(args)) => demo::run(args),
        Some(Command::Probe) => probe::run(),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Deny(args)) => match deny::run(args)? {},
        Some(Command::FenceLane(args)) => bench::fence::lane::serve(&args),
    }
}
