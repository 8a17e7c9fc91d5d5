//! `torture flood`: writers that retire as fast as they can, while a reader stalls. What waits must stay below the limit.
//!
//! Two floods, one after the other: of plain values, which are mostly freed by the thread that retired them, and of values
//! with a destructor, which only the worker runs. These are counted from birth to death as well, so that the library's
//! own numbers need not be believed.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::ensure;
use crossbeam_utils::CachePadded;
use stillpoint::rcu::{self, Limits, Stats};

use super::{fail, patience};
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::progress::Progress;

pub(super) const NAME: &str = "flood";

/// How much is retired, by whom, and against what.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Plain values to retire; of those with a destructor a tenth.
    #[arg(long, value_name = "N", default_value = "100000000")]
    count: NonZeroU64,
    /// What may wait to be freed.
    #[arg(long, value_name = "MIB", default_value = "16")]
    limit_mib: NonZeroU64,
    /// How long a reader stays in a section in the middle of each flood.
    #[arg(long, value_name = "S", default_value = "5", value_parser = stall)]
    stall_seconds: f64,
    /// Threads that retire.
    #[arg(long, value_name = "N", default_value = "1")]
    writers: NonZeroUsize,
    /// Threads that read.
    #[arg(long, value_name = "N", default_value = "1")]
    readers: usize,
}

/// A stall that writers above the limit wait out: after ten seconds they go on.
fn stall(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=9.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0 to 9".to_owned()) }
}

/// Time between two looks at what waits.
const BEAT: Duration = Duration::from_millis(1);

/// Values between two looks of a writer at the stop flag, a power of two.
const BATCH: u64 = 1024;

/// What a writer and its values count, each on a line of its own.
#[derive(Debug, Default)]
struct Tally {
    /// Values made so far. Only the writer writes it.
    born: CachePadded<AtomicU64>,
    /// Counted values dropped so far. The library's worker writes it.
    died: CachePadded<AtomicU64>,
}

/// What is retired: 64 bytes.
trait Payload: Send + 'static {
    const NAME: &str;
    const COUNTED: bool;

    fn new(number: u64, tally: &'static Tally) -> Self;
}

impl Payload for [u64; 8] {
    const NAME: &str = "plain values";
    const COUNTED: bool = false;

    fn new(number: u64, _: &'static Tally) -> Self {
        [number; 8]
    }
}

/// A value that is counted when it is dropped.
struct Counted {
    tally: &'static Tally,
    _rest: [u64; 7],
}

impl Payload for Counted {
    const NAME: &str = "values with a destructor";
    const COUNTED: bool = true;

    fn new(number: u64, tally: &'static Tally) -> Self {
        Self { tally, _rest: [number; 7] }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: a number.
        self.tally.died.fetch_add(1, Ordering::Relaxed);
    }
}

/// The values that exist: never more than existed at one moment, however long this is interrupted.
fn live(tallies: &[Tally]) -> u64 {
    // All births before any death, by acquiring: so the number is at most the one of the moment in between.
    let sum = |count: fn(&Tally) -> &AtomicU64| -> u64 {
        tallies.iter().map(|tally| count(tally).load(Ordering::Acquire)).sum()
    };
    let born = sum(|tally| &tally.born);
    born.saturating_sub(sum(|tally| &tally.died))
}

/// What a flood was like.
#[derive(Debug, Default)]
struct Flood {
    time: Duration,
    /// Most bytes that waited, by the library's account.
    queued: u64,
    /// Most bytes that existed, where values are counted.
    live: u64,
    samples: u64,
}

/// What the threads of a flood share.
#[derive(Debug)]
struct Run<'a> {
    args: &'a Args,
    /// Values of each writer.
    share: u64,
    tallies: &'static [Tally],
    /// Opens when the reader is to stall.
    stall: Gate,
    stalls: Arrivals,
    stop_writers: AtomicBool,
    stop_readers: AtomicBool,
}

/// Runs both floods; what passed.
///
/// # Errors
///
/// Fails if a check does, or the machine does not allow the threads.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let limit = args.limit_mib.get() << 20;
    // Only the bytes are limited, as these are what is checked.
    rcu::set_limits(Limits { count: u64::MAX, bytes: limit });
    let plain = pour::<[u64; 8]>(args, args.count.get(), limit)?;
    let counted = pour::<Counted>(args, args.count.get() / 10, limit)?;
    let peak = plain.queued.max(counted.queued).max(counted.live);
    Ok(format!("at most {:.2} of {} MiB waited, no limit overrun", mib(peak), args.limit_mib))
}

/// A flood of about `count` values, its summary, and its checks.
fn pour<P: Payload>(args: &Args, count: u64, limit: u64) -> anyhow::Result<Flood> {
    let writers = args.writers.get();
    let run = Run {
        args,
        share: count.div_ceil(writers as u64).max(1),
        // Leaked: what is retired lives as long as it likes.
        tallies: (0..writers).map(|_| Tally::default()).collect::<Vec<_>>().leak(),
        stall: Gate::default(),
        stalls: Arrivals::default(),
        stop_writers: AtomicBool::new(false),
        stop_readers: AtomicBool::new(false),
    };
    let before = rcu::stats();
    let flood = thread::scope(|scope| {
        let flood = run.pour::<P>(scope);
        run.stop_writers.store(true, Ordering::Relaxed);
        run.stop_readers.store(true, Ordering::Relaxed);
        run.stall.open();
        flood
    })?;
    rcu::barrier();
    let stats = rcu::stats();
    let count = run.share * writers as u64;
    report::<P>(&flood, count, &before, &stats);
    check::<P>(&flood, count, limit, &before, &stats, live(run.tallies))?;
    Ok(flood)
}

