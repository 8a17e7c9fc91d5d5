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
//! | `Coming` | no worker is idle; one that has been started will be |
//! | `Parked` | one worker is idle |
//! | `Assigned` | one worker is idle, and a task waits for it; the first worker that looks takes the task |
//!
//! `Parked` and `Assigned` stand for exactly one thread inside [`WorkerPool::park`].
//!
//! # When no thread can be started
//!
//! A worker sleeps until readers have left only while there is a *spare*: the idle worker, or the
//! [timer](super::lazy_timer), which never sleeps for readers. Otherwise it parks its domain. The timer then tries the
//! grace period again and again, for this domain and all others that have no worker. So stalled readers of one domain,
//! or of as many as there are threads, do not stop the others.
//!
//! *At any time some worker does not sleep for readers.* Of two spares, one may stop being one and then need the other;
//! the last one looks for a spare after it has stopped being one, finds none, and does not sleep. (A callback may block a
//! worker, and the timer if no other thread can be started.)
//!
//! After a failed start, no thread is started for [`RETRY_INTERVAL`]: an attempt takes as long as hundreds of pushes.
//!
//! # Fork
//!
//! Workers own nothing of the pool while they run a task. So [`reset_in_child`] only has to store a new one.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::{mem, ptr};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::sync::{ForkSafe, now};
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, with_all_blocked};

/// Nanoseconds after a failed start of a thread before the next attempt.
const RETRY_INTERVAL: u64 = 4_000_000;

static POOL: ForkSafe<WorkerPool> = ForkSafe::new(WorkerPool::new());

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Outside) };
}

/// What the calling thread is to the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Outside,
    Worker,
    Timer,
}

/// What a worker does.
pub type Task = Box<dyn FnOnce() + Send>;

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
    // Relaxed, both: see `has_spare`. Counted, as the next timer may begin before this one has stopped.
    POOL.get().timers.fetch_add(1, Relaxed);
    f();
    POOL.get().timers.fetch_sub(1, Relaxed);
    ROLE.set(before);
}

/// Returns `true` for the timer.
pub fn is_timer() -> bool {
    ROLE.get() == Role::Timer
}

/// Returns `true` if the calling thread may sleep for readers: it is none of the pool, or there is a spare.
pub fn has_spare() -> bool {
    let pool = POOL.get();
    match ROLE.get() {
        Role::Outside => true,
        // Relaxed, after the lock: a timer that has stopped before another task of its thread was assigned under the lock
        // is not seen.
        Role::Worker => pool.lock().has_spare() || pool.timers.load(Relaxed) != 0,
        Role::Timer => false,
    }
}

/// Returns `true` if this worker must give its thread up: it is the timer, or a task waits for a thread and none could be
/// started.
pub fn is_wanted() -> bool {
    is_timer() || !POOL.get().lock().queued.is_empty()
}

/// Starts a spare. Returns `false` if this worker must not sleep for readers.
pub fn start_spare() -> bool {
    let pool = POOL.get();
    let mut workers = pool.lock();
    match workers.idle {
        IdleWorker::None => workers.idle = IdleWorker::Coming,
        // It is about to be busy.
        IdleWorker::Assigned(_) => {}
        IdleWorker::Coming | IdleWorker::Parked => return true,
    }
    drop(workers);
    let started = start_worker(Box::new(|| ())).is_ok();
    if !started {
        let mut workers = pool.lock();
        if matches!(workers.idle, IdleWorker::Coming) {
            workers.idle = IdleWorker::None;
        }
    }
    started
}

/// Returns `true` if there is no worker, and it is not time to try to start one.
pub fn is_stranded() -> bool {
    let pool = POOL.get();
    pool.must_wait() && pool.lock().count == 0
}

/// Returns `true` if a worker has nothing to do.
#[cfg(feature = "statistics-page")]
pub fn has_idle() -> bool {
    matches!(POOL.get().lock().idle, IdleWorker::Parked)
}

/// Forgets the workers: the child of a fork has none. Tasks that the parent's workers run, or were about to, will not
/// run in the child unless they are submitted again.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of [`submit`] when it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the pool live only inside functions of this module that run no task.
    unsafe { POOL.overwrite(WorkerPool::new()) };
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

/// See the [module](self).
struct WorkerPool {
    workers: Mutex<Workers>,
    /// The idle worker sleeps here.
    assigned: Condvar,
    /// When threads may be started again: nanoseconds of [`now`], or 0.
    retry_at: AtomicU64,
    timers: AtomicU64,
}

struct Workers {
    idle: IdleWorker,
    /// Workers that have begun and not ended.
    count: u64,
    /// For the next worker without a task.
    queued: Vec<Task>,
}

enum IdleWorker {
    None,
    Coming,
    Parked,
    Assigned(Task),
}

impl Workers {
    fn has_spare(&self) -> bool {
        matches!(self.idle, IdleWorker::Coming | IdleWorker::Parked)
    }

    /// Assigns the task to the idle worker, which the caller then wakes. Returns it if no worker is idle, or the idle one
    /// has a task already.
    fn assign(&mut self, task: Task) -> Result<(), Task> {
        if !matches!(self.idle, IdleWorker::Parked) {
            return Err(task);
        }
        self.idle = IdleWorker::Assigned(task);
        Ok(())
    }
}

impl WorkerPool {
    const fn new() -> Self {
        Self {
            workers: Mutex::new(Workers { idle: IdleWorker::None, count: 0, queued: Vec::new() }),
            assigned: Condvar::new(),
            retry_at: AtomicU64::new(0),
            timers: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        // Nothing under the lock panics.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a thread could not be started a moment ago.
    fn must_wait(&self) -> bool {
        // Relaxed: a hint.
        let retry_at = self.retry_at.load(Relaxed);
        retry_at != 0 && now() < retry_at
    }

    fn assign(&self, task: Task) -> Result<(), Task> {
        self.lock().assign(task).inspect(|()| self.assigned.notify_one())
    }

    /// [`assign`](Self::assign), or has a busy worker run the task when it has finished its own. Returns `false` if there
    /// is none.
    fn queue(&self, task: Task) -> bool {
        let mut workers = self.lock();
        let Err(task) = workers.assign(task) else {
            self.assigned.notify_one();
            return true;
        };
        if workers.count != 0 {
            workers.queued.push(task);
        }
        workers.count != 0
    }

    /// Blocks until there is a next task for the calling worker. Returns `None` if the worker is to end.
    fn next(&self) -> Option<Task> {
        let mut workers = self.lock();
        if let Some(task) = workers.queued.pop() {
            return Some(task);
        }
        match mem::replace(&mut workers.idle, IdleWorker::Parked) {
            IdleWorker::None | IdleWorker::Coming => Some(self.park(workers)),
            IdleWorker::Parked => {
                workers.count = workers.count.saturating_sub(1);
                None
            }
            // This worker is awake already; the other may sleep on.
            IdleWorker::Assigned(task) => Some(task),
        }
    }

    /// The idle worker sleeps until it is assigned a task.
    fn park(&self, mut workers: MutexGuard<'_, Workers>) -> Task {
        loop {
            match mem::replace(&mut workers.idle, IdleWorker::None) {
                IdleWorker::Assigned(task) => return task,
                _ => workers.idle = IdleWorker::Parked,
            }
            workers = self.assigned.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// These look at `/proc`.
#[cfg(all(test, target_os = "linux"))]
mod tests;
