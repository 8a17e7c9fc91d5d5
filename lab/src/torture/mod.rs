//! `torture`: runs the library hard, for as long as one likes, and checks what it promises.
//!
//! Each run ends with one line that says whether it passed; if not, the exit status is 1.

mod flood;
mod futures;
mod lock;
mod percpu;
mod quota;
mod readers;
mod waiters;

use std::process;
use std::time::Duration;

use clap::Subcommand;

/// Run the library hard and check what it promises.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    name: Name,
}

#[derive(Debug, Subcommand)]
enum Name {
    /// Many threads wait for grace periods in all ways at once: each wait ends, and none too early.
    Waiters(waiters::Args),
    /// Writers retire without end while a reader stalls: what waits to be freed stays below a limit.
    Flood(flood::Args),
    /// Threads use per-CPU data in all ways at once, move, get signals, come and go: nothing is lost, or had twice.
    Percpu(percpu::Args),
    /// Threads take one lock in all ways, under signals, forks and timeouts: one at a time, and none waits for ever.
    Lock(lock::Args),
}

/// A wait, or a writer, that has not moved on for so long has lost its wake-up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs what `args` names and prints the verdict. Ends the process if it failed.
pub(crate) fn run(args: &Args) {
    let (name, outcome) = match &args.name {
        Name::Waiters(args) => (waiters::NAME, waiters::run(args)),
        Name::Flood(args) => (flood::NAME, flood::run(args)),
        Name::Percpu(args) => (percpu::NAME, percpu::run(args)),
        Name::Lock(args) => (lock::NAME, lock::run(args)),
    };
    match outcome {
        Ok(what) => println!("torture {name}: passed, {what}"),
        Err(why) => fail(name, &format!("{why:#}")),
    }
}

/// Ends the process, whatever its threads wait for.
fn fail(name: &str, why: &str) -> ! {
    println!("torture {name}: FAILED, {why}");
    process::exit(1)
}
