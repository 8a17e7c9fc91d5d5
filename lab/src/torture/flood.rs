//! `torture flood`: writers retire as fast as they can, while a reader stalls. What waits must stay below the limit.
//!
//! Three floods, one after the other: of plain values, which are mostly freed by the thread that retired them; of values with
//! a destructor, which only the worker runs; and of such that several writers retire inside two nested sections, the outer of
//! which lasts for several values. Writers inside sections notice late, so there the limit may be exceeded, but not twice.
//!
//! Values with a destructor are counted from birth to death as well, and the memory of the process is measured, so that the
//! check does not rely on the library's own numbers.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use crossbeam_utils::CachePadded;
use stillpoint::rcu::{self, Limits, Stats};

use super::common::{fail, patience, sleep};
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::memory;
use crate::harness::progress::Progress;

pub(super) const NAME: &str = "flood";

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
    /// Which floods to run.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "plain,destructors,nested")]
    floods: Vec<Kind>,
}

/// Parses the time of a stall that throttled writers wait out: after ten seconds they go on.
fn stall(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=9.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0 to 9".to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Plain values.
    Plain,
    /// Values with a destructor.
    Destructors,
    /// Values with a destructor, retired inside nested sections by four writers at least.
    Nested,
}

/// Time between two samples of what waits.
const TICK: Duration = Duration::from_millis(1);

/// Values of a writer between two checks of the stop flag; as many are retired inside one outer section.
const BATCH: u64 = 16;

/// Writers of the nested flood, if not more are asked for.
const NESTED_WRITERS: usize = 4;

/// Bytes of a value.
const SIZE: u64 = 64;

/// The memory of the process may grow by so many bytes for each that may wait: allocator and queue need as much as a value.
/// And by this, which allocators keep.
const COST: u64 = 2;
const KEPT: u64 = 128 << 20;

/// What a writer and its values count, each on a line of its own.
#[derive(Debug, Default)]
struct WriterCount {
    /// Values made so far. Only the writer writes it.
    born: CachePadded<AtomicU64>,
    /// Values with a destructor that have been dropped. The library's worker writes it.
    died: CachePadded<AtomicU64>,
}

/// A value that is counted when it is dropped.
struct Counted {
    count: &'static WriterCount,
    _rest: [u64; 7],
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: statistics only.
        self.count.died.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns how many counted values exist: never more than existed at one moment, however long this is interrupted.
fn live(counts: &[WriterCount]) -> u64 {
    // All births before any death, by acquiring: so the number is at most that of the moment in between.
    let sum = |word: fn(&WriterCount) -> &AtomicU64| -> u64 {
        counts.iter().map(|count| word(count).load(Ordering::Acquire)).sum()
    };
    let born = sum(|count| &count.born);
    born.saturating_sub(sum(|count| &count.died))
}

/// What was seen during a flood, at most.
#[derive(Debug, Default)]
struct Peak {
    /// Bytes and values that waited, by the library's account.
    queued: u64,
    queued_count: u64,
    /// Bytes that existed, where values are counted.
    live: u64,
    /// Bytes by which the memory of the process had grown since before the first flood.
    grown: u64,
}

/// A flood.
#[derive(Debug)]
struct Flood {
    kind: Kind,
    name: &'static str,
    /// Values, and those of each writer.
    count: u64,
    share: u64,
    stall: Duration,
    /// Bytes of the process before the first flood.
    resident: u64,
    writers: &'static [WriterCount],
    /// Opens when the reader must stall.
    stall_gate: Gate,
    stalled: Arrivals,
    stop_writers: AtomicBool,
    stop_reader: AtomicBool,
}

/// Runs the floods. Returns what passed.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let resident = resident()?;
    let mut most = 0;
    for &kind in &args.floods {
        let peak = Flood::new(args, kind, resident).run(args.limit_mib.get() << 20)?;
        most = most.max(peak.queued).max(peak.live);
    }
    Ok(format!("at most {:.2} of {} MiB waited, no limit overrun", mib(most), args.limit_mib))
}

/// Returns the bytes of memory that the process has.
fn resident() -> anyhow::Result<u64> {
    memory::status("VmRSS").context("/proc/self/status does not show how much memory this process has")
}

impl Flood {
    fn new(args: &Args, kind: Kind, resident: u64) -> Self {
        let (name, count, writers) = match kind {
            Kind::Plain => ("plain values", args.count.get(), 1),
            Kind::Destructors => ("values with a destructor", args.count.get() / 10, 1),
            // Enough to be far above the limit.
            Kind::Nested => {
                let least = 32 * (args.limit_mib.get() << 20) / SIZE;
                ("values retired inside nested sections", (args.count.get() / 10).max(least), NESTED_WRITERS)
            }
        };
        let writers = args.writers.get().max(writers);
        let share = count.div_ceil(writers as u64).max(1);
        Self {
            kind,
            name,
            count: share * writers as u64,
            share,
            stall: Duration::from_secs_f64(args.stall_seconds),
            resident,
            // Leaked: what is retired lives as long as it likes.
            writers: (0..writers).map(|_| WriterCount::default()).collect::<Vec<_>>().leak(),
            stall_gate: Gate::default(),
            stalled: Arrivals::default(),
            stop_writers: AtomicBool::new(false),
            stop_reader: AtomicBool::new(false),
        }
    }

