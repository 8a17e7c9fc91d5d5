//! `torture percpu`: counters, histograms, pools, rings and values of a CPU, all at once, by threads that migrate, get
//! signals, lose their registration, start and end. From time to time all stop, and all totals must be right.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stillpoint::percpu::{Counter, Histogram, OverflowPolicy, PerCpu, Pool, Ring};

use super::common::{ThreadArgs, fail, require, seeded, sleep, wait_limit};
use super::faults::{self, Signals};
use crate::harness::progress::Progress;
use crate::harness::{crew, pin};

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
    /// One that refuses records when it is full, and one that overwrites.
    rings: [Ring<3>; 2],
    sums: PerCpu<(bool, u64)>,
    stop: AtomicBool,
    done: Done,
}

/// What has been done. All accesses are Relaxed: statistics only, until all threads have been joined.
#[derive(Default)]
struct Done {
    added: AtomicU64,
    recorded: AtomicU64,
    pooled: AtomicU64,
    written: [AtomicU64; 2],
    read: [AtomicU64; 2],
    used: AtomicU64,
    doubled: AtomicU64,
    torn: AtomicU64,
}

fn increment(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// The containers of this interval, for signal handlers.
static CURRENT: AtomicPtr<Containers> = AtomicPtr::new(ptr::null_mut());

impl Containers {
    fn new() -> Self {
        let containers = Self {
            counter: Counter::signed(),
            sizes: Histogram::new(),
            pool: Pool::new(16),
            rings: [OverflowPolicy::Refuse, OverflowPolicy::Overwrite].map(|full| Ring::new(100, full)),
            sums: PerCpu::new(Default::default),
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
        let mut tokens = Vec::with_capacity(8);
        self.pool.pop_many(&mut tokens, fastrand::usize(1..8));
        tokens.iter().for_each(|token| self.take(token));
        tokens.iter().for_each(|token| token.0.store(false, Release));
        self.pool.push_many(&mut tokens);
        self.done.pooled.fetch_sub(tokens.len() as u64, Relaxed);
    }

    fn write(&self, which: usize, number: u64) {
        increment(&self.done.written[which]);
        self.rings[which].push(&[number, !number, number ^ 0x5555]);
    }

    fn read(&self) {
        for (which, ring) in self.rings.iter().enumerate() {
            if let Some(mut reader) = ring.reader() {
                reader.drain(|event| {
                    let [number, inverse, mixed] = event.words;
                    if number != !inverse || mixed != number ^ 0x5555 {
                        increment(&self.done.torn);
                    }
                    increment(&self.done.read[which]);
                });
            }
        }
    }

    fn use_sum(&self, delay: bool) {
        increment(&self.done.used);
        self.sums.with(|(busy, sum)| {
            if mem::replace(busy, true) {
                increment(&self.done.doubled);
            }
            if delay {
                thread::yield_now();
            }
            *sum += 1;
            *busy = false;
        });
    }

    /// Runs in signal handlers: the operations that never allocate.
    fn interrupt(&self) {
        self.add();
        self.record(77);
        self.write(fastrand::usize(..2), 7);
    }

    /// Runs a thread until the interval ends.
    fn work(&self, cpus: &[usize]) {
        let mut number = 0;
        while !self.stop.load(Relaxed) {
            for _ in 0..64 {
                number += 1;
                match fastrand::u32(..16) {
                    0..4 => self.add(),
                    4..6 => self.record(number),
                    6..9 => self.exchange(),
                    9 => self.exchange_many(),
                    10..13 => self.write(fastrand::usize(..2), number),
                    _ => self.use_sum(number % 64 == 0),
                }
            }
            match fastrand::u32(..64) {
                // Where the CPU is not allowed any more, or not online, the thread stays.
                0..4 => _ = pin::to(cpus[fastrand::usize(..cpus.len())]),
                4..8 => thread::yield_now(),
                8 => self.read(),
                9 => sleep(Duration::from_micros(100)),
                10 => self.sums.for_each(|(_, sum)| *sum += 0),
                _ => {}
            }
        }
    }

    /// Checks all totals, once all threads have stopped.
    fn check(&self) -> anyhow::Result<()> {
        self.read();
        let mut tokens = 0;
        while let Some(token) = self.pool.pop() {
            self.take(&token);
            tokens += 1;
        }
        let mut sum = 0;
        self.sums.for_each(|(_, part)| sum += *part);
        let Done { added, recorded, pooled, written, read, used, doubled, torn } = &self.done;
        let ring = |which: usize| read[which].load(Relaxed) + self.rings[which].lost();
        for (what, found, expected) in [
            ("adds to the counter", self.counter.sum().cast_unsigned(), added),
            ("values in the histogram", self.sizes.snapshot().count(), recorded),
            ("records of the ring that refuses, read or lost", ring(0), &written[0]),
            ("records of the ring that overwrites, read or lost", ring(1), &written[1]),
            ("values in the pool", tokens, pooled),
            ("uses of a CPU's value", sum, used),
            ("values taken twice", doubled.load(Relaxed), &AtomicU64::new(0)),
            ("torn records", torn.load(Relaxed), &AtomicU64::new(0)),
        ] {
            let expected = expected.load(Relaxed);
            ensure!(found == expected, "{what}: {found}, not {expected}");
        }
        Ok(())
    }
}

/// Unregisters the calling thread, if the C library registered it: it uses the fallback from now on.
fn unregister() {
    const SIZE: usize = 32;
    const UNREGISTER: libc::c_int = 1;
    let signature: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };
    // SAFETY: the name is a C string, and the C library defines the symbol as a constant of this type; the kernel takes
    // back only what was registered with the same arguments.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        if let Some(offset) = offset.as_ref() {
            let area = (libc::pthread_self() as *mut u8).wrapping_offset(*offset);
            libc::syscall(libc::SYS_rseq, area, SIZE, UNREGISTER, signature);
        }
    }
}

