//! The torture as a program of its own (feature `alone`): `torture NAME` is `stillpoint torture NAME`; `probe` and
//! `seccomp-deny` are those of `stillpoint`. It compiles fast, which builds of the library with broken steps and builds
//! for other machines need.

mod harness {
    //! The modules that the torture uses.
    // The benches use the rest of it.
    #[allow(dead_code)]
    pub(crate) mod controls;
    pub(crate) mod crew;
    #[allow(dead_code)]
    pub(crate) mod machine;
    pub(crate) mod memory;
    pub(crate) mod pin;
    pub(crate) mod progress;
    pub(crate) mod units;
}
mod probe;
mod seccomp_deny;
#[path = "torture/mod.rs"]
mod torture;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "torture", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Torture(torture::Name),
    /// Print what this machine offers and what the library chose.
    Probe,
    SeccompDeny(seccomp_deny::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Torture(name) => {
            torture::run(&name);
            Ok(())
        }
        Command::Probe => probe::run(),
        Command::SeccompDeny(args) => match seccomp_deny::run(args)? {},
    }
}
