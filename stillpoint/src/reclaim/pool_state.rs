//! What the workers of the [pool](super::worker_pool) do: which one is idle, and how many tasks wait.
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
//! `Parked` and `Assigned` stand for exactly one thread inside `PoolState::park`.
//!
//! # Spares
//!
//! A worker that has a task sleeps for readers only while there is a *spare*: the idle worker, or the timer. So *at any
//! time some worker does not sleep for readers.* Of two spares, one may stop being one and then need the other; the last
//! one looks for a spare after it has stopped being one, finds none, and does not sleep.

use core::mem;
use std::sync::PoisonError;

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom, now, step};

/// What a thread is to the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Outside,
    Worker,
    Timer,
}

/// What a worker does.
pub type Task = Box<dyn FnOnce() + Send>;

/// See the [module](self).
pub struct PoolState {
    workers: Mutex<Workers>,
    /// The idle worker sleeps here.
    assigned: Condvar,
    /// When threads may be started again: nanoseconds of [`now`], or 0.
    pub retry_at: AtomicU64,
    timers: AtomicU64,
}

/// What the lock protects.
pub struct Workers {
    pub idle: IdleWorker,
    /// Workers that have begun and not ended.
    pub count: u64,
    /// For the next worker without a task.
    pub queued: Vec<Task>,
}

/// See the [module](self#states).
pub enum IdleWorker {
    None,
    Coming,
    Parked,
    Assigned(Task),
}

impl Workers {
    fn has_spare(&self) -> bool {
        matches!(self.idle, IdleWorker::Coming | IdleWorker::Parked)
    }

    /// Assigns the task to the idle worker, which the caller then wakes. Returns it if no worker is idle, or the idle
    /// one has a task already.
    fn assign(&mut self, task: Task) -> Result<(), Task> {
        if !matches!(self.idle, IdleWorker::Parked) {
            return Err(task);
        }
        self.idle = IdleWorker::Assigned(task);
        Ok(())
    }
}

impl PoolState {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                workers: Mutex::new(Workers { idle: IdleWorker::None, count: 0, queued: Vec::new() }),
                assigned: Condvar::new(),
                retry_at: AtomicU64::new(0),
                timers: AtomicU64::new(0),
            }
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Workers> {
        // Nothing under the lock panics.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f`, as the timer.
    pub fn as_timer(&self, f: impl FnOnce()) {
        // Relaxed, both: see `has_spare`. Counted, as the next timer may begin before this one has stopped.
        self.timers.fetch_add(1, Relaxed);
        f();
        step!("ended-timer-counts", self.timers.fetch_sub(1, Relaxed));
    }

    /// Returns `true` if the calling thread may sleep for readers.
    pub fn has_spare(&self, role: Role) -> bool {
        match role {
            Role::Outside => true,
            // Relaxed, after the lock: a timer that has stopped before another task of its thread was assigned under
            // the lock is not seen.
            Role::Worker => self.lock().has_spare() || self.timers.load(Relaxed) != 0,
            Role::Timer => false,
        }
    }

    /// Has `start` start a worker that will be idle, unless there is one. Returns `false` if it cannot.
    pub fn start_spare(&self, start: impl FnOnce() -> bool) -> bool {
        let mut workers = self.lock();
        match workers.idle {
            IdleWorker::None => workers.idle = IdleWorker::Coming,
            // It is about to be busy.
            IdleWorker::Assigned(_) => {}
            IdleWorker::Coming | IdleWorker::Parked => return true,
        }
        drop(workers);
        let started = start();
        if !started {
            let mut workers = self.lock();
            if matches!(workers.idle, IdleWorker::Coming) {
                workers.idle = IdleWorker::None;
            }
        }
        started
    }

    /// Returns `true` if a worker has nothing to do.
    #[cfg(all(test, target_os = "linux"))]
    pub fn has_idle(&self) -> bool {
        matches!(self.lock().idle, IdleWorker::Parked)
    }

    /// Returns `true` if a thread could not be started a moment ago.
    pub fn must_wait(&self) -> bool {
        // Relaxed: a hint.
        let retry_at = self.retry_at.load(Relaxed);
        retry_at != 0 && now() < retry_at
    }

    pub fn assign(&self, task: Task) -> Result<(), Task> {
        self.lock().assign(task).inspect(|()| self.assigned.notify_one())
    }

    /// [`assign`](Self::assign), or has a busy worker run the task when it has finished its own. Returns `false` if
    /// there is none.
    pub fn queue(&self, task: Task) -> bool {
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
    pub fn next(&self) -> Option<Task> {
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
