//! Worker threads, shared by all domains.
//!
//! A task never waits behind another: one that is submitted gets a thread that has nothing else to do, the idle worker
//! or a new one. So a task may block for as long as it likes. A worker that has finished its task becomes the idle one,
//! or ends if there is one already: an idle process keeps one thread, which sleeps until there is a task for it.
//!
//! # When no thread can be started
//!
//! A worker sleeps until readers have left only while there is a *spare*: the idle worker, or the
//! [timer](super::lazy_timer), which never sleeps for readers. Otherwise it parks its domain. The timer then tries the
//! grace period again and again, for this domain and all others that have no worker. So stalled readers of one domain,
//! or of as many as there are threads, do not stop the others.
//!
//! A callback may block a worker, and the timer if no other thread can be started.
//!
//! After a failed start, no thread is started for [`RETRY_INTERVAL`]: an attempt takes as long as hundreds of pushes.
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

use super::pool_state::{PoolState, Role, Task};
use crate::sync::{ForkSafe, now};
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, with_all_blocked};

/// Nanoseconds after a failed start of a thread before the next attempt.
const RETRY_INTERVAL: u64 = 4_000_000;

static POOL: ForkSafe<PoolState> = ForkSafe::new(PoolState::new());

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Outside) };
}

/// Runs the task in a worker. Returns `false` if it will not run, as no worker is idle and none can be started.
///
/// Takes a lock for a moment, and may start a thread. The task should not panic: a worker survives that, but can only
/// report it.
#[must_use]
pub fn submit(task: impl FnOnce() + Send + 'static) -> bool {
    try_submit(Box::new(task)).is_ok()
}

/// [`submit`], or runs the task in the calling thread.
pub fn submit_or_run(task: impl FnOnce() + Send + 'static) {
    if let Err(task) = try_submit(Box::new(task)) {
        run(task);
    }
}

fn try_submit(task: Task) -> Result<(), Task> {
    POOL.get().assign(task).or_else(start_worker)
}

/// [`submit`], or has the first worker that finishes its task run this one. Returns `false` if there is no worker.
#[must_use]
pub fn submit_or_queue(task: fn()) -> bool {
    submit(task) || POOL.get().queue(Box::new(task))
}

/// Calls `f`, as the timer.
pub fn as_timer(f: impl FnOnce()) {
    let before = ROLE.replace(Role::Timer);
    POOL.get().as_timer(f);
    ROLE.set(before);
}

/// Returns `true` for the timer.
pub fn is_timer() -> bool {
    ROLE.get() == Role::Timer
}

/// Returns `true` if the calling thread may sleep for readers: it is none of the pool, or there is a spare.
pub fn has_spare() -> bool {
    POOL.get().has_spare(ROLE.get())
}

/// Returns `true` if this worker must give its thread up: it is the timer, or a task waits for a thread and none could be
/// started.
pub fn is_wanted() -> bool {
    is_timer() || !POOL.get().lock().queued.is_empty()
}

/// Starts a spare. Returns `false` if this worker must not sleep for readers.
pub fn start_spare() -> bool {
    POOL.get().start_spare(|| start_worker(Box::new(|| ())).is_ok())
}

/// Returns `true` if there is no worker, and it is not time to try to start one.
pub fn is_stranded() -> bool {
    let pool = POOL.get();
    pool.must_wait() && pool.lock().count == 0
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
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    if with_all_blocked(|| thread::spawn(c"stillpoint-rcu", work, first.cast())) {
        return Ok(());
    }
    // Relaxed: a hint.
    POOL.get().retry_at.store(now() + RETRY_INTERVAL, Relaxed);
    // SAFETY: comes from a box, and no thread has it.
    Err(*unsafe { Box::from_raw(first) })
}

/// The main function of a worker.
extern "C" fn work(first: *mut c_void) -> *mut c_void {
    take_nice_of_main();
    ROLE.set(Role::Worker);
    POOL.get().lock().count += 1;
    // SAFETY: `start_worker` made the pointer of a box, for this thread.
    let first = unsafe { Box::from_raw(first.cast::<Task>()) };
    run(*first);
    while let Some(task) = POOL.get().next() {
        run(task);
    }
    ptr::null_mut()
}

fn run(task: Task) {
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
