//! Futures that are ready below the limit of the [backlog](super::backlog).
//!
//! # No wake-up is lost
//!
//! A future leaves its waker, announces itself to the event count of the worker's progress, and then looks at the
//! backlog. A thread that has reduced the backlog, or has raised the limit, notifies the event count and then looks
//! for futures. Both change one word: the change that comes later acquires the other. So the thread finds the waker,
//! or the future finds that it is below the limit.
//!
//! A future reserves nothing. If all were woken for room that one of them fills, a thousand would be woken a thousand
//! times. So at most [`BATCH`] are, and each of these wakes others when it goes on, or is dropped, if there is room
//! still. Once little waits, all of them are woken: a future that is not polled again delays no other for ever.
//!
//! # When the backlog cannot shrink
//!
//! Above the limit callbacks are pending, so there is a worker, or one that is parked. If none can be had, or a grace
//! period fails, all futures are dismissed: they are woken, and find that they go on above the limit. So are they when
//! the worker finds nothing: what seems to wait are bytes that owners have freed and not reported.

use core::task::Waker;

use super::poller::{WaiterId, Waiters};
use crate::sync::{AtomicU64, Ordering::Relaxed, const_unless_loom};

/// Futures that are woken at a time while much waits.
pub(super) const BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// See the [module](self).
#[derive(Debug)]
pub struct LimitWaiters {
    /// By their ids.
    waiters: Waiters<()>,
    /// How many wakers there are. Changes under the lock. Relaxed: the event count orders it.
    count: AtomicU64,
}

impl LimitWaiters {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { waiters: Waiters::new(()), count: AtomicU64::new(0) }
        }
    }

    /// Leaves the waker of a future. Returns `true` if it had none here.
    pub(super) fn add(&self, id: &mut WaiterId, waker: Waker) -> bool {
        let mut waiters = self.waiters.lock();
        if *id == 0 {
            *id = self.waiters.next_id();
        }
        let last = waiters.wakers.insert((0, *id), waker);
        if last.is_none() {
            self.count.fetch_add(1, Relaxed);
        }
        drop(waiters);
        last.is_none()
    }

    /// Removes a future, if it has not been taken out.
    pub(super) fn remove(&self, id: WaiterId) {
        let mut waiters = self.waiters.lock();
        let waker = waiters.wakers.remove((0, id));
        if waker.is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
        drop(waiters);
        drop(waker);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Takes out the first futures, at most so many. Returns the wakers to call. The caller has notified the event
    /// count.
    pub(super) fn take(&self, most: usize) -> Vec<Waker> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut waiters = self.waiters.lock();
        let taken = waiters.take_served(most, |_| true);
        self.count.fetch_sub(taken.len() as u64, Relaxed);
        taken
    }

    /// Forgets all futures. Those that are polled in the child wait again.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.waiters.reset_in_child(()) };
        self.count.store(0, Relaxed);
    }
}
