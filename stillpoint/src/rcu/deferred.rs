//! Freeing what was retired, after a grace period, in a thread of its own.
//!
//! Values queue under a mutex. The reclaimer, a thread started on first use, sleeps while the queue is empty; then it lets
//! it fill for a moment, so that a busy writer costs the readers one heavy fence in [`GATHER`] and not one a value, takes
//! the whole queue, waits for one grace period and drops it. Destructors run in the reclaimer only. Above [`MANY`] values or
//! [`MUCH`] bytes a thread that retires is slowed down, so that the reclaimer can keep up: it waits until the queue is
//! taken, but no longer than [`GATHER`] a value, as the reclaimer may itself wait for what this thread holds.

use core::cell::Cell;
use core::mem;
use core::ptr::NonNull;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::domain::{Domain, try_synchronize};
use super::engine::Orphaned;
use crate::sys::signal::with_all_blocked;

/// How long the queue fills before the reclaimer takes it.
const GATHER: Duration = Duration::from_millis(1);
/// Values in the queue that end the gathering.
const SOME: usize = 4096;
/// Values in the queue from which on callers are slowed down.
const MANY: usize = 65_536;
/// Bytes in the queue (of the values themselves, not of what they own) from which on callers are slowed down.
const MUCH: usize = 64 << 20;

/// A retired value: the pointer of a Box, and how to free it.
#[derive(Debug)]
struct Value {
    pointer: NonNull<()>,
    bytes: usize,
    free: unsafe fn(NonNull<()>),
}

// SAFETY: made of a `Box<T>` with `T: Send` only.
unsafe impl Send for Value {}

/// The values retired in a domain.
#[derive(Debug)]
pub(super) struct Deferred {
    queue: Mutex<Queue>,
    /// The reclaimer sleeps here.
    arrived: Condvar,
    /// Those who were slowed down sleep here.
    taken: Condvar,
}

#[derive(Debug)]
struct Queue {
    values: Vec<Value>,
    bytes: usize,
    reclaimer: Reclaimer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reclaimer {
    /// Not started, or it could not be: the next caller tries again.
    Absent,
    /// Sleeps until something arrives.
    Idle,
    /// At work, or waiting for more.
    Busy,
}

thread_local! {
    /// This thread is a reclaimer: destructors that retire more must not wait for it.
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
}

impl Deferred {
    pub(super) const fn new() -> Self {
        let queue = Queue { values: Vec::new(), bytes: 0, reclaimer: Reclaimer::Absent };
        Self { queue: Mutex::new(queue), arrived: Condvar::new(), taken: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No foreign code runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees `value` after a grace period of `D`, whose queue this is.
    ///
    /// # Safety
    ///
    /// `value` comes from a `Box`, has been unpublished, and is not used by the caller again.
    pub(super) unsafe fn retire<T: Send + 'static, D: Domain>(&'static self, value: NonNull<T>) {
        let value = Value { pointer: value.cast(), bytes: size_of::<T>(), free: free::<T> };
        let mut queue = self.lock();
        queue.bytes += value.bytes;
        queue.values.push(value);
        match queue.reclaimer {
            Reclaimer::Absent => {
                let reclaimer = thread::Builder::new().name("stillpoint-rcu".to_owned());
                // The program's signals are not for this thread: it runs destructors.
                if with_all_blocked(|| reclaimer.spawn(|| self.reclaim::<D>())).is_ok() {
                    queue.reclaimer = Reclaimer::Busy;
                }
            }
            Reclaimer::Idle => {
                queue.reclaimer = Reclaimer::Busy;
                self.arrived.notify_one();
            }
            Reclaimer::Busy if queue.values.len() == SOME => self.arrived.notify_one(),
            Reclaimer::Busy => {}
        }
        // Inside a section waiting would be in vain.
        if queue.is_too_long() && !D::is_inside() && !RECLAIMS.get() {
            let _ = self.taken.wait_timeout_while(queue, GATHER, |queue| queue.is_too_long());
        }
    }

    /// The reclaimer's life.
    fn reclaim<D: Domain>(&self) -> ! {
        RECLAIMS.set(true);
        let mut queue = self.lock();
        loop {
            if queue.values.is_empty() {
                queue = self.idle(queue);
            }
            let few = |queue: &mut Queue| queue.values.len() < SOME;
            let waited = self.arrived.wait_timeout_while(queue, GATHER, few);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.bytes = 0;
            let mut values = mem::take(&mut queue.values);
            self.taken.notify_all();
            drop(queue);

            // A panic here is that of a heavy fence which the kernel denies.
            let waited = catch_unwind(try_synchronize::<D>).unwrap_or(Err(Orphaned));
            if waited.is_ok() {
                values.drain(..).for_each(Value::free);
            }
            queue = self.lock();
            if !values.is_empty() {
                // There can be no grace period, as a thread ended inside a section. Keep them; try again when more arrives.
                queue.bytes += values.iter().map(|value| value.bytes).sum::<usize>();
                values.append(&mut queue.values);
                queue.values = values;
                queue = self.idle(queue);
            }
        }
    }

    /// Sleeps until something arrives.
    fn idle<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.reclaimer = Reclaimer::Idle;
        let idle = |queue: &mut Queue| queue.reclaimer == Reclaimer::Idle;
        self.arrived.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn is_too_long(&self) -> bool {
        self.values.len() > MANY || self.bytes > MUCH
    }
}

impl Value {
    /// Frees the value: a grace period has ended since it was retired.
    fn free(self) {
        // A destructor that panics has reported itself; the others still run.
        // SAFETY: the pointer comes from a Box of the type that `free` was made for, and nobody else has it any more.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { (self.free)(self.pointer) })) {
            mem::forget(payload);
        }
    }
}

/// # Safety
///
/// `pointer` comes from a `Box<T>` that nobody else has.
unsafe fn free<T>(pointer: NonNull<()>) {
    // SAFETY: the caller's contract.
    drop(unsafe { Box::from_raw(pointer.cast::<T>().as_ptr()) });
}
