//! `torture lock`: threads that take one lock in all ways at once, under all that may come between.
//!
//! Checked: nobody else changes what the lock guards while a thread holds it, each wait ends ([`patience`]), and all that was done
//! under the lock is there in the end. Meanwhile threads end and others take their places, handlers of signals try to lock, some
//! threads have a low priority, some hardly a third of a CPU together, all free nodes are taken away now and then, and the process
//! forks.

use std::mem;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use crossbeam_utils::CachePadded;
use stillpoint::lock::lab::AllNodes;
use stillpoint::lock::{Condvar, Mutex, MutexGuard};

use super::quota::Quota;
use super::{Common, enough, fail, patience};
use crate::harness::crew;
use crate::harness::progress::Progress;
use crate::harness::units::duration;

pub(super) const NAME: &str = "lock";

/// How long to run, and how many take part.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Threads.
    #[arg(long, value_name = "N", default_value = "16")]
    threads: NonZeroUsize,
}

/// Time between two looks at the threads, signals, forks.
const BEAT: Duration = Duration::from_millis(5);
/// Acquisitions of a second without which a run says nothing.
const LEAST: u64 = 100;
/// Acquisitions after which a thread ends.
const LIFE: u64 = 2_000;

/// What the lock guards: the halves agree whenever nobody is at work.
#[derive(Debug, Default)]
struct Guarded {
    first: u64,
    second: u64,
}

static LOCK: Mutex<Guarded> = Mutex::new(Guarded { first: 0, second: 0 });
static CHANGED: Condvar = Condvar::new();
/// Signal handlers that took this lock and counted under it; all that ran; those that found it taken.
static HANDLED: Mutex<u64> = Mutex::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static FAILED_TRIES: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    match HANDLED.try_lock() {
        Some(mut handled) => *handled += 1,
        None => _ = FAILED_TRIES.fetch_add(1, Ordering::Relaxed),
    }
    drop(LOCK.try_lock());
}

impl Guarded {
    /// Work under the lock; fails if somebody else is at work.
    fn work(&mut self) -> anyhow::Result<()> {
        self.first += 1;
        for _ in 0..fastrand::u32(..200) {
            std::hint::spin_loop();
        }
        if fastrand::u8(..) == 0 {
            thread::yield_now();
        }
        self.second += 1;
        ensure!(self.first == self.second, "two threads held the lock");
        Ok(())
    }
}

/// What the threads share.
#[derive(Debug)]
struct Run {
    start: Instant,
    /// Since when each waits, in nanoseconds; 0 if it does not.
    waits: Box<[CachePadded<AtomicU64>]>,
    /// The thread in each place, to send signals to.
    tids: Box<[CachePadded<AtomicU64>]>,
    stop: AtomicBool,
    /// For a quarter of the threads, if there is one.
    quota: Option<Quota>,
}

/// What was done.
#[derive(Debug, Default)]
struct Count {
    taken: u64,
    timed_out: u64,
    lives: u64,
    longest: Duration,
}

/// Runs the torture; what passed.
///
/// # Errors
///
/// Fails if a check does, or the machine does not allow the threads. A wait that does not end ends the process.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    // SAFETY: the handler only tries locks, as is promised to work.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        ensure!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) == 0, "no handler");
    }
    let places = args.threads.get();
    let (quota, restricted) = match Quota::new() {
        Ok(quota) => (Some(quota), format!("{} of them with a CPU quota", places / 4)),
        Err(why) => {
            eprintln!("NOT CHECKED: threads with a CPU quota. {why:#}");
            (None, "NONE WITH A CPU QUOTA, which cannot be had here".to_owned())
        }
    };
    let run = Run {
        start: Instant::now(),
        waits: (0..places).map(|_| CachePadded::default()).collect(),
        tids: (0..places).map(|_| CachePadded::default()).collect(),
        stop: AtomicBool::new(false),
        quota,
    };
    let begin = LOCK.lock().second;
    let (count, forks) = thread::scope(|scope| {
        let count = run.watch(scope, args.common.seconds);
        run.stop.store(true, Ordering::Relaxed);
        CHANGED.notify_all();
        count
    })?;
    let done = LOCK.lock().second - begin;
    ensure!(done == count.taken, "{} acquisitions, but the work of {done}", count.taken);
    let (sent, handled) = (SIGNALS.load(Ordering::Relaxed), *HANDLED.lock());
    let failed = FAILED_TRIES.load(Ordering::Relaxed);
    ensure!(
        sent == handled + failed,
        "{sent} signals, but the work of {handled} handlers and {failed} failed tries"
    );
    enough("acquisitions", count.taken, LEAST, args.common.seconds)?;
    Ok(format!(
        "{} acquisitions in {} lives of {places} threads, {restricted}, in {:.1} s, {} timed out, the longest wait {}; {handled} handlers, \
         {forks} forks",
        count.taken,
        count.lives,
        run.start.elapsed().as_secs_f64(),
        count.timed_out,
        duration(count.longest.as_nanos() as f64),
    ))
}

