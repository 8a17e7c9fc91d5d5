//! What a domain with hazard pointers has beyond others: it keeps what is protected when its grace period has ended.
//!
//! Such a domain frees what was retired as all domains do: owners push to queues, grace periods end, owners and the worker
//! run what is ready. But before a value is freed, the thread looks whether a hazard pointer protects it
//! ([`crate::slots::protected`]). If so, the callback goes to the end of one more queue, of those that are *kept*. It is
//! lazy: the worker takes it through another grace period when there is other work, for `barrier`, or after a second. So
//! what waits beyond its grace period is what hazard pointers protect: no more values than there are slots.
//!
//! # What is counted
//!
//! A callback that is kept has left the backlog. So values that are protected for long do not throttle threads that
//! retire others, and do not make the worker hurry.
//!
//! # Invariants
//!
//! 1. A value is freed only if [`Protected`] addresses were collected after the end of a grace period that began after it
//!    was retired, and its own is not among them.
//! 2. `last` was collected when at least that number of grace periods had ended.

use super::callback::Callback;
use super::queue::Queue;
use crate::grace_period::engine::Engine;
use crate::readers::sections::registry::Registry;
use crate::slots::protected::Protected;
use crate::slots::record::Record;
use crate::sync::{ForkSafe, Mutex, const_unless_loom};

/// What was collected last, and after how many grace periods.
type Last = Option<(u64, Protected)>;

/// See the [module](self).
#[derive(Debug)]
pub struct Hazards {
    records: &'static Registry<Record>,
    last: ForkSafe<Mutex<Last>>,
    kept: Queue,
    /// The holder is the owner of `kept`.
    push_lock: ForkSafe<Mutex<()>>,
}

impl Hazards {
    const_unless_loom! {
        /// `records` has the slots of the hazard pointers.
        pub fn new(records: &'static Registry<Record>) -> Self {
            Self {
                records,
                last: ForkSafe::new(Mutex::new(None)),
                kept: Queue::new(),
                push_lock: ForkSafe::new(Mutex::new(())),
            }
        }
    }

    /// Returns the queue of callbacks that are kept. The worker runs them.
    pub fn kept(&self) -> &Queue {
        &self.kept
    }

    /// Returns the number of callbacks that are kept. A statistic.
    #[cfg(not(loom))]
    pub fn kept_count(&self) -> u64 {
        // In this order, so that no more have completed than were pushed.
        let completed = self.kept.completed();
        self.kept.tail() - completed
    }

    /// Returns `true` if the callback frees a value that a hazard pointer protects. Its grace period, of `engine`, has
    /// ended, and `protected` is empty or was set by this function since then.
    #[inline]
    pub fn is_protected<R>(
        &self,
        callback: &Callback,
        protected: &mut Option<Protected>,
        engine: &Engine<R>,
    ) -> bool {
        let Some(address) = callback.value() else { return false };
        protected.get_or_insert_with(|| self.protected(engine)).contains(address)
    }

    /// Returns what is protected, as of a moment after the end of all grace periods that the caller knows to have ended.
    #[cold]
    fn protected<R>(&self, engine: &Engine<R>) -> Protected {
        let completed = engine.completed();
        // Nothing under the lock panics, here and below, nor runs code of the program.
        let mut last = self.last.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((number, protected)) = &*last {
            if *number >= completed {
                return protected.clone();
            }
        }
        let protected = Protected::collect(self.records);
        *last = Some((completed, protected.clone()));
        protected
    }

    /// Keeps a callback for later.
    #[cold]
    pub fn keep(&self, callback: Callback) {
        let _lock = self.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the holder of the lock is the queue's owner.
        _ = unsafe { self.kept.push(callback.for_worker(), true) };
        // What is kept does not count.
        _ = self.kept.take_unreported();
    }

    /// Has the worker look at all that is kept now, as soon as it can.
    #[cold]
    pub fn expedite(&self) {
        let _lock = self.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.kept.expedite();
    }

    /// Returns the number of slots, in use or not, of threads that hold a few hazard pointers each.
    pub fn slots(&self) -> u64 {
        self.records.len() as u64 * Record::FIRST as u64
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
            self.last.overwrite(Mutex::new(None));
            self.push_lock.overwrite(Mutex::new(()));
            self.kept.reset_in_child();
        }
    }
}
