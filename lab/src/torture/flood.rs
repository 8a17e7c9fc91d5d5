//! `torture flood`: writers that retire as fast as they can, while a reader stalls. What waits must stay below the limit.
//!
//! Three floods, one after the other: of plain values, which are mostly freed by the thread that retired them; of values with
//! a destructor, which only the worker runs; and of such that several writers retire inside two nested sections, the outer of
//! which lasts for several values. Writers inside sections notice late, so there the limit may be exceeded, but not twice.
//!
//! Values with a destructor are counted from birth to death as well, and the memory of the process is looked at, so that the
//! library's own numbers need not be believed.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use crossbeam_utils::CachePadded;
use stillpoint::rcu::{self, Limits, Stats};

use super::{fail, patience};
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::memory;
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
    /// Which floods to run.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "plain,destructors,nested")]
    floods: Vec<Kind>,
}

/// A flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Plain values.
    Plain,
    /// Values with a destructor.
    Destructors,
    /// Values with a destructor, retired inside nested sections by four writers at least.
    Nested,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain values",
            Self::Destructors => "values with a destructor",
            Self::Nested => "values retired inside nested sections",
        }
    }

    /// Limits of which one may wait.
    fn excess(self) -> u64 {
        if self == Self::Nested { 2 } else { 1 }
    }
}

/// A stall that writers above the limit wait out: after ten seconds they go on.
fn stall(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=9.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0 to 9".to_owned()) }
}

/// Time between two looks at what waits.
const BEAT: Duration = Duration::from_millis(1);

/// Values between two looks of a writer at the stop flag; as many are retired inside one outer section.
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
struct Tally {
    /// Values made so far. Only the writer writes it.
    born: CachePadded<AtomicU64>,
    /// Counted values dropped so far. The library's worker writes it.
    died: CachePadded<AtomicU64>,
}

/// What is retired.
trait Payload: Send + 'static {
    const COUNTED: bool;

    fn new(number: u64, tally: &'static Tally) -> Self;
}

impl Payload for [u64; 8] {
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
    /// Most bytes, and most values, that waited, by the library's account.
    queued: u64,
    queued_count: u64,
    /// Most bytes that existed, where values are counted.
    live: u64,
    /// Most bytes by which the memory of the process had grown, since before the first flood.
    grown: u64,
    samples: u64,
}

/// What the threads of a flood share.
#[derive(Debug)]
struct Run<'a> {
    args: &'a Args,
    kind: Kind,
    /// Bytes of the process before the first flood.
    resident: u64,
    /// Values of each writer.
    share: u64,
    tallies: &'static [Tally],
    /// Opens when the reader is to stall.
    stall: Gate,
    stalls: Arrivals,
    stop_writers: AtomicBool,
    stop_readers: AtomicBool,
}

/// Runs the floods; what passed.
///
/// # Errors
///
/// Fails if a check does, or the machine does not allow the threads.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let limit = args.limit_mib.get() << 20;
    let resident = resident()?;
    let mut peak = 0;
    for &kind in &args.floods {
        let flood = match kind {
            Kind::Plain => pour::<[u64; 8]>(args, kind, args.count.get(), limit, resident)?,
            Kind::Destructors => pour::<Counted>(args, kind, args.count.get() / 10, limit, resident)?,
            // Enough to be far above the limit.
            Kind::Nested => {
                let count = (args.count.get() / 10).max(32 * limit / SIZE);
                pour::<Counted>(args, kind, count, limit, resident)?
            }
        };
        peak = peak.max(flood.queued).max(flood.live);
    }
    Ok(format!("at most {:.2} of {} MiB waited, no limit overrun", mib(peak), args.limit_mib))
}

/// Bytes of memory that the process has.
fn resident() -> anyhow::Result<u64> {
    memory::status("VmRSS").context("/proc/self/status does not tell how much memory this process has")
}