    /// Runs the flood, prints a summary, and checks it.
    fn run(&self, limit: u64) -> anyhow::Result<Peak> {
        let Self { name, count, .. } = *self;
        let nested = self.kind == Kind::Nested;
        // Elsewhere only the bytes are limited, as these are what is checked.
        rcu::set_limits(Limits { count: if nested { limit / SIZE } else { u64::MAX }, bytes: limit });
        let before = rcu::stats();
        let start = Instant::now();
        let peak = thread::scope(|scope| {
            let peak = self.watch(scope);
            self.stop_writers.store(true, Ordering::Relaxed);
            self.stop_reader.store(true, Ordering::Relaxed);
            self.stall_gate.open();
            peak
        })?;
        let seconds = start.elapsed().as_secs_f64();
        rcu::barrier();
        let after = rcu::stats();
        let overruns = after.limit_overruns - before.limit_overruns;
        println!(
            "{name}: {count} retired in {seconds:.2} s ({:.2} million/s), peak {:.2} MiB ({:.2} MiB counted alive), process grown \
             by {:.1} MiB, {} grace periods, limit_waits {}, limit_overruns {overruns}",
            count as f64 / seconds / 1e6,
            mib(peak.queued),
            mib(peak.live),
            mib(peak.grown),
            after.grace_periods - before.grace_periods,
            after.limit_waits - before.limit_waits,
        );
        let most = limit * if nested { 2 } else { 1 };
        for (what, bytes, most) in [
            ("waited", peak.queued, most),
            ("waited, counting values", peak.queued_count * SIZE, most),
            ("existed", peak.live, most),
            ("were added to the process", peak.grown, COST * most + KEPT),
        ] {
            ensure!(bytes <= most, "{name}: {:.2} MiB {what}, more than {:.2}", mib(bytes), mib(most));
        }
        ensure!(overruns == 0, "{name}: {overruns} throttled callers timed out");
        let done = after.done - before.done;
        ensure!(done == count, "{name}: {done} of {count} dropped after the barrier");
        ensure!(after.queued == 0, "{name}: {} queued after the barrier", after.queued);
        let left = if self.kind == Kind::Plain { 0 } else { live(self.writers) };
        ensure!(left == 0, "{name}: {left} left after the barrier");
        ensure!(after.panics == 0, "{name}: {} panics", after.panics);
        Ok(peak)
    }

    /// Runs all threads until everything has been retired, and samples what waits.
    fn watch<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> anyhow::Result<Peak> {
        // First, as a writer waits for it.
        crew::spawn(scope, || {
            rcu::register();
            self.stall_gate.wait();
            let guard = rcu::enter();
            self.stalled.arrive();
            if !self.stop_writers.load(Ordering::Relaxed) {
                sleep(self.stall);
            }
            drop(guard);
        })?;
        crew::spawn(scope, || {
            while !self.stop_reader.load(Ordering::Relaxed) {
                drop(rcu::enter());
            }
        })?;
        let mut writers = Vec::new();
        for slot in 0..self.writers.len() {
            writers.push(crew::spawn(scope, move || self.write(slot))?);
        }
        let mut peak = Peak::default();
        let progress =
            Progress::new("torture flood", 100, self.stall + Duration::from_nanos(100 * self.count));
        let (mut last, mut moved) = (0, Instant::now());
        while !writers.iter().all(|writer| writer.is_finished()) {
            let Stats { queued, queued_bytes, .. } = rcu::stats();
            peak.queued = peak.queued.max(queued_bytes);
            peak.queued_count = peak.queued_count.max(queued);
            peak.grown = peak.grown.max(resident()?.saturating_sub(self.resident));
            if self.kind != Kind::Plain {
                peak.live = peak.live.max(live(self.writers) * SIZE);
            }
            let born: u64 = self.writers.iter().map(|writer| writer.born.load(Ordering::Relaxed)).sum();
            if born != last {
                (last, moved) = (born, Instant::now());
            } else if moved.elapsed() > patience() {
                drop(progress);
                fail(NAME, &format!("no writer has moved for {:?}; {}", patience(), rcu::stats()));
            }
            progress.show(|| format!("{}: {born}, {:.2} MiB wait", self.name, mib(queued_bytes)));
            progress.reach(born * 100 / self.count);
            sleep(TICK);
        }
        writers.into_iter().try_for_each(crew::join)?;
        Ok(peak)
    }

    /// Runs a writer. The first one makes the reader stall when half is done.
    fn write(&self, slot: usize) {
        let count = &self.writers[slot];
        let nested = self.kind == Kind::Nested;
        let half = self.share / 2 / BATCH * BATCH;
        for first in (0..self.share).step_by(BATCH as usize) {
            if slot == 0 && first == half {
                self.stall_gate.open();
                self.stalled.wait_for(1);
            }
            if self.stop_writers.load(Ordering::Relaxed) {
                return;
            }
            let _outer = nested.then(rcu::enter);
            for number in first..self.share.min(first + BATCH) {
                let _inner = nested.then(rcu::enter);
                // Relaxed: statistics, and only this thread writes it.
                count.born.store(number + 1, Ordering::Relaxed);
                if self.kind == Kind::Plain {
                    rcu::retire(Box::new([number; 8]));
                } else {
                    rcu::retire(Box::new(Counted { count, _rest: [number; 7] }));
                }
            }
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
    fn live_values_are_born_and_not_dead() {
        let counts = [WriterCount::default(), WriterCount::default()];
        for count in &counts {
            count.born.store(2, Ordering::Relaxed);
            count.died.store(1, Ordering::Relaxed);
        }
        assert_eq!(live(&counts), 2);
        assert_eq!([size_of::<Counted>(), size_of::<[u64; 8]>()], [SIZE as usize; 2]);
    }

    #[test]
    fn stall_is_shorter_than_the_timeout_of_throttled_writers() {
        assert_eq!(stall("0.5"), Ok(0.5));
        assert!(stall("10").is_err());
    }
}
