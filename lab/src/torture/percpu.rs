//! `torture percpu`: counters, histograms, pools, rings and values of a CPU, all at once, by threads that move, get signals,
//! lose their registration, come and go. From time to time all stop, and everything must add up.

use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stillpoint::percpu::{Counter, Histogram, OverflowPolicy, PerCpu, Pool, Ring};

use super::{Common, enough, fail, patience};
use crate::harness::progress::Progress;
use crate::harness::{crew, pin};

pub(super) const NAME: &str = "percpu";

/// How long to run, and how many take part.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Threads; every fourth one runs without restartable sequences.
    #[arg(long, value_name = "N", default_value = "16")]
    threads: NonZeroUsize,
}

/// Time until all stop. Each time there are new threads, and new containers.
const SHIFT: Duration = Duration::from_millis(250);

/// Operations of a second without which a run says nothing.
const LEAST: u64 = 10_000;

/// A value that knows whether somebody has it.
#[derive(Debug, Default)]
struct Token(AtomicBool);

/// What is used, and what has been done.
struct World {
    counter: Counter<i64>,
    sizes: Histogram,
    pool: Pool<Token>,
    refusing: Ring<3>,
    overwriting: Ring<3>,
    sums: PerCpu<(bool, u64)>,
    stop: AtomicBool,
    added: AtomicU64,
    recorded: AtomicU64,
    pooled: AtomicUsize,
    written: [AtomicU64; 2],
    read: [AtomicU64; 2],
    used: AtomicU64,
    doubled: AtomicU64,
    torn: AtomicU64,
}

/// What threads work on now, for signal handlers.
static WORLD: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());
static SIGNALS: AtomicU64 = AtomicU64::new(0);

impl World {
    fn new() -> Self {
        let world = Self {
            counter: Counter::signed(),
            sizes: Histogram::new(),
            pool: Pool::new(16),
            refusing: Ring::new(100, OverflowPolicy::Refuse),
            overwriting: Ring::new(100, OverflowPolicy::Overwrite),
            sums: PerCpu::new(Default::default),
            stop: AtomicBool::new(false),
            added: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            pooled: AtomicUsize::new(0),
            written: Default::default(),
            read: Default::default(),
            used: AtomicU64::new(0),
            doubled: AtomicU64::new(0),
            torn: AtomicU64::new(0),
        };
        // Signal handlers must not be the first.
        world.counter.prepare();
        world.sizes.prepare();
        for _ in 0..24 {
            if world.pool.push(Box::default()).is_ok() {
                world.pooled.fetch_add(1, Relaxed);
            }
        }
        world
    }

    fn take(&self, token: &Token) {
        if token.0.swap(true, AcqRel) {
            self.doubled.fetch_add(1, Relaxed);
        }
    }

    fn add(&self) {
        self.added.fetch_add(1, Relaxed);
        self.counter.add(5);
        self.counter.add(-4);
    }

    fn exchange(&self) {
        if let Some(token) = self.pool.pop() {
            self.take(&token);
            token.0.store(false, Release);
            if let Err(token) = self.pool.push(token) {
                // No room, or somebody is at work everywhere.
                drop(token);
                self.pooled.fetch_sub(1, Relaxed);
            }
        }
    }

    fn exchange_many(&self) {
        let mut tokens = Vec::with_capacity(8);
        self.pool.pop_many(&mut tokens, fastrand::usize(1..8));
        tokens.iter().for_each(|token| self.take(token));
        tokens.iter().for_each(|token| token.0.store(false, Release));
        self.pool.push_many(&mut tokens);
        self.pooled.fetch_sub(tokens.len(), Relaxed);
    }

    fn write(&self, which: usize, number: u64) {
        let ring = if which == 0 { &self.refusing } else { &self.overwriting };
        self.written[which].fetch_add(1, Relaxed);
        ring.push(&[number, !number, number ^ 0x5555]);
    }

