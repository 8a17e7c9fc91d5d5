//! The futures that wait until a domain is closed ([`super::close`]).
//!
//! A future that is polled leaves its waker here. While there are wakers, a task of the
//! [worker pool](crate::reclaim::worker_pool) blocks until the domain is closed, and then wakes all of them. It ends
//! early when it finds that there are none.
//!
//! # Invariants
//!
//! 1. One lock orders all decisions. While `has_task` is set, the task takes the lock again, and takes all wakers or
//!    finds none. A future that leaves a waker, and finds `has_task` clear, sets it and submits the task.
//! 2. Wakers are code of the program: they are cloned, called and dropped outside the lock.

use core::mem;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::PoisonError;

use crate::sync::block_on::wake;
use crate::sync::{ForkSafe, Mutex, MutexGuard};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct CloseWaiters(ForkSafe<Mutex<Wakers>>);

#[derive(Debug)]
struct Wakers {
    /// See invariant 1.
    has_task: bool,
    wakers: BTreeMap<CloseWaiterId, Waker>,
}

/// Identifies a future: 0 while it is not one of the waiters.
pub(super) type CloseWaiterId = u64;

/// The last id given out, in all domains. The child of a fork continues counting, as it inherits futures.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl CloseWaiters {
    pub(super) const fn new() -> Self {
        Self(ForkSafe::new(Mutex::new(Wakers { has_task: false, wakers: BTreeMap::new() })))
    }

    /// Has `waker` called when the domain is closed. `id` is the future's, as its last call left it. `submit` has a
    /// thread wait for that and call [`wake_all`](Self::wake_all), or returns `false` if there is no thread. Returns
    /// `false` then: the caller must wait itself.
    pub(super) fn add(&self, id: &mut CloseWaiterId, waker: &Waker, submit: impl FnOnce() -> bool) -> bool {
        if *id == 0 {
            // Relaxed: only the numbers matter.
            *id = LAST_ID.fetch_add(1, Relaxed) + 1;
        }
        let waker = waker.clone();
        let mut waiters = self.lock();
        // Dropped at the end, as it may panic.
        let _old = waiters.wakers.insert(*id, waker);
        let had_task = mem::replace(&mut waiters.has_task, true);
        drop(waiters);
        if had_task || submit() {
            return true;
        }
        self.wake_all();
        false
    }

    /// Wakes all futures. Those that are polled again, and must wait again, get another task.
    pub(super) fn wake_all(&self) {
        let mut waiters = self.lock();
        waiters.has_task = false;
        let wakers = mem::take(&mut waiters.wakers);
        drop(waiters);
        wakers.into_values().for_each(wake);
    }

    /// Returns `true` if there are futures. If not, the task ends, and the next future gets another one.
    pub(super) fn has_waiters(&self) -> bool {
        let mut waiters = self.lock();
        waiters.has_task = !waiters.wakers.is_empty();
        waiters.has_task
    }

    /// Removes a future that is dropped.
    pub(super) fn remove(&self, id: CloseWaiterId) {
        let old = self.lock().wakers.remove(&id);
        drop(old);
    }

    /// Forgets all futures: the child of a fork has no task. Futures that are polled there become waiters again.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    pub(super) unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract; references to the waiters live no longer than a call of a method.
        unsafe { self.0.overwrite(Mutex::new(Wakers { has_task: false, wakers: BTreeMap::new() })) };
    }

    fn lock(&self) -> MutexGuard<'_, Wakers> {
        // Nothing under the lock panics (invariant 2).
        self.0.get().lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_after_a_task_that_ended_early_gets_a_task() {
        let waiters = CloseWaiters::new();
        let mut submitted = 0;
        for count in 1..=3 {
            let mut id = 0;
            assert!(waiters.add(&mut id, Waker::noop(), || {
                submitted += 1;
                true
            }));
            assert_eq!(submitted, count);
            assert!(waiters.has_waiters());
            // A second future, while there is a task.
            let mut other = 0;
            assert!(waiters.add(&mut other, Waker::noop(), || unreachable!("there is a task")));
            waiters.remove(id);
            assert!(waiters.has_waiters());
            waiters.remove(other);
            // The task ends.
            assert!(!waiters.has_waiters());
        }
    }

    #[test]
    fn future_after_one_without_a_thread_gets_a_task() {
        let waiters = CloseWaiters::new();
        let mut id = 0;
        assert!(!waiters.add(&mut id, Waker::noop(), || false));
        let mut submitted = false;
        assert!(waiters.add(&mut id, Waker::noop(), || {
            submitted = true;
            true
        }));
        assert!(submitted);
    }
}
