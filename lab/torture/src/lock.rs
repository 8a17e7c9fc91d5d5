//! `torture lock`: threads acquire one lock in all ways at once, under all faults.
//!
//! Checked: no other thread changes what the lock guards while a thread holds it, each wait ends ([`wait_limit`]),
//! and no work under the lock is lost. Now and then all threads stop. Meanwhile threads end and others take their
//! slots, signal handlers try to lock, some threads have a low priority, all free nodes of the lock are taken away
//! now and then, and the process forks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use stillpoint::lock::lab::AllNodes;
use stillpoint::lock::{Mutex, MutexGuard};

use super::common::{Common, Kind, THREADS, check, fail, require, seeded, sleep};
use super::faults::{self, Signals};
use super::guarded::{CHANGED, LOCK, NAME};
use super::intervals::{Watch, interval, repeat};
use super::{canary, lock_rounds};
use harness::units::duration;

/// Time between two checks, signals, forks.
const TICK: Duration = Duration::from_millis(5);
/// Time until all threads stop, so that no later acquisition makes up for a lost wake-up.
const SHORT: Duration = Duration::from_millis(100);
/// The same for the first interval, and one in eight. Longer than [`wait_limit`] with a broken step, as some make
/// waits too long only beside other threads.
const LONG: Duration = Duration::from_millis(2500);
/// Time of [`lock_rounds`] at the beginning; an eighth of it whenever all threads have stopped.
const ROUNDS: Duration = Duration::from_millis(400);
/// Acquisitions per second that a conclusive run needs.
const LEAST: u64 = 100;
/// Acquisitions after which a thread ends.
const MOST: u64 = 2_000;

/// Signal handlers that acquired this lock, and those that found it locked.
static HANDLED: Mutex<u64> = Mutex::new(0);
static FAILED_TRIES: AtomicU64 = AtomicU64::new(0);

/// Runs in signal handlers: these may only try locks.
fn handle() {
    match HANDLED.try_lock() {
        Some(mut handled) => *handled += 1,
        None => _ = FAILED_TRIES.fetch_add(1, Relaxed),
    }
    drop(LOCK.try_lock());
}

/// What the threads share.
#[derive(Debug)]
struct Run {
    start: Instant,
    /// For each slot, the time at which its thread began to wait, in nanoseconds plus 1; 0 if it does not wait.
    waits: Box<[CachePadded<AtomicU64>]>,
    signals: Signals,
    stop: AtomicBool,
}

/// What was done.
#[derive(Debug, Default)]
struct Count {
    taken: u64,
    timed_out: u64,
    threads: u64,
    longest: Duration,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.timed_out += other.timed_out;
        self.threads += other.threads;
        self.longest = self.longest.max(other.longest);
    }
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &Common) -> anyhow::Result<String> {
    faults::handle_signals(handle)?;
    canary::start(faults::set_idle_priority)?;
    let slots = THREADS;
    let run = Run {
        start: Instant::now(),
        waits: (0..slots).map(|_| CachePadded::default()).collect(),
        signals: Signals::new(slots),
        stop: AtomicBool::new(false),
    };
    let begin = LOCK.lock().second;
    let (mut count, mut forks) = (Count::default(), 0);
    repeat(args.seconds, |number| {
        // The first rounds are the longest.
        count.taken += lock_rounds::run(if number == 0 { ROUNDS } else { ROUNDS / 8 })?;
        forks +=
            run.interval(&mut count, if number == 0 || fastrand::u8(..8) == 0 { LONG } else { SHORT })?;
        Ok(())
    })?;
    let seconds = run.start.elapsed().as_secs_f64();
    let done = LOCK.lock().second - begin;
    check(done == count.taken, Kind::Lost, || {
        format!("{} acquisitions, but the work of {done}", count.taken)
    })?;
    let (signals, handled) = (faults::handled(), *HANDLED.lock());
    let failed = FAILED_TRIES.load(Relaxed);
    check(signals == handled + failed, Kind::Lost, || {
        format!("{signals} signals, but the work of {handled} handlers and {failed} failed tries")
    })?;
    require(NAME, "acquisitions", count.taken, LEAST, args.seconds);
    Ok(format!(
        "{} acquisitions by {} threads in {slots} slots, in {:.1} s, {} timed out, the longest wait {}; \
         {handled} handlers, {forks} forks",
        count.taken,
        count.threads,
        seconds,
        count.timed_out,
        duration(count.longest.as_nanos() as f64),
    ))
}

