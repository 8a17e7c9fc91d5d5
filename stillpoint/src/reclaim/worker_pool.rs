//! Worker threads, shared by all domains.
//!
//! A task never waits behind another: one that is submitted gets a thread that has nothing else to do, the idle worker
//! or a new one. So a task may block for as long as it likes. A worker that has finished its task becomes the idle one,
//! or ends if there is one already: an idle process keeps one thread, which sleeps until there is a task for it.
//!
//! # When no thread can be started
//!
//! A worker sleeps until readers have left only while there is a *spare*: the idle worker, or the
//! [timer](super::lazy_timer), which never sleeps for readers. Otherwise it parks its domain. The timer then has the
//! grace period tried again and again, for this domain and all others that have no worker. So stalled readers of one
//! domain, or of as many as there are threads, do not stop the others.
//!
//! If no worker is idle, the timer itself resumes the domains, in turn: until it has, the timer is *wanted*
//! ([`super::pool_state`]), and so is every worker that could be it.
//!
//! After a failed start, no thread is started for [`RETRY_INTERVAL`]: an attempt takes as long as hundreds of pushes.
//! Later calls of the library try again: a push that finds no worker, a poll, and a thread in
//! `GracePeriod::wait_timeout`, from time to time ([`retry`]). Nothing else does. So when code of the program blocks
//! all workers that do not sleep for readers, what is parked waits for that code, or for such a call.
//!
//! # Fork
//!
//! Workers own nothing of the pool while they run a task. So [`reset_in_child`] only has to store a new one.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::pool_state::{PoolState, Task};
use crate::sync::{ForkSafe, now};
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, with_all_blocked};

/// Nanoseconds after a failed start of a thread before the next attempt.
const RETRY_INTERVAL: u64 = 4_000_000;

static POOL: ForkSafe<PoolState> = ForkSafe::new(PoolState::new());

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Runs the task in a worker. Returns `false` if it will not run, as no worker is idle and none can be started.
///
/// Takes a lock for a moment, and may start a thread. The task should not panic: a worker survives that, but can only
/// report it.
#[must_use]
pub fn submit(task: impl FnOnce() + Send + 'static) -> bool {
    try_submit(Box::new(task)).is_ok()
}

/// [`submit`], which returns the task if it will not run.
pub fn try_submit(task: Task) -> Result<(), Task> {
    POOL.get().assign(task).or_else(start_worker)
}

/// Makes sure that there is a timer, whose task is `task`. Returns `false` if there is no worker.
#[must_use]
pub fn ensure_timer(task: fn()) -> bool {
    POOL.get().ensure_timer(task, try_submit)
}

/// The calling thread, which runs the timer's task, is the timer.
pub fn begin_timer() {
    POOL.get().begin_timer();
}

/// The calling thread is the timer no more: there is none.
pub fn end_timer() {
    POOL.get().end_timer();
}

/// The calling thread is the timer no more. The idle worker is, or the next one that looks.
pub fn hand_timer_over(task: fn()) {
    POOL.get().want_timer(Box::new(task));
}

/// Tries to start a thread for the timer, if none could be started for it. Returns `true` if it is still wanted.
pub fn retry() -> bool {
    let pool = POOL.get();
    may_want_timer() && if pool.must_wait() { pool.is_timer_wanted() } else { pool.retry_timer(try_submit) }
}

/// Returns `true` if a thread could not be started, and the timer may be wanted. Takes one load.
pub fn may_want_timer() -> bool {
    // Relaxed: as in `start_worker`.
    POOL.get().retry_at.load(Relaxed) != 0
}

/// Returns `true` if the calling thread is one of the pool.
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Returns `true` if the calling thread may sleep for readers: it is none of the pool, or there is a spare.
pub fn may_sleep() -> bool {
    !IS_WORKER.get() || POOL.get().has_spare()
}

/// Returns `true` if the calling thread must give up what it does: it is a worker, and is to be the timer.
pub fn is_wanted() -> bool {
    IS_WORKER.get() && POOL.get().is_timer_wanted()
}

/// Starts a spare. Returns `false` if this worker must not sleep for readers.
pub fn start_spare() -> bool {
    POOL.get().start_spare(|| start_worker(Box::new(|| ())).is_ok())
}

/// Returns `true` if there is no worker, and it is not time to try to start one.
pub fn is_stranded() -> bool {
    let pool = POOL.get();
    pool.must_wait() && pool.is_empty()
}

/// Forgets the workers: the child of a fork has none. Tasks that the parent's workers run, or were about to, will not
/// run in the child unless they are submitted again.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of [`submit`] when it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the pool live only inside functions of this module that run no task.
    unsafe { POOL.overwrite(PoolState::new()) };
}

/// Returns the task if no worker can be started.
fn start_worker(first: Task) -> Result<(), Task> {
    // The worker sleeps in this code for as long as the process lives.
    if POOL.get().must_wait() || !is_pinned() {
        return Err(first);
    }
    // A thread's argument is one word.
    let first = Box::into_raw(Box::new(first));
    let pool = POOL.get();
    pool.starts();
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    if with_all_blocked(|| thread::spawn(c"stillpoint-rcu", work, first.cast())) {
        return Ok(());
    }
    // Relaxed: a hint.
    pool.retry_at.store(now() + RETRY_INTERVAL, Relaxed);
    pool.start_failed();
    // SAFETY: comes from a box, and no thread has it.
    Err(*unsafe { Box::from_raw(first) })
}

/// The main function of a worker.
extern "C" fn work(first: *mut c_void) -> *mut c_void {
    POOL.get().begin();
    IS_WORKER.set(true);
    take_nice_of_main();
    // SAFETY: `start_worker` made the pointer of a box, for this thread.
    let first = unsafe { Box::from_raw(first.cast::<Task>()) };
    run(*first);
    while let Some(task) = POOL.get().next() {
        run(task);
    }
    ptr::null_mut()
}

/// Runs the task. A panic is reported.
pub fn run(task: Task) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(task)) {
        // Its destructor could panic too.
        mem::forget(payload);
        // Not `eprintln!`, which panics if it cannot write.
        let _ =
            writeln!(std::io::stderr(), "stillpoint: a task of the library panicked; its worker continues");
    }
}

// These look at `/proc`.
#[cfg(all(test, target_os = "linux"))]
mod tests;
