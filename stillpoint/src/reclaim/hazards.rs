//! What a domain with hazard pointers has beyond others: it keeps what is protected when its grace period has ended.
//!
//! Such a domain frees what was retired as all domains do: owners push to queues, grace periods end, owners and the
//! worker run what is ready. But before a value is freed, the thread looks whether a hazard pointer protects it
//! ([`crate::slots::protected`]). If so, the callback goes to the end of one more queue, of those that are *kept*.
//! The worker takes it through another grace period when there is other work, for `barrier`, or after a second. So
//! what waits beyond its grace period is what hazard pointers protect: no more values than there are slots. (Of
//! values without a size, which share one address, there are soon no more of each type than three times as many as
//! slots with that address, those that are ready, wait, and have no cookie: see [`Protected::take`].)
//!
//! # What is counted
//!
//! A callback that is kept has left the backlog. So values that are protected for long do not throttle threads that
//! retire others, and do not make the worker hurry.
//!
//! # Invariant
//!
//! A value is freed only if [`Protected`] addresses were collected after the end of a grace period that began after
//! it was retired, and its own is not among them.

use super::callback::Callback;
use super::queue::{Pending, Queue};
use crate::readers::any::AnyEngine;
use crate::slots::protected::{LastCollection, Protected};
use crate::slots::record::{Record, Records};
use crate::sync::{AtomicU64, ForkSafe, Mutex, Ordering::*, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct Hazards {
    last: LastCollection,
    /// Callbacks that are kept, which the worker runs.
    kept: Queue,
    /// The position in `kept` after the last callback that the worker must look at soon.
    urgent_end: AtomicU64,
    /// Its holder is the owner of the queue.
    push_lock: ForkSafe<Mutex<()>>,
}

impl Hazards {
    const_unless_loom! {
        /// `records` has the slots of the hazard pointers.
        pub fn new(records: &'static Records) -> Self {
            Self {
                last: LastCollection::new(records),
                kept: Queue::new(),
                urgent_end: AtomicU64::new(0),
                push_lock: ForkSafe::new(Mutex::new(())),
            }
        }
    }

    /// Returns the queue of callbacks that are kept.
    pub fn kept(&self) -> &Queue {
        &self.kept
    }

    /// Returns how urgent the callbacks are that are kept.
    pub fn pending(&self) -> Pending {
        // Acquire: the callbacks that are urgent; pairs with the Release in `expedite`.
        if self.kept.completed() < self.urgent_end.load(Acquire) {
            Pending::Urgent
        } else if self.kept.has_pending() {
            Pending::Kept
        } else {
            Pending::None
        }
    }

    /// Returns the number of callbacks that are kept. A statistic.
    #[cfg(not(loom))]
    pub fn kept_count(&self) -> u64 {
        // In this order, so that no more have completed than were pushed.
        let completed = self.kept.completed();
        self.kept.tail() - completed
    }

    /// Returns `true` if the callback frees a value that a hazard pointer protects, and must be kept. Its grace
    /// period, of `engine`, has ended, and `protected` is empty or was set by this function since then.
    #[inline]
    pub fn is_protected(
        &self,
        callback: &Callback,
        protected: &mut Option<Protected>,
        engine: &AnyEngine,
    ) -> bool {
        let Some(address) = callback.value() else { return false };
        let protected = protected.get_or_insert_with(|| self.last.protected(engine.completed()));
        protected.contains(address) && protected.take(address, callback.function())
    }

    /// Keeps a callback for later.
    #[cold]
    pub fn keep(&self, callback: Callback) {
        // Nothing under the lock panics, here and below, nor runs code of the program.
        let _lock = self.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the holder of the lock is the queue's owner.
        _ = unsafe { self.kept.push(callback.for_worker()) };
        // What is kept does not count.
        self.kept.unreported().forget();
    }

    /// Has the worker look at all that is kept now, as soon as it can.
    #[cold]
    pub fn expedite(&self) {
        let _lock = self.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Release: publishes the `tail` that it covers; pairs with the Acquire in `pending`.
        self.urgent_end.store(self.kept.tail(), Release);
    }

    /// Returns the number of slots at which a collection looks.
    pub fn slots(&self) -> u64 {
        self.last.records().claimed() * Record::SLOTS as u64
    }

    /// Forgets what is kept, which the parent frees.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside a function of this.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe {
            self.last.reset_in_child();
            self.push_lock.overwrite(Mutex::new(()));
            self.kept.reset_in_child();
        }
        // Relaxed: there is no other thread.
        self.urgent_end.store(0, Relaxed);
    }
}
