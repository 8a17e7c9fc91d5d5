//! What the workers of the [pool](super) do: which one is idle, and how many tasks wait.
//!
//! # States
//!
//! | [`IdleWorker`] | meaning |
//! |---|---|
//! | `None` | no worker is idle |
//! | `Coming` | no worker is idle; one that has been started will be |
//! | `Sleeping` | one worker is idle |
//! | `Assigned` | one worker is idle, and a task waits for it; the first worker that looks takes the task |
//!
//! `Sleeping` and `Assigned` stand for exactly one thread inside `PoolState::sleep`.
//!
//! # The timer
//!
//! One worker, the *timer*, resumes parked domains while there are any ([`super`]).
//!
//! | [`Timer`] | meaning |
//! |---|---|
//! | `None` | there is none |
//! | `Coming` | a thread has been given the timer's task, or is being started for it |
//! | `Wanted` | no thread could be started for it: the next worker that looks is the timer |
//! | `Present` | one worker is the timer |
//!
//! A worker looks before it sleeps for long, and after each slice of callbacks, and then gives up its domain. So
//! while the timer is wanted, all workers run code of the program, or sleep for readers.
//!
//! # Spares
//!
//! A worker that has a task sleeps for readers only while there is a *spare*: the idle worker, or the timer. So *at
//! any time some worker does not sleep for readers.* Of two spares, one may stop being one and then need the other;
//! the last one looks for a spare after it has stopped being one, finds none, and does not sleep. The timer stops
//! being one before it resumes domains itself.

use core::mem;
use std::sync::PoisonError;

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom, now, step};

/// What a worker does.
pub type Task = Box<dyn FnOnce() + Send>;

/// What became of a task of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// A worker runs it.
    Started,
    /// As many workers as may have such tasks are busy: the domain is to be parked.
    Full,
    /// No thread can be had.
    Failed,
}

/// See the [module](self).
pub struct PoolState {
    workers: Mutex<Workers>,
    /// The idle worker sleeps here.
    assigned: Condvar,
    /// Threads that must know how the start of another one ends sleep here.
    started: Condvar,
    /// When threads may be started again: nanoseconds of [`now`]. 0 only if no timer is wanted.
    pub retry_at: AtomicU64,
}

/// What the lock protects.
pub struct Workers {
    pub idle: IdleWorker,
    pub timer: Timer,
    /// Workers that have begun and not ended.
    pub count: u64,
    /// Threads that are being started: the start has not failed, and the thread has not begun.
    starting: u64,
    /// Workers that have a task of a domain, or will have one.
    busy: u32,
}

/// See the [module](self#states).
pub enum IdleWorker {
    None,
    Coming,
    Sleeping,
    Assigned(Task),
}

/// See the [module](self#the-timer).
pub enum Timer {
    None,
    Coming,
    /// With its task.
    Wanted(Task),
    Present,
}

impl Workers {
    fn has_spare(&self) -> bool {
        matches!(self.idle, IdleWorker::Coming | IdleWorker::Sleeping) || matches!(self.timer, Timer::Present)
    }

    /// Returns the task of the timer, if that is wanted: the caller is the timer.
    fn take_wanted(&mut self) -> Option<Task> {
        match mem::replace(&mut self.timer, Timer::Coming) {
            Timer::Wanted(task) => Some(task),
            other => {
                self.timer = other;
                None
            }
        }
    }

