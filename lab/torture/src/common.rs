//! What all tortures share: options, seeds, and verdicts.

use std::error::Error;
use std::fmt;
use std::process;
use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use harness::units::seconds;

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// How long to run.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub(super) seconds: f64,
    /// What random choices follow from [default: another each time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Break this step of the library first: the run must fail (see `ci/torture.sh`). NAME/N breaks it once in N
    /// times.
    #[cfg(stillpoint_mutants)]
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

/// Threads of tortures that do not draw their number.
pub(super) const THREADS: usize = 16;

impl Common {
    /// Chooses the seed, and breaks the step that is to be broken.
    pub(super) fn begin(&self, name: &str) -> u64 {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        #[cfg(stillpoint_mutants)]
        if let Some(mutant) = &self.mutant {
            // SAFETY: there is only one thread yet.
            unsafe { std::env::set_var("STILLPOINT_MUTANT", mutant) };
            println!("broken: {mutant}");
        }
        println!("torture {name}: --seed {seed}, {}", stillpoint::fence::report().backend());
        fastrand::seed(seed);
        seed
    }
}

/// Returns the body of a thread whose random choices follow from those of the calling thread.
pub(super) fn seeded<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let seed = fastrand::u64(..);
    move || {
        fastrand::seed(seed);
        body()
    }
}

/// Sleeps until a point in time, not for a duration: signals interrupt threads all the time, and `thread::sleep` adds
/// the slack of its timer to the remaining time each time. It may never end.
pub(super) fn sleep(length: Duration) {
    let length = Timespec::try_from(length).expect("the length is short");
    let until = clock_gettime(ClockId::Monotonic).checked_add(length).expect("the length is short");
    while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}

/// The guarantee that was broken. `ci/torture.sh` names it for each broken step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A grace period ended too early, or memory was used after it was freed.
    Early,
    /// A wait does not end.
    Hang,
    /// Callbacks or changes are seen in the wrong order.
    Order,
    /// Work, an entry or a value is missing, or there twice.
    Lost,
    /// Two threads held a lock that excludes them.
    Exclusion,
    /// Memory was not freed.
    Leak,
    /// The library does not work in the child of a fork.
    Child,
    /// A thread panicked.
    Panic,
}

/// A broken guarantee, as an error.
#[derive(Debug)]
pub(super) struct Broken(pub(super) Kind, pub(super) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl Error for Broken {}

/// Returns an error if a guarantee is broken.
pub(super) fn check(holds: bool, kind: Kind, why: impl FnOnce() -> String) -> anyhow::Result<()> {
    if holds { Ok(()) } else { Err(Broken(kind, why()).into()) }
}

/// Ends the process, even if its threads wait.
pub(super) fn fail(name: &str, kind: Kind, why: &str) -> ! {
    let kind = format!("{kind:?}").to_lowercase();
    println!("torture {name}: FAILED ({kind}), {why}");
    process::exit(1)
}

/// [`fail`] with an error, which may be another one than a broken guarantee.
pub(super) fn fail_with(name: &str, why: &anyhow::Error) -> ! {
    if let Some(&Broken(kind, _)) = why.downcast_ref() {
        fail(name, kind, &format!("{why:#}"));
    }
    println!("torture {name}: FAILED, {why:#}");
    process::exit(1)
}

/// Exit status of a run that found nothing wrong, but did too little to conclude anything.
pub(super) const NOT_CONCLUSIVE: i32 = 77;

/// Ends the process with this status.
pub(super) fn not_conclusive(name: &str, why: &str) -> ! {
    println!("torture {name}: NOT CONCLUSIVE, {why}");
    process::exit(NOT_CONCLUSIVE)
}

/// Ends the process if a run of some `seconds` did less than any machine does that is not too busy.
pub(super) fn require(name: &str, what: &str, done: u64, per_second: u64, seconds: f64) {
    let least = (per_second as f64 * seconds).ceil() as u64;
    if done < least {
        let why =
            format!("{done} {what} in {seconds:.1} s, at least {least} are needed: the machine is too busy");
        not_conclusive(name, &why);
    }
}
