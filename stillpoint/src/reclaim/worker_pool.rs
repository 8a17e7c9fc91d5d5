//! Worker threads, shared by all domains.
//!
//! A task never waits behind another: one that is submitted gets a thread that has nothing else to do, the idle worker
//! or a new one. So a task may block for as long as it likes. A worker that has finished its task becomes the idle one,
//! or ends if there is one already: an idle process keeps one thread, which sleeps until there is a task for it.
//!
//! # States
//!
//! | [`IdleWorker`] | meaning |
//! |---|---|
//! | `None` | no worker is idle |
//! | `Parked` | one worker is idle |
//! | `Assigned` | one worker is idle, and a task waits for it; the first worker that looks takes the task |
//!
//! `Parked` and `Assigned` stand for exactly one thread inside [`WorkerPool::park`].
//!
//! # Fork
//!
//! Workers are not counted and own nothing of the pool while they run a task. So [`reset_in_child`] only has to store
//! that no worker is idle.

use core::ffi::c_void;
use core::{mem, ptr};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::sync::ForkSafe;
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, with_all_blocked};

static POOL: ForkSafe<WorkerPool> = ForkSafe::new(WorkerPool::new());

/// What a worker does.
pub type Task = Box<dyn FnOnce() + Send>;

/// Runs the task in a worker. Returns `false` if it will not run, as no worker is idle and none can be started.
///
/// Takes a lock for a moment, and may start a thread. The task should not panic: a worker survives that, but can only
/// report it.
#[must_use]
pub fn submit(task: impl FnOnce() + Send + 'static) -> bool {
    match POOL.get().assign(Box::new(task)) {
        Ok(()) => true,
        Err(task) => start_worker(task),
    }
}

/// Returns `true` if a worker has nothing to do.
#[cfg(feature = "statistics-page")]
pub fn has_idle() -> bool {
    matches!(*POOL.get().lock(), IdleWorker::Parked)
}

/// Forgets the workers: the child of a fork has none. Tasks that the parent's workers run, or were about to, will not
/// run in the child unless they are submitted again.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of [`submit`] when it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the pool live only inside `submit` and `WorkerPool::next`.
    unsafe { POOL.overwrite(WorkerPool::new()) };
}

fn start_worker(first: Task) -> bool {
    // The worker sleeps in this code for as long as the process lives.
    if !is_pinned() {
        return false;
    }
    // A thread's argument is one word.
    let first = Box::into_raw(Box::new(first));
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    let started = with_all_blocked(|| thread::spawn(c"stillpoint-rcu", work, first.cast()));
    if !started {
        // SAFETY: comes from a box, and no thread has it.
        drop(unsafe { Box::from_raw(first) });
    }
    started
}

/// The main function of a worker.
extern "C" fn work(first: *mut c_void) -> *mut c_void {
    take_nice_of_main();
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

/// See the [module](self).
struct WorkerPool {
    idle: Mutex<IdleWorker>,
    /// The idle worker sleeps here.
    assigned: Condvar,
}

enum IdleWorker {
    None,
    Parked,
    Assigned(Task),
}

impl WorkerPool {
    const fn new() -> Self {
        Self { idle: Mutex::new(IdleWorker::None), assigned: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, IdleWorker> {
        // Nothing under the lock panics.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns the task to the idle worker. Returns it if no worker is idle, or the idle one has a task already.
    fn assign(&self, task: Task) -> Result<(), Task> {
        let mut idle = self.lock();
        if !matches!(*idle, IdleWorker::Parked) {
            return Err(task);
        }
        *idle = IdleWorker::Assigned(task);
        drop(idle);
        self.assigned.notify_one();
        Ok(())
    }

    /// Blocks until there is a next task for the calling worker. Returns `None` if the worker is to end.
    fn next(&self) -> Option<Task> {
        let mut idle = self.lock();
        match mem::replace(&mut *idle, IdleWorker::Parked) {
            IdleWorker::None => Some(self.park(idle)),
            IdleWorker::Parked => None,
            // This worker is awake already; the other may sleep on.
            IdleWorker::Assigned(task) => Some(task),
        }
    }

    /// The idle worker sleeps until it is assigned a task.
    fn park(&self, mut idle: MutexGuard<'_, IdleWorker>) -> Task {
        loop {
            match mem::replace(&mut *idle, IdleWorker::None) {
                IdleWorker::Assigned(task) => return task,
                _ => *idle = IdleWorker::Parked,
            }
            idle = self.assigned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// These look at `/proc`.
#[cfg(all(test, target_os = "linux"))]
mod tests;