/// Runs one interval: threads work, get signals, and end. Then checks all totals. Returns the number of operations.
fn interval(threads: usize, cpus: &[usize]) -> anyhow::Result<u64> {
    let containers = Containers::new();
    CURRENT.store(ptr::from_ref(&containers).cast_mut(), Release);
    let begin = Instant::now();
    let signals = Signals::new(threads);
    let outcome = thread::scope(|scope| -> anyhow::Result<()> {
        let mut workers = Vec::new();
        for slot in 0..threads {
            let (containers, signals) = (&containers, &signals);
            let work = move || {
                if slot % 4 == 3 {
                    unregister();
                }
                let _receiver = signals.receiver(slot);
                containers.work(cpus);
            };
            workers.push(crew::spawn(scope, seeded(work))?);
        }
        while begin.elapsed() < INTERVAL {
            signals.send();
            let wait = Instant::now();
            while wait.elapsed() < Duration::from_micros(50) {
                thread::yield_now();
            }
        }
        containers.stop.store(true, Relaxed);
        let stopped = Instant::now();
        while !workers.iter().all(|worker| worker.is_finished()) {
            if stopped.elapsed() > wait_limit() {
                fail(NAME, "a thread has not ended");
            }
            sleep(Duration::from_millis(1));
        }
        workers.into_iter().try_for_each(crew::join)
    });
    CURRENT.store(ptr::null_mut(), Release);
    outcome?;
    containers.check()?;
    let Done { added, recorded, used, written: [refusing, overwriting], .. } = &containers.done;
    Ok([added, recorded, used, refusing, overwriting].iter().map(|count| count.load(Relaxed)).sum())
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &ThreadArgs) -> anyhow::Result<String> {
    println!("per-CPU data: {}", stillpoint::percpu::report());
    let cpus = pin::allowed()?;
    faults::handle_signals(|| {
        // SAFETY: the containers live until all threads that get signals have ended.
        if let Some(containers) = unsafe { CURRENT.load(Acquire).as_ref() } {
            containers.interrupt();
        }
    })?;
    let length = Duration::from_secs_f64(args.common.seconds);
    let intervals = (length.as_millis() / INTERVAL.as_millis()).max(1) as usize;
    let progress = Progress::new("torture percpu", intervals, length);
    let mut operations = 0;
    for number in 1..=intervals {
        progress.show(|| format!("interval {number}/{intervals}"));
        operations += interval(args.threads.get(), &cpus).with_context(|| format!("in interval {number}"))?;
        progress.advance();
    }
    drop(progress);
    require(NAME, "operations", operations, LEAST, args.common.seconds);
    Ok(format!(
        "{operations} operations by {} threads in {intervals} intervals, {} signals",
        args.threads,
        faults::handled()
    ))
}
