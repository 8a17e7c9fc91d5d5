//! The command `torture`: stress tests of the library that check its guarantees. It compiles fast, which builds of
//! the library with broken steps and builds for other machines need.
//!
//! Each run begins with its seed, from which all random choices follow, and ends with one line that contains the
//! verdict; if it failed, the line names the kind of guarantee that was broken, and the exit status is 1. A run that
//! found nothing wrong, but did too little to conclude anything, exits with status 77.

mod all;
mod canary;
mod common;
mod far;
mod faults;
mod flavor;
mod flood;
mod futures;
mod guarded;
mod hazard;
mod hazard_flood;
mod intervals;
mod lock;
mod lock_rounds;
mod map;
mod oracle;
mod percpu;
mod reader;
mod rounds;
mod run;
mod rwlock;
mod slots;
mod state;
mod stillness;
mod updater;
mod violation;

use clap::{Parser, Subcommand};
use harness::{probe, seccomp_deny};

use common::{Common, fail_with};

/// Stress the library and check its guarantees.
#[derive(Debug, Parser)]
#[command(name = "torture", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Torture(Name),
    /// Print what this machine offers and what the library chose.
    Probe,
    SeccompDeny(seccomp_deny::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Torture(name) => {
            torture(&name);
            Ok(())
        }
        Command::Probe => probe::run(),
        Command::SeccompDeny(args) => match seccomp_deny::run(args)? {},
    }
}

/// The tortures.
#[derive(Debug, Subcommand)]
enum Name {
    /// Readers and updaters, all operations at once: nothing is freed too early, every wait ends, nothing leaks.
    Rcu(Common),
    /// The same for QSBR.
    Qsbr(Common),
    /// The same for SRCU.
    Srcu(Common),
    /// Hazard pointers, and sections beside them: nothing that is protected is freed, and all else is.
    Hazard(Common),
    /// Per-CPU data, all operations at once, by threads that migrate, get signals, start and end, every fourth one
    /// without restartable sequences: nothing is lost, or taken twice.
    Percpu(Common),
    /// One lock, all operations at once, under signals, forks and timeouts: mutual exclusion, and every wait ends.
    Lock(Common),
    /// One reader-writer lock, all operations at once: writers exclude all others, and every wait ends.
    Rwlock(Common),
    /// A hash map that grows and shrinks: no entry is lost, goes back in time, or is used after its end.
    Map(Common),
    /// Each of these in turn, in processes of their own, on each backend of the fence and of per-CPU data.
    All(Common),
    /// Writers retire as fast as they can while a reader stalls: unreclaimed memory stays below a limit.
    Flood(flood::Args),
    /// The same behind hazard pointers: what waits stays below the number of slots and a batch of each writer.
    HazardFlood(hazard_flood::Args),
}

/// Runs a torture and prints the verdict. Ends the process if it failed, or is not conclusive.
fn torture(name: &Name) {
    let common = |name: &'static str, common: &Common, run: &dyn Fn(u64) -> anyhow::Result<String>| {
        let seed = common.begin(name);
        (name, run(seed))
    };
    let (name, outcome) = match name {
        Name::Rcu(args) => common("rcu", args, &|seed| run::run::<flavor::Rcu>(args, seed)),
        Name::Qsbr(args) => common("qsbr", args, &|seed| run::run::<flavor::Qsbr>(args, seed)),
        Name::Srcu(args) => common("srcu", args, &|seed| run::run::<flavor::Srcu>(args, seed)),
        Name::Hazard(args) => common(hazard::NAME, args, &|_| hazard::run(args)),
        Name::Percpu(args) => common(percpu::NAME, args, &|_| percpu::run(args)),
        Name::Lock(args) => common(guarded::NAME, args, &|_| lock::run(args)),
        Name::Rwlock(args) => common(rwlock::NAME, args, &|_| rwlock::run(args)),
        Name::Map(args) => common(map::NAME, args, &|_| map::run(args)),
        Name::All(args) => common("all", args, &|seed| all::run(args, seed)),
        Name::HazardFlood(args) => (hazard_flood::NAME, hazard_flood::run(args)),
        Name::Flood(args) => (flood::NAME, flood::run(args)),
    };
    match outcome {
        Ok(what) => {
            let late = canary::late().as_millis();
            println!("torture {name}: passed, {what}; threads waited for a CPU for up to {late} ms");
        }
        Err(why) => fail_with(name, &why),
    }
}
