//! `torture hazard-flood`: writers retire as fast as they can, while a reader protects some values and does not move.
//! What waits to be freed must stay below the domain's limit, which is small.

use std::num::{NonZeroU64, NonZeroUsize};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stillpoint::Domain as _;
use stillpoint::hazard::{Global, HazardPointer};
use stillpoint::rcu::{Limits, Rcu};

use super::common::sleep;
use super::flood::UNNOTICED;
use harness::{crew, memory};

pub(super) const NAME: &str = "hazard-flood";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Values to retire.
    #[arg(long, value_name = "N", default_value = "50000000")]
    count: NonZeroU64,
    /// Threads that retire.
    #[arg(long, value_name = "N", default_value = "1")]
    writers: NonZeroUsize,
}

/// Values that the reader protects.
const HELD: usize = 8;
/// The limit: a few times what threads that have a CPU need, as each leads a grace period after 8192 values.
const LIMIT: u64 = 1 << 15;
const TICK: Duration = Duration::from_millis(1);

type Value = [u64; 8];

/// Runs the flood. Returns what passed.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    Global.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let resident = memory::resident().context("cannot read the memory of this process")?;
    let (writers, count) = (args.writers.get() as u64, args.count.get());
    let values: Vec<_> = (0..writers).map(|number| Rcu::new_in([number; 8], Global)).collect();
    let mut pointers = HazardPointer::array::<HELD>();
    let mut kept = Vec::new();
    for pointer in &mut pointers {
        kept.push(pointer.protect(&values[0]));
        drop(values[0].replace([kept.len() as u64; 8]));
    }
    let begin = Instant::now();
    let (mut most, mut grown) = (0, 0);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for value in &values {
            threads.push(crew::spawn(scope, || {
                for number in 0..count / writers {
                    drop(value.replace([number; 8]));
                }
            })?);
        }
        while !threads.iter().all(|thread| thread.is_finished()) {
            sleep(TICK);
            // A snapshot is too high by what is pushed meanwhile.
            most = most.max((0..5).map(|_| Global.stats().queued).min().unwrap_or(0));
            grown = grown.max(memory::resident().unwrap_or(0).saturating_sub(resident));
        }
        threads.into_iter().try_for_each(crew::join)
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    for (number, value) in kept.iter().enumerate() {
        let expected: Value = if number == 0 { [0; 8] } else { [number as u64; 8] };
        ensure!(**value == expected, "a protected value was freed: {value:?}");
    }
    // Twice: for what a writer has not noticed, and for what it pushes while a snapshot is taken.
    let limit = LIMIT + 2 * writers * UNNOTICED;
    ensure!(most <= limit, "{most} values waited; {limit} may");
    drop(pointers);
    Global.barrier();
    let left = Global.stats().queued;
    ensure!(left == 0, "{left} values are left");
    Ok(format!(
        "{count} values of {} bytes retired in {seconds:.1} s by {writers} threads behind a stalled reader; at most {most} of \
         {limit} waited, and memory grew by {:.1} MiB",
        size_of::<Value>(),
        grown as f64 / f64::from(1 << 20),
    ))
}
