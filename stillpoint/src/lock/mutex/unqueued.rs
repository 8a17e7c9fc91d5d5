//! Waiting without a node.
//!
//! A thread has no node if all are in use, and a signal handler has none if it has interrupted the use of the thread's
//! node. Such a waiter takes the lock whenever it is free, even if it is reserved, because a handler may have
//! interrupted the head. Unqueued waiters park on one word, and every release that finds [`PARKED`] wakes all of them.
//! That is slow and unfair, and rare.
//!
//! # No wake-up is lost
//!
//! A waiter that parks has counted itself in `slow_unlock_flags`, then read `unqueued`, then set [`PARKED`] by a
//! read-modify-write in a word with [`LOCKED`]. The release follows in the modification order of the word. So it takes
//! the slow path, finds the count, and increments `unqueued` past the number that the waiter has read. Only a thread
//! that takes a free lock clears `PARKED`, which comes after a release.

use super::word::{LOCKED, LockWord, PARKED, head};
use crate::lock::nodes::{FORKED, table};
use crate::lock::policy::Policy;
use crate::lock::spin::Spin;
use crate::sync::{Ordering::*, now, step};

/// Takes the lock without a node; blocks until the clock shows `until` at most. Returns `true` if the caller holds
/// it.
#[cold]
pub fn lock_unqueued<P: Policy>(lock: &LockWord<P>, until: Option<u64>) -> bool {
    // Relaxed: published by the Release below.
    table().slow_unlock_flags.fetch_add(1, Relaxed);
    let mut spin = Spin::new();
    let acquired = loop {
        // Relaxed: with an old number, the futex does not sleep.
        let number = table().unqueued.load(Relaxed);
        let word = lock.load(Relaxed);
        if word & LOCKED == 0 {
            if lock.compare_exchange(word, word | LOCKED, Acquire, Relaxed).is_ok() {
                // Relaxed: if the lock was reserved for the head, it was so until now.
                step!(
                    "unqueued-keeps-reservation-time",
                    table().node(head(word)).reserved_since.store(0, Relaxed)
                );
                break true;
            }
            continue;
        }
        if spin.pause() {
            continue;
        }
        // Release: publishes the count; pairs with the Acquire in `unlock_slow`.
        if lock.compare_exchange(word, word | PARKED, Release, Relaxed).is_ok()
            && (table().unqueued.wait(number, until) || until.is_some_and(|until| now() >= until))
        {
            break false;
        }
    };
    // Relaxed: a release that reads the higher count makes one needless system call.
    step!("unqueued-not-uncounted", table().slow_unlock_flags.fetch_sub(1, Relaxed));
    acquired
}

/// Wakes the unqueued waiters after a release.
#[cold]
pub fn wake_unqueued() {
    // Relaxed, both: the word orders them.
    let count = table().slow_unlock_flags.load(Relaxed) & !FORKED;
    if count != 0 {
        step!("unqueued-not-woken", {
            table().unqueued.fetch_add(1, Relaxed);
            table().unqueued.wake(u32::MAX);
        });
    }
}
