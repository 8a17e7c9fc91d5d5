//! `torture`: runs the library hard, for as long as one likes, and checks what it promises.
//!
//! Each run begins with its seed, from which all random choices follow, and ends with one line that says whether it passed; if
//! not, the exit status is 1. A run that found nothing wrong, but did so little that it says nothing, is not conclusive: 77, as
//! for checks that cannot run on a machine.

mod all;
mod disturb;
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
mod updater;

use std::env;
use std::error::Error;
use std::fmt;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use clap::Subcommand;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::harness::units::seconds;

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
    /// Threads use per-CPU data in all ways at once, move, get signals, come and go: nothing is lost, or had twice.
    Percpu(percpu::Args),
    /// Threads take one lock in all ways, under signals, forks and timeouts: one at a time, and none waits for ever.
    Lock(lock::Args),
    /// Each of these in turn, in processes of their own, on each backend of the fence and of per-CPU data.
    All(Common),
    /// Writers retire without end while a reader stalls: what waits to be freed stays below a limit.
    Flood(flood::Args),
}

/// What all of them take.
#[derive(Debug, clap::Args)]
struct Common {
    /// How long to run.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    seconds: f64,
    /// What random choices follow from [default: another each time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Break this step of the library first: the run must fail. For builds with `--cfg stillpoint_mutants`.
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    mutant: Option<String>,
}

/// A step that can be broken; which there are is in `docs/proof.md`.
fn mutant(name: &str) -> Result<String, &'static str> {
    if cfg!(stillpoint_mutants) {
        Ok(name.to_owned())
    } else {
        Err(
            "nothing can be broken in this build: it lacks RUSTFLAGS='--cfg stillpoint_mutants', see ci/torture.sh",
        )
    }
}

impl Common {
    /// Chooses the seed, and breaks what is to be broken.
    fn begin(&self, name: &str) -> u64 {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        if let Some(mutant) = &self.mutant {
            // SAFETY: there is one thread yet.
            unsafe { env::set_var("STILLPOINT_MUTANT", mutant) };
            PATIENCE_MS.store(2000, Relaxed);
        }
        let without = self.mutant.as_ref().map_or(String::new(), |mutant| format!(", broken: {mutant}"));
        println!("torture {name}: --seed {seed}, {}{without}", stillpoint::fence::backend());
        fastrand::seed(seed);
        seed
    }
}

/// Sleeps until a moment comes, not for a time: threads are interrupted by signals all the time, and each time that this
/// happens to `thread::sleep` the slack of its timer is added to what is left. It may never end.
fn sleep(length: Duration) {
    let length = Timespec::try_from(length).expect("the length is short");
    let until = clock_gettime(ClockId::Monotonic).checked_add(length).expect("the length is short");
    while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}

static PATIENCE_MS: AtomicU64 = AtomicU64::new(30_000);

/// A wait, or a writer, that has not moved on for so long has lost its wake-up. Less where that is what is expected.
fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Relaxed))
}

/// Exit status of a run that is not conclusive.
const NOT_CONCLUSIVE: i32 = 77;

/// Nothing was wrong, but less was done than says something.
#[derive(Debug)]
struct TooLittle(String);

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TooLittle {}

/// Whether a run of some `seconds` did as much of something as any machine does that is not too busy.
///
/// # Errors
///
/// Fails with [`TooLittle`] if it did less.
fn enough(what: &str, done: u64, a_second: u64, seconds: f64) -> Result<(), TooLittle> {
    let least = (a_second as f64 * seconds).ceil() as u64;
    if done >= least {
        return Ok(());
    }
    Err(TooLittle(format!(
        "{done} {what} in {seconds:.1} s, at least {least} are needed: the machine is too busy"
    )))
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

/// Ends the process, whatever its threads wait for.
fn fail(name: &str, why: &str) -> ! {
    println!("torture {name}: FAILED, {why}");
    process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_that_did_less_than_its_time_asks_for_is_not_conclusive() {
        assert!(enough("waits", 200, 100, 2.0).is_ok());
        let why = anyhow::Error::from(enough("waits", 2, 100, 2.0).expect_err("too few"));
        assert!(
            why.is::<TooLittle>() && why.to_string().starts_with("2 waits in 2.0 s, at least 200"),
            "{why}"
        );
    }
}