    fn read(&self) {
        for (which, ring) in [&self.refusing, &self.overwriting].into_iter().enumerate() {
            if let Some(mut reader) = ring.reader() {
                reader.drain(|event| {
                    let [number, inverse, mixed] = event.words;
                    if number != !inverse || mixed != number ^ 0x5555 {
                        self.torn.fetch_add(1, Relaxed);
                    }
                    self.read[which].fetch_add(1, Relaxed);
                });
            }
        }
    }

    fn use_sum(&self, dwell: bool) {
        self.used.fetch_add(1, Relaxed);
        self.sums.with(|(busy, sum)| {
            if std::mem::replace(busy, true) {
                self.doubled.fetch_add(1, Relaxed);
            }
            if dwell {
                thread::yield_now();
            }
            *sum += 1;
            *busy = false;
        });
    }

    /// What a signal handler does: all that never allocates.
    fn interrupt(&self) {
        self.add();
        self.recorded.fetch_add(1, Relaxed);
        self.sizes.record(77);
        self.write(fastrand::usize(..2), 7);
    }

    /// What threads do.
    fn work(&self, cpus: &[usize]) {
        let mut number = 0;
        while !self.stop.load(Relaxed) {
            for _ in 0..64 {
                number += 1;
                match fastrand::u32(..16) {
                    0..4 => self.add(),
                    4..6 => {
                        self.recorded.fetch_add(1, Relaxed);
                        self.sizes.record(number);
                    }
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
                9 => super::sleep(Duration::from_micros(100)),
                10 => self.sums.for_each(|(_, sum)| *sum += 0),
                _ => {}
            }
        }
    }

    /// After all have stopped.
    fn check(&self) -> anyhow::Result<()> {
        self.read();
        let (added, recorded) = (self.added.load(Relaxed), self.recorded.load(Relaxed));
        ensure!(self.counter.sum() == added.cast_signed(), "{} of {added} adds", self.counter.sum());
        let counted = self.sizes.snapshot().count();
        ensure!(counted == recorded, "{counted} of {recorded} values in the histogram");
        for (which, ring) in [&self.refusing, &self.overwriting].into_iter().enumerate() {
            let (written, read) = (self.written[which].load(Relaxed), self.read[which].load(Relaxed));
            let lost = ring.lost();
            ensure!(read + lost == written, "{written} records, of which {read} were read and {lost} lost");
        }
        let mut tokens = 0;
        while let Some(token) = self.pool.pop() {
            self.take(&token);
            tokens += 1;
        }
        let pooled = self.pooled.load(Relaxed);
        ensure!(tokens == pooled, "{tokens} of {pooled} values in the pool");
        let (mut sum, used) = (0, self.used.load(Relaxed));
        self.sums.for_each(|(_, part)| sum += *part);
        ensure!(sum == used, "{sum} of {used} uses of values");
        let (doubled, torn) = (self.doubled.load(Relaxed), self.torn.load(Relaxed));
        ensure!(doubled == 0, "{doubled} values were had twice");
        ensure!(torn == 0, "{torn} records were torn");
        Ok(())
    }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    // SAFETY: the world lives until all threads that get signals have ended.
    if let Some(world) = unsafe { WORLD.load(Acquire).as_ref() } {
        SIGNALS.fetch_add(1, Relaxed);
        world.interrupt();
    }
}

/// Takes the calling thread's registration back, if the C library made one: it uses the fallback from now on.
fn unregister() {
    const SIZE: usize = 32;
    const UNREGISTER: libc::c_int = 1;
    let signature: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };
    // SAFETY: the name is a C string, and the C library defines the symbol as a constant of this type; the kernel takes back
    // only what was registered with the same arguments.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        if let Some(offset) = offset.as_ref() {
            let area = (libc::pthread_self() as *mut u8).wrapping_offset(*offset);
            libc::syscall(libc::SYS_rseq, area, SIZE, UNREGISTER, signature);
        }
    }
}

