//! Worker threads, shared by all domains: what starts them, and what each is.
//!
//! A worker that has finished its task becomes the idle one, or ends if there is one already: an idle process keeps one
//! thread, which sleeps until there is a task for it. What domains have them do is in [`super::timer`].
//!
//! # When no thread can be started
//!
//! A worker sleeps until readers have left only while there is a *spare*: the idle worker, or the timer, which never
//! sleeps for readers. Otherwise it parks its domain. The timer then has the grace period tried again and again, for
//! this domain and all others that have no worker. So stalled readers of one domain, or of as many as there are
//! threads, do not stop the others.
//!
//! If no worker is idle, the timer itself resumes the domains, in turn: until it has, the timer is *wanted*
//! ([`super::state`]), and so is every worker that could be it.
//!
//! After a failed start, no thread is started for [`RETRY_INTERVAL`]: an attempt takes as long as hundreds of pushes.
//! Later calls of the library try again: a push that finds no worker, a poll, and a thread in
//! `GracePeriod::wait_timeout`, from time to time ([`retry`]). Nothing else does. So when code of the program blocks
//! all workers that do not sleep for readers, what is parked waits for that code, or for such a call.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::state::{PoolState, Task};
use crate::sync::{ForkSafe, complain, now, try_box};
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, block_signals};

/// Nanoseconds after a failed start of a thread before the next attempt.
const RETRY_INTERVAL: u64 = 4_000_000;
pub(super) static POOL: ForkSafe<PoolState> = ForkSafe::new(PoolState::new());
/// See [`start_no_threads`].
static STARTS_NONE: AtomicBool = AtomicBool::new(false);

/// What the calling thread is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// A thread of the program.
    None,
    Worker,
    Runner,
    /// A runner that runs code of the program.
    InCode,
}

thread_local! {
    pub(super) static ROLE: Cell<Role> = const { Cell::new(Role::None) };
}

/// From now on, no thread is started, here and in children of forks.
pub fn start_no_threads() {
    // Relaxed: it orders nothing.
    STARTS_NONE.store(true, Relaxed);
}

/// Returns `true` after [`start_no_threads`].
pub fn starts_none() -> bool {
    // Relaxed: as above.
    STARTS_NONE.load(Relaxed)
}

/// Runs the task in a worker. Returns it if no worker is idle and none can be started, or there is no memory.
pub(super) fn try_submit(task: Task) -> Result<(), Task> {
    POOL.get().assign(task).or_else(start_worker)
}

/// Returns `true` if a thread could not be started, and the timer may be wanted. Takes one load.
pub fn may_want_timer() -> bool {
    // Relaxed: as in `start_worker`.
    POOL.get().retry_at.load(Relaxed) != 0
}

/// Returns `true` if a thread could not be started a moment ago.
pub fn must_wait() -> bool {
    POOL.get().must_wait()
}

/// Returns `true` if the calling thread is one of the pool.
pub fn is_worker() -> bool {
    ROLE.get() != Role::None
}

/// Returns `true` if other tasks wait for the calling thread.
pub fn is_runner() -> bool {
    ROLE.get() == Role::Runner
}

/// Returns `true` if the calling thread may sleep for readers: it is none of the pool, or there is a spare, and no
/// other task waits for this thread.
pub fn may_sleep() -> bool {
    !is_worker() || !is_runner() && POOL.get().has_spare()
}

/// Returns `true` if the calling thread must give up what it does: it is a worker, and is to be the timer.
pub fn is_wanted() -> bool {
    is_worker() && POOL.get().is_timer_wanted()
}

/// Starts a spare. Returns `false` if this worker must not sleep for readers.
pub fn start_spare() -> bool {
    POOL.get().start_spare(|| start_worker(Box::new(|| ())).is_ok())
}

/// Returns `true` if there is no worker, and it is not time to try to start one.
pub fn is_stranded() -> bool {
    (starts_none() || must_wait()) && POOL.get().is_empty()
}

/// Returns the task if no worker can be started.
fn start_worker(first: Task) -> Result<(), Task> {
    // The worker sleeps in this code for as long as the process lives.
    if starts_none() || must_wait() || !is_pinned() {
        return Err(first);
    }
    // A thread's argument is one word.
    let first = Box::into_raw(try_box(first)?);
    let pool = POOL.get();
    pool.starts();
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    let blocked = block_signals();
    let is_started = thread::spawn(c"stillpoint-rcu", work, first.cast());
    drop(blocked);
    if is_started {
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
    ROLE.set(Role::Worker);
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
        complain(format_args!("a task of the library panicked; its worker continues"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use support::deadline::deadline;
    use support::until::until;

    #[test]
    fn idle_worker_runs_the_next_task_after_a_panic() {
        // Of this test alone: the workers of other tests would take the tasks.
        static OWN: PoolState = PoolState::new();
        static THREADS: Mutex<Vec<std::thread::ThreadId>> = Mutex::new(Vec::new());
        fn task() -> Task {
            Box::new(|| {
                THREADS.lock().expect("no panic under this lock").push(std::thread::current().id());
                panic!("on purpose");
            })
        }
        let _running = deadline();
        let worker = std::thread::spawn(|| {
            while let Some(task) = OWN.next() {
                run(task);
            }
        });
        for _ in 0..10 {
            until(|| OWN.assign(task()).is_ok());
        }
        until(|| THREADS.lock().expect("no panic under this lock").len() == 10);
        assert_eq!(*THREADS.lock().expect("no panic under this lock"), [worker.thread().id(); 10]);
    }
}
