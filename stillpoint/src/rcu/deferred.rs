//! Freeing what was retired, after a grace period, in a thread of its own.
//!
//! Values queue under a mutex. The reclaimer, a thread started on first use, sleeps while the queue is empty; then it lets
//! it fill for a moment, so that a busy writer costs the readers one heavy fence in [`GATHER`] and not one a value, takes
//! the whole queue, waits for one grace period and drops it. Above [`MANY`] values or [`MUCH`] bytes a thread that retires
//! outside a section does this itself, so that memory stays bounded when the reclaimer falls behind; inside a section it
//! only queues.

use core::any::Any;
use core::cell::Cell;
use core::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::domain::{Domain, try_synchronize};
use super::engine::Orphaned;

/// How long the queue fills before the reclaimer takes it.
const GATHER: Duration = Duration::from_millis(1);
/// Values in the queue that end the gathering.
const SOME: usize = 4096;
/// Values in the queue from which on callers help.
const MANY: usize = 65_536;
/// Bytes in the queue (of the values themselves, not of what they own) from which on callers help.
const MUCH: usize = 64 << 20;

type Values = Vec<Box<dyn Any + Send>>;

/// The values retired in a domain.
#[derive(Debug)]
pub(super) struct Deferred {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Queue {
    values: Values,
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
    /// This thread frees retired values: what their destructors retire is queued, whatever its amount.
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
}

impl Deferred {
    pub(super) const fn new() -> Self {
        let queue = Queue { values: Vec::new(), bytes: 0, reclaimer: Reclaimer::Absent };
        Self { queue: Mutex::new(queue), arrived: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No foreign code runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees `value` after a grace period of `D`, whose queue this is.
    pub(super) fn retire<D: Domain>(&'static self, value: Box<impl Send + 'static>) {
        let bytes = size_of_val(&*value);
        let mut queue = self.lock();
        queue.bytes += bytes;
        queue.values.push(value);
        let full = queue.values.len() >= SOME;
        match queue.reclaimer {
            Reclaimer::Absent => {
                let name = "stillpoint-rcu".to_owned();
                if thread::Builder::new().name(name).spawn(|| self.reclaim::<D>()).is_ok() {
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
        let help = queue.values.len() > MANY
            || queue.bytes > MUCH
            // Nobody else would.
            || full && queue.reclaimer == Reclaimer::Absent;
        if help && !D::is_inside() && !RECLAIMS.get() {
            let values = queue.take();
            drop(queue);
            self.free::<D>(values);
        }
    }

    /// The reclaimer's life.
    fn reclaim<D: Domain>(&self) -> ! {
        loop {
            let mut queue = self.lock();
            while queue.values.is_empty() {
                queue.reclaimer = Reclaimer::Idle;
                queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.reclaimer = Reclaimer::Busy;
            let few = |queue: &mut Queue| queue.values.len() < SOME;
            let waited = self.arrived.wait_timeout_while(queue, GATHER, few);
            let values = waited.unwrap_or_else(PoisonError::into_inner).0.take();
            if !self.free::<D>(values) {
                // No grace period can end (a thread ended inside a section). Try again when more arrives.
                let mut queue = self.lock();
                queue.reclaimer = Reclaimer::Idle;
                while queue.reclaimer == Reclaimer::Idle {
                    queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Waits for a grace period and drops `values`; puts them back if there can be none.
    fn free<D: Domain>(&self, values: Values) -> bool {
        let waited = catch_unwind(try_synchronize::<D>).unwrap_or(Err(Orphaned));
        if waited.is_err() {
            let mut queue = self.lock();
            queue.bytes += bytes(&values);
            queue.values.extend(values);
            return false;
        }
        RECLAIMS.set(true);
        for value in values {
            // A destructor that panics has reported itself; the others still run.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
                mem::forget(payload);
            }
        }
        RECLAIMS.set(false);
        true
    }
}

impl Queue {
    fn take(&mut self) -> Values {
        self.bytes = 0;
        mem::take(&mut self.values)
    }
}

fn bytes(values: &Values) -> usize {
    values.iter().map(|value| size_of_val(&**value)).sum()
}