impl Run {
    /// Has all threads at work for some `seconds`, and disturbs them. What they did, and the number of forks.
    fn watch<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        seconds: f64,
    ) -> anyhow::Result<(Count, u64)> {
        let total = Duration::from_secs_f64(seconds);
        let mut threads = Vec::new();
        let start = |place| {
            let seed = fastrand::u64(..);
            crew::spawn(scope, move || {
                fastrand::seed(seed);
                self.live(place)
            })
        };
        for place in 0..self.waits.len() {
            threads.push(start(place)?);
        }
        let progress = Progress::new("torture lock", total.as_secs_f64().ceil() as usize, total);
        let mut shown = 0;
        let (mut count, mut forks, mut nodes) = (Count::default(), 0, None);
        while self.start.elapsed() < total || !threads.is_empty() {
            super::sleep(BEAT);
            if let Some(why) = self.overdue() {
                fail(NAME, &why);
            }
            let ends = self.start.elapsed() >= total;
            progress.show(|| format!("{} acquisitions, {forks} forks", count.taken));
            while shown < self.start.elapsed().min(total).as_secs() {
                shown += 1;
                progress.advance();
            }
            self.stop.store(ends, Ordering::Relaxed);
            CHANGED.notify_one();
            self.send_signal();
            // For a while, threads without a node of their own wait unqueued.
            match fastrand::u8(..16) {
                0 => nodes = Some(AllNodes::alloc()),
                1..4 => nodes = None,
                4 if forks < 10 * self.start.elapsed().as_secs() => {
                    fork()?;
                    forks += 1;
                }
                _ => {}
            }
            let mut place = 0;
            while place < threads.len() {
                if !threads[place].is_finished() {
                    place += 1;
                    continue;
                }
                let (its_place, its) = crew::join(threads.swap_remove(place))??;
                count.taken += its.taken;
                count.timed_out += its.timed_out;
                count.lives += 1;
                count.longest = count.longest.max(its.longest);
                if !ends {
                    threads.push(start(its_place)?);
                }
            }
        }
        drop(nodes);
        Ok((count, forks))
    }

    /// A thread's life; its place and what it did.
    fn live(&self, place: usize) -> anyhow::Result<(usize, Count)> {
        // SAFETY: plain calls, for this thread only. That a priority cannot be had does no harm.
        unsafe {
            self.tids[place].store(libc::gettid() as u64, Ordering::Relaxed);
            if place % 4 == 1 {
                libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, 19);
            } else if place % 4 == 2 {
                // Of priority 0. Some C libraries have more fields.
                let parameter: libc::sched_param = mem::zeroed();
                libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter);
            }
        }
        let mut count = Count::default();
        let outcome = (|| {
            if let (3, Some(quota)) = (place % 4, &self.quota) {
                quota.join()?;
            }
            while count.taken < LIFE && !self.stop.load(Ordering::Relaxed) {
                let began = self.start.elapsed();
                self.waits[place].store(began.as_nanos() as u64 + 1, Ordering::Relaxed);
                let taken = take()?;
                self.waits[place].store(0, Ordering::Relaxed);
                count.longest = count.longest.max(self.start.elapsed() - began);
                if taken {
                    count.taken += 1;
                } else {
                    count.timed_out += 1;
                }
            }
            Ok(())
        })();
        self.tids[place].store(0, Ordering::Relaxed);
        if outcome.is_err() {
            self.waits[place].store(0, Ordering::Relaxed);
            self.stop.store(true, Ordering::Relaxed);
        }
        outcome.map(|()| (place, count))
    }

    /// Sends a signal to somebody. Who has just ended gets none, or it is lost.
    fn send_signal(&self) {
        let tid = self.tids[fastrand::usize(..self.tids.len())].load(Ordering::Relaxed);
        if tid != 0 {
            // SAFETY: a plain call; the process handles the signal.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
        }
    }

    /// Who has waited for too long, if somebody has.
    fn overdue(&self) -> Option<String> {
        let now = self.start.elapsed();
        self.waits.iter().enumerate().find_map(|(place, wait)| {
            let since = Duration::from_nanos(wait.load(Ordering::Relaxed).checked_sub(1)?);
            let lasted = now.saturating_sub(since);
            (lasted > patience())
                .then(|| format!("thread {place} has waited for {:.1} s: {LOCK:?}", lasted.as_secs_f64()))
        })
    }
}

/// Takes the lock in some way, and works under it. Whether it could be had.
fn take() -> anyhow::Result<bool> {
    let timeout = Duration::from_micros(fastrand::u64(..300));
    let guard = match fastrand::u8(..8) {
        0 => LOCK.try_lock(),
        1 | 2 => LOCK.try_lock_for(timeout),
        3 => LOCK.try_lock_until(Instant::now() + timeout),
        _ => Some(LOCK.lock()),
    };
    let Some(mut guard) = guard else { return Ok(false) };
    guard.work()?;
    match fastrand::u8(..32) {
        0..4 => MutexGuard::unlock_fair(guard),
        4 => MutexGuard::bump(&mut guard),
        5 => {
            CHANGED.wait_for(&mut guard, timeout);
        }
        _ => {}
    }
    Ok(true)
}

/// In a child, the lock is held by somebody who is not there, or works.
fn fork() -> anyhow::Result<()> {
    // SAFETY: the child locks, and ends without running anything else.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("cannot fork"),
        0 => {
            for _ in 0..3 {
                if let Some(mut guard) = LOCK.try_lock_for(Duration::from_millis(20)) {
                    guard.first += 1;
                }
            }
            // SAFETY: a plain call.
            unsafe { libc::_exit(0) }
        }
        child => {
            let begin = Instant::now();
            let mut status = -1;
            // SAFETY: `status` outlives the call.
            while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
                if begin.elapsed() > patience() {
                    fail(NAME, "the child of a fork hangs");
                }
                super::sleep(BEAT);
            }
            ensure!(status == 0, "the child of a fork ended with status {status}");
            Ok(())
        }
    }
}