/// A flood of about `count` values, its summary, and its checks.
fn pour<P: Payload>(args: &Args, kind: Kind, count: u64, limit: u64, resident: u64) -> anyhow::Result<Flood> {
    let nested = kind == Kind::Nested;
    let writers = args.writers.get().max(if nested { NESTED_WRITERS } else { 1 });
    // Elsewhere only the bytes are limited, as these are what is checked.
    rcu::set_limits(Limits { count: if nested { limit / SIZE } else { u64::MAX }, bytes: limit });
    let run = Run {
        args,
        kind,
        resident,
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
    report::<P>(kind, &flood, count, &before, &stats);
    check::<P>(kind, &flood, count, limit, &before, &stats, live(run.tallies))?;
    Ok(flood)
}

fn report<P: Payload>(kind: Kind, flood: &Flood, count: u64, before: &Stats, after: &Stats) {
    let seconds = flood.time.as_secs_f64();
    let live =
        if P::COUNTED { format!(" ({:.2} MiB counted alive)", mib(flood.live)) } else { String::new() };
    println!(
        "{}: {count} retired in {seconds:.2} s ({:.2} million/s), peak {:.2} MiB{live}, process grown by {:.1} MiB, \
         in {} samples, {} grace periods, limit_waits {}, limit_overruns {}",
        kind.name(),
        count as f64 / seconds / 1e6,
        mib(flood.queued),
        mib(flood.grown),
        flood.samples,
        after.grace_periods - before.grace_periods,
        after.limit_waits - before.limit_waits,
        after.limit_overruns - before.limit_overruns,
    );
}

fn check<P: Payload>(
    kind: Kind,
    flood: &Flood,
    count: u64,
    limit: u64,
    before: &Stats,
    after: &Stats,
    left: u64,
) -> anyhow::Result<()> {
    let name = kind.name();
    let most = limit * kind.excess();
    ensure!(flood.queued <= most, "{name}: {:.2} MiB waited, more than {:.2}", mib(flood.queued), mib(most));
    ensure!(flood.live <= most, "{name}: {:.2} MiB existed, more than {:.2}", mib(flood.live), mib(most));
    let values = most / SIZE;
    ensure!(flood.queued_count <= values, "{name}: {} waited, more than {values}", flood.queued_count);
    let grown = COST * most + KEPT;
    ensure!(
        flood.grown <= grown,
        "{name}: the process has grown by {:.1} MiB, more than {:.1}",
        mib(flood.grown),
        mib(grown)
    );
    let overruns = after.limit_overruns - before.limit_overruns;
    ensure!(overruns == 0, "{name}: {overruns} callers above the limit waited in vain");
    let done = after.done - before.done;
    ensure!(done == count, "{name}: {done} of {count} dropped after the barrier");
    ensure!(after.queued == 0, "{name}: {} queued after the barrier", after.queued);
    ensure!(!P::COUNTED || left == 0, "{name}: {left} left after the barrier");
    ensure!(after.panics == 0, "{name}: {} panics", after.panics);
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
            let Stats { queued, queued_bytes, .. } = rcu::stats();
            flood.queued = flood.queued.max(queued_bytes);
            flood.queued_count = flood.queued_count.max(queued);
            flood.grown = flood.grown.max(resident()?.saturating_sub(self.resident));
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
            progress.show(|| format!("{}: {born}, {:.2} MiB wait", self.kind.name(), mib(queued_bytes)));
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
        let nested = self.kind == Kind::Nested;
        let half = self.share / 2 / BATCH * BATCH;
        for first in (0..self.share).step_by(BATCH as usize) {
            if has_stall && first == half {
                self.stall.open();
                self.stalls.wait_for(1);
            }
            if self.stop_writers.load(Ordering::Relaxed) {
                return;
            }
            let _outer = nested.then(rcu::enter);
            for number in first..self.share.min(first + BATCH) {
                let _inner = nested.then(rcu::enter);
                // Relaxed: a number, and only this thread writes it.
                tally.born.store(number + 1, Ordering::Relaxed);
                rcu::retire(Box::new(P::new(number, tally)));
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
        assert_eq!([size_of::<Counted>(), size_of::<[u64; 8]>()], [SIZE as usize; 2]);
    }

    #[test]
    fn a_stall_is_shorter_than_the_patience_of_writers() {
        assert_eq!(stall("0.5"), Ok(0.5));
        assert!(stall("10").is_err());
    }
}
