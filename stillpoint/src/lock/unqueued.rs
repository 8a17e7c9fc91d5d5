//! Waiting without a node.
//!
//! A thread has no node if all are in use, and a signal handler has none if it has interrupted the use of the
//! thread's. Such waiters take the lock whenever it is free, even if it is reserved: a handler may have interrupted
//! the head. They all park on one word, and every release that finds [`PARKED`] wakes all of them. That is slow and
//! unfair, and rare.
//!
//! # No wake-up is lost
//!
//! A waiter that parks has counted itself in `slow_unlock_flags`, then read `unqueued`, then set [`PARKED`] by a
//! read-modify-write in a word with [`LOCKED`]. The release follows in the modification order of the word. So it
//! takes the slow path, finds the count, and increments `unqueued` past the number that the waiter has read. Only a
//! thread that takes a free lock clears `PARKED`, which comes after a release.

use crate::sync::{Ordering::*, now, spin_iterations, spin_loop, step};

use super::events::Event;
use super::nodes::{FORKED, table};
use super::policy::{Policy, SPIN_NS};
use super::raw::Raw;
use super::word::{LOCKED, PARKED, head};

/// Counts an unqueued waiter, until dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        // Relaxed: published by the Release in `lock_unqueued`, which sets `PARKED`.
        table().slow_unlock_flags.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: a release that reads the higher count makes one needless system call.
        step!("unqueued-not-uncounted", table().slow_unlock_flags.fetch_sub(1, Relaxed));
    }
}

impl<P: Policy> Raw<P> {
    /// Takes the lock without a node; blocks until the clock shows `until` at most. Returns `true` if the caller
    /// holds it.
    #[cold]
    pub(super) fn lock_unqueued(&self, until: Option<u64>) -> bool {
        P::count(Event::NoNode);
        let _counted = Counted::new();
        let mut left = spin_iterations(SPIN_NS);
        loop {
            // Relaxed: with an old number, the futex does not sleep.
            let number = table().unqueued.load(Relaxed);
            let word = self.word().load(Relaxed);
            if word & LOCKED == 0 {
                if self.word().compare_exchange(word, word | LOCKED, Acquire, Relaxed).is_ok() {
                    // Relaxed: if the lock was reserved for the head, it was so until now.
                    table().node(head(word)).reserved_since.store(0, Relaxed);
                    return true;
                }
                continue;
            }
            if left > 0 {
                left -= 1;
                spin_loop();
                continue;
            }
            // Release: publishes the count; pairs with the Acquire in `unlock_slow`.
            if self.word().compare_exchange(word, word | PARKED, Release, Relaxed).is_err() {
                continue;
            }
            if table().unqueued.wait(number, until) || until.is_some_and(|until| now() >= until) {
                return false;
            }
        }
    }

    /// Wakes the unqueued waiters after a release.
    #[cold]
    pub(super) fn wake_unqueued() {
        // Relaxed, both: the word orders them.
        let count = table().slow_unlock_flags.load(Relaxed) & !FORKED;
        if count != 0 {
            step!("unqueued-not-woken", {
                table().unqueued.fetch_add(1, Relaxed);
                table().unqueued.wake(u32::MAX);
            });
        }
    }
}