    /// Assigns the task to the idle worker, which the caller then wakes. Returns it if no worker is idle, or the idle
    /// one has a task already.
    fn assign(&mut self, task: Task) -> Result<(), Task> {
        if !matches!(self.idle, IdleWorker::Sleeping) {
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
                workers: Mutex::new(Workers {
                    idle: IdleWorker::None,
                    timer: Timer::None,
                    count: 0,
                    starting: 0,
                    busy: 0,
                }),
                assigned: Condvar::new(),
                started: Condvar::new(),
                retry_at: AtomicU64::new(0),
            }
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Workers> {
        // Nothing under the lock panics.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a worker may sleep for readers.
    pub fn has_spare(&self) -> bool {
        self.lock().has_spare()
    }

    /// A thread is about to be started. Then the new one calls [`begin`](Self::begin), or the caller
    /// [`start_failed`](Self::start_failed).
    pub fn starts(&self) {
        self.lock().starting += 1;
    }

    /// The calling thread has been started as a worker.
    pub fn begin(&self) {
        let mut workers = self.lock();
        workers.starting -= 1;
        workers.count += 1;
        step!("start-without-notify", self.started.notify_all());
    }

    /// A thread could not be started.
    pub fn start_failed(&self) {
        self.lock().starting -= 1;
        step!("start-without-notify", self.started.notify_all());
    }

    /// Returns `true` if there is no worker, and none is being started.
    pub fn is_empty(&self) -> bool {
        let workers = self.lock();
        workers.count == 0 && workers.starting == 0
    }

    /// Returns `true` if one more worker may have a task of a domain: fewer than `most` do, and there are not many
    /// more workers, which are about to be idle. The worker then calls [`release`](Self::release).
    pub fn reserve(&self, most: u32) -> bool {
        let mut workers = self.lock();
        let may_start = workers.count + workers.starting < u64::from(most) + 3;
        let may = workers.busy < most && (may_start || matches!(workers.idle, IdleWorker::Sleeping));
        workers.busy += u32::from(may);
        may
    }

    /// A worker has done its task of a domain.
    pub fn release(&self) {
        let mut workers = self.lock();
        // In the child of a fork, the forking thread may have a task of the parent's.
        step!("busy-for-ever", workers.busy = workers.busy.saturating_sub(1));
    }

    /// Makes sure that there is a timer, whose task is `task`. `submit` gives a task to the idle worker or a new one.
    /// Returns `false` if there is no worker.
    pub fn ensure_timer(
        &self,
        task: impl FnOnce() + Send + 'static,
        submit: impl FnOnce(Task) -> Result<(), Task>,
    ) -> bool {
        let mut workers = self.lock();
        let task = match mem::replace(&mut workers.timer, Timer::Coming) {
            Timer::None => Box::new(task),
            Timer::Wanted(task) => task,
            Timer::Coming => return true,
            Timer::Present => {
                workers.timer = Timer::Present;
                return true;
            }
        };
        drop(workers);
        match submit(task) {
            Ok(()) => true,
            Err(task) => self.want_timer(task),
        }
    }

    /// [`ensure_timer`](Self::ensure_timer), but only if the timer is wanted. Returns `true` if it still is.
    pub fn retry_timer(&self, submit: impl FnOnce(Task) -> Result<(), Task>) -> bool {
        let mut workers = self.lock();
        let Some(task) = workers.take_wanted() else {
            // Relaxed, here and in `want_timer`: under the lock.
            self.retry_at.store(0, Relaxed);
            return false;
        };
        drop(workers);
        submit(task).is_err_and(|task| self.want_timer(task)) && self.is_timer_wanted()
    }

    /// For a thread that has stopped being the timer, or could not start it: the idle worker is the timer, or the
    /// next one that looks. Returns `false` if there is no worker.
    pub fn want_timer(&self, task: Task) -> bool {
        let mut workers = self.lock();
        // Whether there is one is not known yet.
        while workers.count == 0 && workers.starting != 0 {
            workers = self.started.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
        workers.timer = Timer::Coming;
        match workers.assign(task) {
            Ok(()) => self.assigned.notify_one(),
            Err(_) if workers.count == 0 => workers.timer = Timer::None,
            Err(task) => {
                if self.retry_at.load(Relaxed) == 0 {
                    self.retry_at.store(1, Relaxed);
                }
                step!("wanted-timer-forgotten", workers.timer = Timer::Wanted(task));
            }
        }
        !matches!(workers.timer, Timer::None)
    }

    /// The calling worker, which has been given the timer's task, is the timer.
    pub fn begin_timer(&self) {
        self.lock().timer = Timer::Present;
    }

    /// The calling worker is the timer no more: there is none.
    pub fn end_timer(&self) {
        step!("ended-timer-counts", self.lock().timer = Timer::None);
    }

    /// Returns `true` if a worker is to give up what it does, and be the timer.
    pub fn is_timer_wanted(&self) -> bool {
        matches!(self.lock().timer, Timer::Wanted(_))
    }

    /// Has `start` start a worker that will be idle, unless there is one. Returns `false` if it cannot.
    pub fn start_spare(&self, start: impl FnOnce() -> bool) -> bool {
        let mut workers = self.lock();
        match workers.idle {
            IdleWorker::None => workers.idle = IdleWorker::Coming,
            // It is about to be busy.
            IdleWorker::Assigned(_) => {}
            IdleWorker::Coming | IdleWorker::Sleeping => return true,
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

    /// Returns `true` if a thread could not be started a moment ago.
    pub fn must_wait(&self) -> bool {
        // Relaxed: a hint.
        let retry_at = self.retry_at.load(Relaxed);
        retry_at != 0 && now() < retry_at
    }

    pub fn assign(&self, task: Task) -> Result<(), Task> {
        self.lock().assign(task).inspect(|()| self.assigned.notify_one())
    }

    /// Blocks until there is a next task for the calling worker. Returns `None` if the worker is to end.
    pub fn next(&self) -> Option<Task> {
        let mut workers = self.lock();
        if let Some(task) = workers.take_wanted() {
            // If this is the worker that was to be idle, it is no spare when it has stopped being the timer.
            step!(
                "coming-worker-counts",
                if matches!(workers.idle, IdleWorker::Coming) {
                    workers.idle = IdleWorker::None;
                }
            );
            return Some(task);
        }
        match mem::replace(&mut workers.idle, IdleWorker::Sleeping) {
            IdleWorker::None | IdleWorker::Coming => Some(self.sleep(workers)),
            IdleWorker::Sleeping => {
                workers.count = workers.count.saturating_sub(1);
                None
            }
            // This worker is awake already; the other may sleep on.
            IdleWorker::Assigned(task) => Some(task),
        }
    }

    /// The idle worker sleeps until it is assigned a task.
    fn sleep(&self, mut workers: MutexGuard<'_, Workers>) -> Task {
        loop {
            match mem::replace(&mut workers.idle, IdleWorker::None) {
                IdleWorker::Assigned(task) => return task,
                _ => workers.idle = IdleWorker::Sleeping,
            }
            workers = self.assigned.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