/// One shift: threads that work, get signals, and end; then everything must add up. Operations in all.
fn shift(args: &Args, cpus: &[usize]) -> anyhow::Result<u64> {
    let world = World::new();
    WORLD.store(ptr::from_ref(&world).cast_mut(), Release);
    let begin = Instant::now();
    let threads = args.threads.get();
    let ids: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicUsize::new(0);
    let outcome = thread::scope(|scope| -> anyhow::Result<()> {
        let mut workers = Vec::new();
        for (number, id) in ids.iter().enumerate() {
            let (world, done) = (&world, &done);
            let seed = fastrand::u64(..);
            workers.push(crew::spawn(scope, move || {
                fastrand::seed(seed);
                if number % 4 == 3 {
                    unregister();
                }
                // SAFETY: takes nothing.
                id.store(unsafe { libc::pthread_self() } as u64, Release);
                world.work(cpus);
                // No signals from here on: who sends them takes the number first.
                while id.compare_exchange(unsent(id), 0, AcqRel, Relaxed).is_err() {
                    thread::yield_now();
                }
                done.fetch_add(1, Release);
            })?);
        }
        while begin.elapsed() < SHIFT {
            let id = &ids[fastrand::usize(..threads)];
            // Taken, so that the thread waits before it ends.
            let thread = id.swap(TAKEN, AcqRel);
            if thread != 0 && thread != TAKEN {
                // SAFETY: the thread has not ended, as its number is taken.
                unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
            }
            id.store(thread, Release);
            let wait = Instant::now();
            while wait.elapsed() < Duration::from_micros(50) {
                thread::yield_now();
            }
        }
        world.stop.store(true, Relaxed);
        let stopped = Instant::now();
        while done.load(Acquire) < threads {
            if stopped.elapsed() > patience() {
                fail(NAME, "a thread has not ended: it waits for something that will not come");
            }
            super::sleep(Duration::from_millis(1));
        }
        workers.into_iter().try_for_each(crew::join)
    });
    WORLD.store(ptr::null_mut(), Release);
    outcome?;
    world.check()?;
    Ok([&world.added, &world.recorded, &world.used, &world.written[0], &world.written[1]]
        .iter()
        .map(|count| count.load(Relaxed))
        .sum())
}

/// In place of a thread's number, while a signal is sent to it.
const TAKEN: u64 = u64::MAX;

/// The number, unless it is taken.
fn unsent(id: &AtomicU64) -> u64 {
    match id.load(Relaxed) {
        TAKEN => 0,
        number => number,
    }
}

/// Runs it.
///
/// # Errors
///
/// Fails if something was lost, doubled or torn, or the machine does not allow the run.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    println!("per-CPU data: {}", stillpoint::percpu::report());
    let cpus = pin::allowed()?;
    // SAFETY: the handler does what is allowed in one: it adds, and writes records.
    let before = unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t) };
    ensure!(before != libc::SIG_ERR, "no handler for signals can be installed");
    let length = Duration::from_secs_f64(args.common.seconds);
    let shifts = (length.as_millis() / SHIFT.as_millis()).max(1) as usize;
    let progress = Progress::new("torture percpu", shifts, length);
    let mut operations = 0;
    for number in 0..shifts {
        progress.show(|| format!("shift {}/{shifts}", number + 1));
        operations += shift(args, &cpus).with_context(|| format!("in shift {}", number + 1))?;
        progress.advance();
    }
    drop(progress);
    enough("operations", operations, LEAST, args.common.seconds)?;
    let signals = SIGNALS.load(Relaxed);
    Ok(format!("{operations} operations by {} threads in {shifts} shifts, {signals} signals", args.threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_goes_on_where_a_cpu_has_gone_offline() {
        let world = World::new();
        // No machine here has that one.
        let offline = [1023];
        assert!(pin::to(offline[0]).is_err());
        thread::scope(|scope| {
            let worker = scope.spawn(|| world.work(&offline));
            while world.added.load(Relaxed) < 10_000 && !worker.is_finished() {
                thread::yield_now();
            }
            assert!(!worker.is_finished());
            world.stop.store(true, Relaxed);
        });
        world.check().expect("everything adds up");
    }
}
