//! `torture flood`: writers retire as fast as they can, while a reader stalls. Unreclaimed memory must stay below the
//! limit.
//!
//! Three floods, one after the other: of plain values, which are mostly freed by the thread that retired them; of
//! values with a destructor, which only the worker runs; and of such that several writers retire inside two nested
//! sections, the outer of which lasts for several values. Writers inside sections are throttled late, so there the
//! limit may be exceeded, but not twice.
//!
//! Values with a destructor are counted from birth to death as well, and the memory of the process is measured, so
//! that the check does not rely on the library's own numbers.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use crossbeam_utils::CachePadded;
use stillpoint::Domain as _;
use stillpoint::rcu::{self, Limits, Stats};

use super::canary::wait_limit;
use super::common::{self, fail, sleep};
use harness::controls::Controls;
use harness::{crew, memory};

pub(super) const NAME: &str = "flood";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Plain values to retire; of those with a destructor a tenth.
    #[arg(long, value_name = "N", default_value = "100000000")]
    count: NonZeroU64,
    /// Limit of unreclaimed memory.
    #[arg(long, value_name = "MIB", default_value = "16")]
    limit_mib: NonZeroU64,
    /// How long a reader stays in a section in the middle of each flood.
    #[arg(long, value_name = "S", default_value = "5", value_parser = stall)]
    stall_seconds: f64,
    /// Threads that retire.
    #[arg(long, value_name = "N", default_value = "1")]
    writers: NonZeroUsize,
}

/// Parses the time of a stall, which must be shorter than the timeout of throttled writers.
fn stall(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=9.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0 to 9".to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Plain values.
    Plain,
    /// Values with a destructor.
    Destructors,
    /// Values with a destructor, retired inside nested sections by four writers at least.
    Nested,
}

/// Time between two samples of the unreclaimed memory.
const TICK: Duration = Duration::from_millis(1);

/// Values of a writer between two checks of the stop flag; as many are retired inside one outer section.
const BATCH: u64 = 16;

/// Values that a writer may add before it notices that the limit is reached.
pub(super) const UNNOTICED: u64 = 64;

/// Bytes of a value.
const SIZE: u64 = 64;

/// The memory of the process may grow by so many bytes for each unreclaimed one: allocator and queue need as much as
/// a value. And by this, which allocators keep.
const COST: u64 = 2;
const KEPT: u64 = 128 << 20;

/// Values of a writer, each number on a line of its own.
#[derive(Debug, Default)]
struct WriterCount {
    /// Made so far; only the writer writes it.
    born: CachePadded<AtomicU64>,
    /// Dropped, if they have a destructor; the library's worker writes it.
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
        self.count.died.fetch_add(1, Relaxed);
    }
}

/// Returns how many counted values exist: never more than existed at one moment, however long this is interrupted.
fn live(counts: &[WriterCount]) -> u64 {
    // All births before any death, by acquiring: so the number is at most that of the moment in between.
    let born: u64 = counts.iter().map(|count| count.born.load(Acquire)).sum();
    born.saturating_sub(counts.iter().map(|count| count.died.load(Acquire)).sum())
}

/// The most that was seen during a flood, in bytes.
#[derive(Debug, Default)]
struct Peak {
    /// Queued, by the library's account.
    queued: u64,
    /// In existence, where values are counted.
    live: u64,
    /// By which the memory of the process had grown since before the first flood.
    grown: u64,
}

#[derive(Debug)]
struct Flood {
    kind: Kind,
    name: &'static str,
    /// Values of each writer.
    share: u64,
    stall: Duration,
    writers: &'static [WriterCount],
    /// It starts when the reader must stall, and is ready when the reader does.
    controls: Controls,
}

/// Runs the floods. Returns what passed.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let (resident, limit) = (resident()?, args.limit_mib.get() << 20);
    let mut most = 0;
    for kind in [Kind::Plain, Kind::Destructors, Kind::Nested] {
        let peak = Flood::new(args, kind).run(resident, limit)?;
        most = most.max(peak.queued).max(peak.live);
    }
    Ok(format!("at most {:.2} of {} MiB were unreclaimed, no limit overrun", mib(most), args.limit_mib))
}

/// Returns the bytes of memory that the process has.
fn resident() -> anyhow::Result<u64> {
    memory::status("VmRSS").context("/proc/self/status does not show how much memory this process has")
}

impl Flood {
    fn new(args: &Args, kind: Kind) -> Self {
        let count = args.count.get();
        let (name, count, writers) = match kind {
            Kind::Plain => ("plain values", count, 1),
            Kind::Destructors => ("values with a destructor", count / 10, 1),
            // Enough to be far above the limit.
            Kind::Nested => {
                let least = 32 * (args.limit_mib.get() << 20) / SIZE;
                ("values retired inside nested sections", (count / 10).max(least), 4)
            }
        };
        let writers = args.writers.get().max(writers);
        Self {
            kind,
            name,
            share: count.div_ceil(writers as u64).max(1),
            stall: Duration::from_secs_f64(args.stall_seconds),
            // Leaked, as retired values may be dropped at any time.
            writers: (0..writers).map(|_| WriterCount::default()).collect::<Vec<_>>().leak(),
            controls: Controls::default(),
        }
    }