impl Run {
    /// Runs a thread in each slot, one after the other, and disturbs them. Adds what they did. Returns the number of
    /// forks.
    fn interval(&self, count: &mut Count, length: Duration) -> anyhow::Result<u64> {
        let (mut forks, mut nodes, begin) = (0, None, Instant::now());
        let state = || format!("{LOCK:?}");
        let body = |slot| {
            let mut all = Count::default();
            while !self.stop.load(Relaxed) {
                let live = seeded(|| self.live(slot));
                all.add(&thread::scope(|scope| scope.spawn(live).join()).expect("its message is above"));
            }
            all
        };
        let counts =
            interval(&Watch::new(NAME, &state), self.waits.len(), length, &self.stop, body, |ends| {
                if let Some(why) = self.stuck() {
                    fail(NAME, Kind::Hang, &why);
                }
                if ends {
                    return Ok(());
                }
                sleep(TICK);
                CHANGED.notify_one();
                self.signals.send();
                match fastrand::u8(..16) {
                    // For a while, threads without a node of their own poll.
                    0 => nodes = Some(AllNodes::alloc()),
                    1..4 => nodes = None,
                    4 if forks <= 10 * begin.elapsed().as_secs() => {
                        forks += faults::finish(faults::fork(), lock_in_child)?;
                    }
                    _ => {}
                }
                Ok(())
            })?;
        counts.iter().for_each(|its| count.add(its));
        Ok(forks)
    }

    /// Runs a thread. Returns what it did.
    fn live(&self, slot: usize) -> Count {
        // SAFETY: plain calls, for this thread only. That a priority is not available does no harm.
        unsafe {
            if slot % 4 == 1 {
                libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, 19);
            } else if slot % 4 == 2 {
                faults::set_idle_priority();
            }
        }
        let _receiver = self.signals.receiver(slot);
        let mut count = Count { threads: 1, ..Count::default() };
        while count.taken < MOST && !self.stop.load(Relaxed) {
            let began = self.start.elapsed();
            self.waits[slot].store(began.as_nanos() as u64 + 1, Relaxed);
            let taken = acquire();
            self.waits[slot].store(0, Relaxed);
            count.longest = count.longest.max(self.start.elapsed() - began);
            *if taken { &mut count.taken } else { &mut count.timed_out } += 1;
        }
        count
    }

    /// Returns the first thread that has waited for too long, if any.
    fn stuck(&self) -> Option<String> {
        let now = self.start.elapsed();
        self.waits.iter().enumerate().find_map(|(slot, wait)| {
            let since = Duration::from_nanos(wait.load(Relaxed).checked_sub(1)?);
            let lasted = now.saturating_sub(since);
            (lasted > canary::wait_limit())
                .then(|| format!("thread {slot} has waited for {:.1} s: {LOCK:?}", lasted.as_secs_f64()))
        })
    }
}

/// Acquires the lock in some way, and works under it. Returns `false` if it times out.
fn acquire() -> bool {
    let timeout = Duration::from_micros(fastrand::u64(..300));
    let guard = match fastrand::u8(..8) {
        0 => LOCK.try_lock(),
        1 | 2 => LOCK.try_lock_for(timeout),
        3 => LOCK.try_lock_until(Instant::now() + timeout),
        _ => Some(LOCK.lock()),
    };
    let Some(mut guard) = guard else { return false };
    guard.work();
    match fastrand::u8(..32) {
        0..4 => MutexGuard::unlock_fair(guard),
        4 => MutexGuard::bump(&mut guard),
        5 => {
            CHANGED.wait_for(&mut guard, timeout);
        }
        _ => {}
    }
    true
}

/// In the child, the lock works, or is held by a thread that does not exist there.
fn lock_in_child() -> bool {
    for _ in 0..3 {
        if let Some(mut guard) = LOCK.try_lock_for(Duration::from_millis(20)) {
            guard.first += 1;
        }
    }
    true
}