fn report<P: Payload>(flood: &Flood, count: u64, before: &Stats, after: &Stats) {
    let seconds = flood.time.as_secs_f64();
    let live =
        if P::COUNTED { format!(" ({:.2} MiB counted alive)", mib(flood.live)) } else { String::new() };
    println!(
        "{}: {count} retired in {seconds:.2} s ({:.2} million/s), peak {:.2} MiB{live} in {} samples, \
         {} grace periods, limit_waits {}, limit_overruns {}",
        P::NAME,
        count as f64 / seconds / 1e6,
        mib(flood.queued),
        flood.samples,
        after.grace_periods - before.grace_periods,
        after.limit_waits - before.limit_waits,
        after.limit_overruns - before.limit_overruns,
    );
}

fn check<P: Payload>(
    flood: &Flood,
    count: u64,
    limit: u64,
    before: &Stats,
    after: &Stats,
    left: u64,
) -> anyhow::Result<()> {
    let name = P::NAME;
    ensure!(flood.queued <= limit, "{name}: {:.2} MiB waited, above the limit", mib(flood.queued));
    ensure!(flood.live <= limit, "{name}: {:.2} MiB existed, above the limit", mib(flood.live));
    let overruns = after.limit_overruns - before.limit_overruns;
    ensure!(overruns == 0, "{name}: {overruns} callers above the limit waited in vain");
    let done = after.done - before.done;
    ensure!(done == count, "{name}: {done} of {count} dropped after the barrier");
    ensure!(after.queued == 0, "{name}: {} queued after the barrier", after.queued);
    ensure!(!P::COUNTED || left == 0, "{name}: {left} left after the barrier");
    ensure!(after.panics == 0 && after.lost == 0, "{name}: {} panics, {} lost", after.panics, after.lost);
    Ok(())
}

impl Run<'_> {
    /// Has all threads at work until everything has been retired, and looks at what waits.
    fn pour<'scope, P: Payload>(&'scope self, scope: &'scope Scope<'scope, '_>) -> anyhow::Result<Flood> {
        // First, as a writer waits for it.
        crew::spawn(scope, || {
            rcu::register();
            self.stall.wait();
            let guard = rcu::enter();
            self.stalls.arrive();
            if !self.stop_writers.load(Ordering::Relaxed) {
                super::sleep(Duration::from_secs_f64(self.args.stall_seconds));
            }
            drop(guard);
        })?;
        for _ in 0..self.args.readers {
            crew::spawn(scope, || {
                while !self.stop_readers.load(Ordering::Relaxed) {
                    drop(rcu::enter());
                }
            })?;
        }
        let start = Instant::now();
        let mut writers = Vec::new();
        for (place, tally) in self.tallies.iter().enumerate() {
            writers.push(crew::spawn(scope, move || self.write::<P>(place == 0, tally))?);
        }
        let mut flood = Flood::default();
        let count = self.share * self.tallies.len() as u64;
        let total = Duration::from_secs_f64(self.args.stall_seconds) + Duration::from_nanos(100 * count);
        let progress = Progress::new("torture flood", 100, total);
        let (mut shown, mut last, mut moved) = (0, 0, start);
        while !writers.iter().all(|writer| writer.is_finished()) {
            flood.samples += 1;
            let queued = rcu::stats().queued_bytes;
            flood.queued = flood.queued.max(queued);
            if P::COUNTED {
                flood.live = flood.live.max(live(self.tallies) * size_of::<P>() as u64);
            }
            let born: u64 = self.tallies.iter().map(|tally| tally.born.load(Ordering::Relaxed)).sum();
            if born != last {
                (last, moved) = (born, Instant::now());
            } else if moved.elapsed() > patience() {
                drop(progress);
                fail(NAME, &format!("no writer has moved for {:?}; {}", patience(), rcu::stats()));
            }
            progress.show(|| format!("{}: {born}, {:.2} MiB wait", P::NAME, mib(queued)));
            while shown < born * 100 / count {
                shown += 1;
                progress.advance();
            }
            super::sleep(BEAT);
        }
        flood.time = start.elapsed();
        writers.into_iter().try_for_each(crew::join)?;
        Ok(flood)
    }

    /// The life of a writer. One of them has the reader stall when half is done.
    fn write<P: Payload>(&self, has_stall: bool, tally: &'static Tally) {
        for number in 0..self.share {
            if has_stall && number == self.share / 2 {
                self.stall.open();
                self.stalls.wait_for(1);
            }
            if number % BATCH == 0 && self.stop_writers.load(Ordering::Relaxed) {
                return;
            }
            // Relaxed: a number, and only this thread writes it.
            tally.born.store(number + 1, Ordering::Relaxed);
            rcu::retire(Box::new(P::new(number, tally)));
        }
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_values_are_those_born_and_not_dead() {
        static TALLIES: [Tally; 2] = [const { Tally { born: zero(), died: zero() } }; 2];
        const fn zero() -> CachePadded<AtomicU64> {
            CachePadded::new(AtomicU64::new(0))
        }
        let values: Vec<_> = TALLIES.iter().map(|tally| Counted::new(1, tally)).collect();
        TALLIES.iter().for_each(|tally| tally.born.store(1, Ordering::Relaxed));
        assert_eq!(live(&TALLIES), 2);
        drop(values);
        assert_eq!(live(&TALLIES), 0);
        assert_eq!((size_of::<Counted>(), size_of::<[u64; 8]>()), (64, 64));
    }

    #[test]
    fn a_stall_is_shorter_than_the_patience_of_writers() {
        assert_eq!(stall("0.5"), Ok(0.5));
        assert!(stall("10").is_err());
    }
}