    /// Runs the flood, prints a summary, and checks it.
    fn run(&self, resident: u64, limit: u64) -> anyhow::Result<Peak> {
        let (name, nested) = (self.name, self.kind == Kind::Nested);
        // Elsewhere only the bytes are limited, as these are what is checked.
        rcu::Global.set_limits(Limits {
            count: if nested { limit / SIZE } else { u64::MAX },
            bytes: limit,
            ..Limits::default()
        });
        let (before, start) = (rcu::stats(), Instant::now());
        let peak = self.controls.scope(|scope| self.watch(scope, resident))?;
        let seconds = start.elapsed().as_secs_f64();
        rcu::barrier();
        let (after, count) = (rcu::stats(), self.share * self.writers.len() as u64);
        let overruns = after.limit_overruns - before.limit_overruns;
        println!(
            "{name}: {count} retired in {seconds:.2} s ({:.2} million/s), peak {:.2} MiB ({:.2} MiB counted alive), \
             process grown by {:.1} MiB, {} grace periods, limit_waits {}, limit_overruns {overruns}",
            count as f64 / seconds / 1e6,
            mib(peak.queued),
            mib(peak.live),
            mib(peak.grown),
            after.grace_periods - before.grace_periods,
            after.limit_waits - before.limit_waits,
        );
        let limit = limit + self.writers.len() as u64 * UNNOTICED * SIZE;
        let most = limit * if nested { 2 } else { 1 };
        for (what, bytes, most) in [
            ("were unreclaimed", peak.queued, most),
            ("existed", peak.live, most),
            ("were added to the process", peak.grown, COST * most + KEPT),
        ] {
            ensure!(bytes <= most, "{name}: {:.2} MiB {what}, more than {:.2}", mib(bytes), mib(most));
        }
        ensure!(overruns == 0, "{name}: {overruns} throttled callers timed out");
        let done = after.done - before.done;
        ensure!(done == count, "{name}: {done} of {count} dropped after the barrier");
        let left = if self.kind == Kind::Plain { 0 } else { live(self.writers) };
        ensure!(left == 0, "{name}: {left} left after the barrier");
        ensure!(after.queued == 0 && after.panics == 0, "{name}: after the barrier: {after}");
        Ok(peak)
    }

    /// Runs all threads until everything has been retired, and samples what is unreclaimed.
    fn watch<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        resident_before: u64,
    ) -> anyhow::Result<Peak> {
        let Self { controls, .. } = self;
        // First, as a writer waits for it.
        crew::spawn(scope, || {
            rcu::register();
            controls.start.wait();
            let guard = rcu::enter();
            controls.ready.arrive();
            if !controls.must_stop() {
                sleep(self.stall);
            }
            drop(guard);
        })?;
        crew::spawn(scope, || {
            while !controls.background_must_stop() {
                drop(rcu::enter());
            }
        })?;
        let start = |slot| crew::spawn(scope, move || self.write(slot));
        let writers = (0..self.writers.len()).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut peak, mut last, mut moved) = (Peak::default(), 0, Instant::now());
        while !writers.iter().all(|writer| writer.is_finished()) {
            let Stats { queued_bytes, .. } = rcu::stats();
            peak.queued = peak.queued.max(queued_bytes);
            peak.grown = peak.grown.max(resident()?.saturating_sub(resident_before));
            if self.kind != Kind::Plain {
                peak.live = peak.live.max(live(self.writers) * SIZE);
            }
            let born: u64 = self.writers.iter().map(|writer| writer.born.load(Relaxed)).sum();
            if born != last {
                (last, moved) = (born, Instant::now());
            } else if moved.elapsed() > wait_limit() {
                fail(
                    NAME,
                    common::Kind::Hang,
                    &format!("no writer has moved for {:?}; {}", wait_limit(), rcu::stats()),
                );
            }
            sleep(TICK);
        }
        writers.into_iter().try_for_each(crew::join)?;
        Ok(peak)
    }

    /// Runs a writer. The first one makes the reader stall when half is done.
    fn write(&self, slot: usize) {
        let (count, nested) = (&self.writers[slot], self.kind == Kind::Nested);
        let half = self.share / 2 / BATCH * BATCH;
        for first in (0..self.share).step_by(BATCH as usize) {
            if slot == 0 && first == half {
                self.controls.start.open();
                self.controls.ready.wait_for(1);
            }
            if self.controls.must_stop() {
                return;
            }
            let _outer = nested.then(rcu::enter);
            for number in first..self.share.min(first + BATCH) {
                let _inner = nested.then(rcu::enter);
                // Relaxed: statistics, and only this thread writes it.
                count.born.store(number + 1, Relaxed);
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
