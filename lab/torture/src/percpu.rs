//! `torture percpu`: counters, histograms and pools, all at once, by threads that migrate, get signals, lose their
//! registration, start and end. From time to time all stop, and all totals must be right.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use stillpoint::percpu::{Counter, Histogram, Pool};
use support::rseq;

use super::canary;
use super::common::{Common, Kind, THREADS, check, require, sleep};
use super::faults::{self, Signals};
use super::intervals::{Watch, interval, repeat};
use harness::pin;

pub(super) const NAME: &str = "percpu";

/// Time until all stop. Each interval has new threads, and new containers.
const INTERVAL: Duration = Duration::from_millis(250);

/// Operations per second that a conclusive run needs.
const LEAST: u64 = 10_000;

/// A value that records whether a thread has it.
#[derive(Debug, Default)]
struct Token(AtomicBool);

/// The containers, and what has been done to them.
struct Containers {
    counter: Counter<i64>,
    sizes: Histogram,
    pool: Pool<Token>,
    stop: AtomicBool,
    done: Done,
}

/// What has been done. All accesses are Relaxed: statistics only, until all threads have been joined.
#[derive(Default)]
struct Done {
    added: AtomicU64,
    recorded: AtomicU64,
    pooled: AtomicU64,
    exchanged: AtomicU64,
    doubled: AtomicU64,
}

fn increment(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// The containers of this interval, for signal handlers.
static CURRENT: AtomicPtr<Containers> = AtomicPtr::new(ptr::null_mut());

impl Containers {
    fn new() -> Self {
        let containers = Self {
            counter: Counter::new(),
            sizes: Histogram::new(),
            pool: Pool::new(16),
            stop: AtomicBool::new(false),
            done: Done::default(),
        };
        // Signal handlers must not be the first.
        containers.counter.prepare();
        containers.sizes.prepare();
        for _ in 0..24 {
            if containers.pool.push(Box::default()).is_ok() {
                increment(&containers.done.pooled);
            }
        }
        containers
    }

    fn take(&self, token: &Token) {
        if token.0.swap(true, AcqRel) {
            increment(&self.done.doubled);
        }
    }

    fn record(&self, value: u64) {
        increment(&self.done.recorded);
        self.sizes.record(value);
    }

    fn add(&self) {
        increment(&self.done.added);
        self.counter.add(5);
        self.counter.add(-4);
    }

    fn exchange(&self) {
        if let Some(token) = self.pool.pop() {
            increment(&self.done.exchanged);
            self.take(&token);
            token.0.store(false, Release);
            if let Err(token) = self.pool.push(token) {
                // No room, or other threads are in the pool on all CPUs.
                drop(token);
                self.done.pooled.fetch_sub(1, Relaxed);
            }
        }
    }

    fn exchange_many(&self) {
        let pop = std::iter::from_fn(|| self.pool.pop());
        let tokens: Vec<_> = pop.take(fastrand::usize(1..8)).collect();
        tokens.iter().for_each(|token| self.take(token));
        tokens.iter().for_each(|token| token.0.store(false, Release));
        let refused = tokens.into_iter().filter_map(|token| self.pool.push(token).err()).count();
        self.done.pooled.fetch_sub(refused as u64, Relaxed);
    }

    /// Runs in signal handlers: the operations that never allocate.
    fn interrupt(&self) {
        self.add();
        self.record(77);
    }

    /// Runs a thread until the interval ends.
    fn work(&self, cpus: &[usize]) {
        let mut number = 0;
        while !self.stop.load(Relaxed) {
            for _ in 0..64 {
                number += 1;
                match fastrand::u32(..12) {
                    0..4 => self.add(),
                    4..6 => self.record(number),
                    6..10 => self.exchange(),
                    _ => self.exchange_many(),
                }
            }
            match fastrand::u32(..64) {
                // Where the CPU is not allowed any more, or not online, the thread stays.
                0..4 => _ = pin::to(cpus[fastrand::usize(..cpus.len())]),
                4..8 => thread::yield_now(),
                8 => sleep(Duration::from_micros(100)),
                _ => {}
            }
        }
    }

    /// Checks all totals, once all threads have stopped.
    fn check(&self) -> anyhow::Result<()> {
        let mut tokens = 0;
        while let Some(token) = self.pool.pop() {
            self.take(&token);
            tokens += 1;
        }
        let Done { added, recorded, pooled, doubled, .. } = &self.done;
        for (what, found, expected) in [
            ("adds to the counter", self.counter.get().cast_unsigned(), added),
            ("values in the histogram", self.sizes.snapshot().count(), recorded),
            ("values in the pool", tokens, pooled),
            ("values taken twice", doubled.load(Relaxed), &AtomicU64::new(0)),
        ] {
            let expected = expected.load(Relaxed);
            check(found == expected, Kind::Lost, || format!("{what}: {found}, not {expected}"))?;
        }
        Ok(())
    }
}

/// Runs one interval: threads work, get signals, and end. Then checks all totals. Returns the number of operations.
fn one_interval(threads: usize, cpus: &[usize]) -> anyhow::Result<u64> {
    let containers = Containers::new();
    CURRENT.store(ptr::from_ref(&containers).cast_mut(), Release);
    let signals = Signals::new(threads);
    let body = |slot| {
        if slot % 4 == 3 {
            // Uses the fallback from now on.
            rseq::unregister();
        }
        let _receiver = signals.receiver(slot);
        containers.work(cpus);
    };
    let watch = Watch::new(NAME, &String::new);
    let outcome = interval(&watch, threads, INTERVAL, &containers.stop, body, |ends| {
        if ends {
            return Ok(());
        }
        signals.send();
        let wait = Instant::now();
        while wait.elapsed() < Duration::from_micros(50) {
            thread::yield_now();
        }
        Ok(())
    });
    CURRENT.store(ptr::null_mut(), Release);
    outcome?;
    containers.check()?;
    let Done { added, recorded, exchanged, .. } = &containers.done;
    Ok([added, recorded, exchanged].iter().map(|count| count.load(Relaxed)).sum())
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &Common) -> anyhow::Result<String> {
    println!("per-CPU data: {}", stillpoint::percpu::report());
    let cpus = pin::allowed()?;
    canary::start(|| ())?;
    faults::handle_signals(|| {
        // SAFETY: the containers live until all threads that get signals have ended.
        if let Some(containers) = unsafe { CURRENT.load(Acquire).as_ref() } {
            containers.interrupt();
        }
    })?;
    let mut operations = 0;
    let intervals = repeat(args.seconds, |number| {
        operations += one_interval(THREADS, &cpus).with_context(|| format!("in interval {number}"))?;
        Ok(())
    })?;
    require(NAME, "operations", operations, LEAST, args.seconds);
    Ok(format!(
        "{operations} operations by {} threads in {intervals} intervals, {} signals",
        THREADS,
        faults::handled()
    ))
}
