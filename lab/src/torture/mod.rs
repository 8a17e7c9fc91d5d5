//! `torture`: runs the library hard, for as long as one likes, and checks what it promises.
//!
//! Each run begins with its seed, from which all random choices follow, and ends with one line that says whether it passed; if
//! not, the exit status is 1. A run that found nothing wrong, but did too little to conclude anything, exits with status 77, as
//! checks do that cannot run on a machine.

mod all;
mod common;
mod faults;
mod flavor;
mod flood;
mod futures;
mod history;
mod lock;
mod oracle;
mod percpu;
mod quota;
mod reader;
mod run;
mod slots;
mod state;
mod updater;
mod violation;

use std::process;

use clap::Subcommand;

use common::{Common, NOT_CONCLUSIVE, ThreadArgs, TooLittle, fail};

/// Run the library hard and check what it promises.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    name: Name,
}

#[derive(Debug, Subcommand)]
enum Name {
    /// Readers and updaters in all ways at once: nothing is freed too early, every wait ends, nothing is left.
    Rcu(Common),
    /// The same, of threads that report quiescent states.
    Qsbr(Common),
    /// The same, of sleepable domains.
    Srcu(Common),
    /// Threads use per-CPU data in all ways at once, move, get signals, come and go, every fourth one without restartable
    /// sequences: nothing is lost, or taken twice.
    Percpu(ThreadArgs),
    /// Threads take one lock in all ways, under signals, forks and timeouts: one at a time, and none waits for ever.
    Lock(ThreadArgs),
    /// Each of these in turn, in processes of their own, on each backend of the fence and of per-CPU data.
    All(Common),
    /// Writers retire without end while a reader stalls: what waits to be freed stays below a limit.
    Flood(flood::Args),
}

/// Runs what `args` names and prints the verdict. Ends the process if it failed, or is not conclusive.
pub(crate) fn run(args: &Args) {
    let common = |name: &'static str, common: &Common, run: &dyn Fn(u64) -> anyhow::Result<String>| {
        let seed = common.begin(name);
        (name, run(seed))
    };
    let (name, outcome) = match &args.name {
        Name::Rcu(args) => common("rcu", args, &|seed| run::run::<flavor::Rcu>(args, seed)),
        Name::Qsbr(args) => common("qsbr", args, &|seed| run::run::<flavor::Qsbr>(args, seed)),
        Name::Srcu(args) => common("srcu", args, &|seed| run::run::<flavor::Srcu>(args, seed)),
        Name::Percpu(args) => common(percpu::NAME, &args.common, &|_| percpu::run(args)),
        Name::Lock(args) => common(lock::NAME, &args.common, &|_| lock::run(args)),
        Name::All(args) => common("all", args, &|seed| all::run(args, seed)),
        Name::Flood(args) => (flood::NAME, flood::run(args)),
    };
    match outcome {
        Ok(what) => println!("torture {name}: passed, {what}"),
        Err(why) if why.is::<TooLittle>() => {
            println!("torture {name}: NOT CONCLUSIVE, {why:#}");
            process::exit(NOT_CONCLUSIVE);
        }
        Err(why) => fail(name, &format!("{why:#}")),
    }
}
