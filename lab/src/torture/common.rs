//! What all tortures share: options, verdicts, patience.

use std::env;
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::harness::units::seconds;

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// How long to run.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub(super) seconds: f64,
    /// What random choices follow from [default: another each time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Break this step of the library first: the run must fail. For builds with `--cfg stillpoint_mutants`.
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    mutant: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ThreadArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Threads.
    #[arg(long, value_name = "N", default_value = "16")]
    pub(super) threads: NonZeroUsize,
}

/// Parses the name of a step that can be broken: see `docs/proof.md`.
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
    pub(super) fn begin(&self, name: &str) -> u64 {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        if let Some(mutant) = &self.mutant {
            // SAFETY: there is one thread yet.
            unsafe { env::set_var("STILLPOINT_MUTANT", mutant) };
            PATIENCE_MS.store(2000, Relaxed);
        }
        let broken = self.mutant.as_ref().map_or(String::new(), |mutant| format!(", broken: {mutant}"));
        println!("torture {name}: --seed {seed}, {}{broken}", stillpoint::fence::backend());
        fastrand::seed(seed);
        seed
    }
}

/// Sleeps until a moment, not for a time: signals interrupt threads all the time, and `thread::sleep` then adds the slack of its
/// timer to the remaining time each time. It may never end.
pub(super) fn sleep(length: Duration) {
    let length = Timespec::try_from(length).expect("the length is short");
    let until = clock_gettime(ClockId::Monotonic).checked_add(length).expect("the length is short");
    while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}

static PATIENCE_MS: AtomicU64 = AtomicU64::new(30_000);

/// Returns the time after which a wait or a writer that has not moved has lost its wake-up. Shorter with a broken step.
pub(super) fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Relaxed))
}

/// Ends the process, whatever its threads wait for.
pub(super) fn fail(name: &str, why: &str) -> ! {
    println!("torture {name}: FAILED, {why}");
    process::exit(1)
}

/// Exit status of a run that is not conclusive.
pub(super) const NOT_CONCLUSIVE: i32 = 77;

/// Nothing was wrong, but too little was done to conclude anything.
#[derive(Debug)]
pub(super) struct TooLittle(pub(super) String);

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TooLittle {}

/// Checks that a run of some `seconds` did as much as any machine does that is not too busy.
///
/// # Errors
///
/// Fails with [`TooLittle`] if it did less.
pub(super) fn enough(what: &str, done: u64, per_second: u64, seconds: f64) -> Result<(), TooLittle> {
    let least = (per_second as f64 * seconds).ceil() as u64;
    if done >= least {
        return Ok(());
    }
    Err(TooLittle(format!(
        "{done} {what} in {seconds:.1} s, at least {least} are needed: the machine is too busy"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_with_too_few_operations_is_not_conclusive() {
        assert!(enough("waits", 200, 100, 2.0).is_ok());
        let why = anyhow::Error::from(enough("waits", 2, 100, 2.0).expect_err("too few"));
        assert!(
            why.is::<TooLittle>() && why.to_string().starts_with("2 waits in 2.0 s, at least 200"),
            "{why}"
        );
    }
}
