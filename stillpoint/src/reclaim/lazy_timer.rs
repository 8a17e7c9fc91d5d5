//! Domains of which only lazy callbacks wait: they have no worker until these must run. And domains that can have none,
//! as no thread can be started.
//!
//! A worker that finds nothing but lazy callbacks *parks* its domain: it leaves a task here that resumes at a certain
//! time, and the [state](super::worker_state) `PARKED`. A task of the [worker pool](super::worker_pool), the *timer*,
//! sleeps until the first of these times. It hands the tasks that are due to another one, the *runner*, which runs one
//! after the other. A callback may block a task for as long as it likes: then the timer starts a further runner. So two
//! threads serve any number of domains, plus one for each that blocks.
//!
//! If no thread can be started, the timer becomes the runner, which never sleeps for readers then. The next worker
//! that has no task, or the same one when it has run what was due, is the timer: see the pool.
//!
//! # Invariants
//!
//! 1. One lock orders all decisions. While a domain is parked, the pool has a timer, or wants one: that takes the lock again
//!    before it stops, and it ends only if no domain is parked.
//! 2. A parked domain has one task at most, with the time for which it was parked. Whichever thread takes the task out
//!    of the map runs it or drops it, outside the lock.
//! 3. The lock is not held by a thread that holds the pool's: only the other way round.

use core::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pool_state::Task;
use super::worker_pool;
use crate::sync::ordered::{Key, OrderedMap};
use crate::sync::{ForkSafe, now};

/// Nanoseconds for which a task may block the others that are due.
const PATIENCE: u64 = 10_000_000;

static TIMER: ForkSafe<LazyTimer> = ForkSafe::new(LazyTimer::new());

/// When a domain is due, in nanoseconds of [`now`], and its address. The time is odd for its poller, and else even.
pub type TimerKey = Key;

struct LazyTimer {
    parked: Mutex<Parked>,
    /// The timer sleeps here.
    changed: Condvar,
}

struct Parked {
    tasks: OrderedMap<Task>,
    /// Runners that have not ended.
    runners: u64,
    /// When a runner last took a task, or was last started.
    last_progress: u64,
}

impl LazyTimer {
    const fn new() -> Self {
        let parked = Parked { tasks: OrderedMap::new(), runners: 0, last_progress: 0 };
        Self { parked: Mutex::new(parked), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Parked> {
        // Nothing under the lock panics.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the timer does next, after it has slept if need be.
    fn step(&self) -> ControlFlow<()> {
        let mut parked = self.lock();
        let Some((due, _)) = parked.tasks.first_from((0, 0)) else {
            worker_pool::end_timer();
            return ControlFlow::Break(());
        };
        let now = now();
        let until = if parked.runners == 0 { due } else { due.max(parked.last_progress + PATIENCE) };
        if now < until {
            let time = Duration::from_nanos(until - now);
            drop(self.changed.wait_timeout(parked, time));
            return ControlFlow::Continue(());
        }
        parked.runners += 1;
        parked.last_progress = now;
        drop(parked);
        if worker_pool::submit(run_due) {
            return ControlFlow::Continue(());
        }
        worker_pool::hand_timer_over(run_timer);
        while self.run_one(now) {}
        let mut parked = self.lock();
        parked.runners -= 1;
        // If another runner is blocked, there is no thread for a further one to wait for.
        parked.last_progress = 0;
        ControlFlow::Break(())
    }

    /// Runs a task that is due at the time `now`. Returns `false` if there is none.
    fn run_one(&self, now: u64) -> bool {
        let mut parked = self.lock();
        let first = parked.tasks.first_from((0, 0)).filter(|first| first.0 <= now);
        let Some(task) = first.and_then(|first| parked.tasks.remove(first)) else { return false };
        parked.last_progress = now;
        drop(parked);
        worker_pool::run(task);
        true
    }
}

/// Has `task` called at the time of `key`, but for delays by other tasks. Returns `false` if there is no thread.
#[must_use]
pub fn park(key: TimerKey, task: Task) -> bool {
    let timer = TIMER.get();
    let mut parked = timer.lock();
    if !worker_pool::ensure_timer(run_timer) {
        return false;
    }
    let replaced = parked.tasks.insert(key, task);
    let is_first = parked.tasks.first_from((0, 0)) == Some(key);
    drop(parked);
    drop(replaced);
    if is_first {
        timer.changed.notify_one();
    }
    true
}

/// Drops the task, if it has not been taken to be run.
pub fn unpark(key: TimerKey) {
    let task = TIMER.get().lock().tasks.remove(key);
    drop(task);
}

/// Returns `true` if the task has not been taken to be run, nor been dropped.
pub fn is_parked(key: TimerKey) -> bool {
    TIMER.get().lock().tasks.contains(key)
}

/// Forgets the tasks: those that waited in the parent will not run in the child of a fork.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of another function of this module when
/// it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the timer live no longer than these functions.
    unsafe { TIMER.overwrite(LazyTimer::new()) };
}

/// The timer's task.
fn run_timer() {
    worker_pool::begin_timer();
    while TIMER.get().step().is_continue() {}
}

/// A runner's task.
fn run_due() {
    let timer = TIMER.get();
    while !worker_pool::is_wanted() && timer.run_one(now()) {}
    timer.lock().runners -= 1;
}
