//! Waiting without a node: the thread polls.
//!
//! A thread has no node if all are in use, or if a timed wait has left its node behind in the queue of another lock.
//! A timed wait has none if too many threads have exited and left theirs, or if the thread itself is exiting. A
//! signal handler has none if it has interrupted the use of the thread's node. Such a thread takes the lock whenever
//! it is free, even if it is reserved, because a handler may have interrupted the head. A thread that waits for a
//! condition variable checks its condition. Between two attempts it sleeps: the longer, the more threads do so. All
//! of them together make about `1 / EACH_NS` attempts, so thousands of them leave the CPUs to others.

use super::word::{LOCKED, LockWord, head};
use crate::lock::nodes::table;
use crate::lock::policy::Policy;
use crate::lock::spin::Spin;
use crate::sync::{Futex32, Ordering::*, now, step};

/// Nanoseconds for which a thread sleeps at least, and for each thread that sleeps here.
const LEAST_NS: u64 = 1_000_000;
const EACH_NS: u64 = 200_000;

/// Takes the lock without a node; blocks until the clock shows `until` at most. Returns `true` if the caller holds
/// it.
#[cold]
pub fn lock_polling<P: Policy>(lock: &LockWord<P>, until: Option<u64>) -> bool {
    let (mut spin, mut is_over) = (Spin::new(), false);
    loop {
        let word = lock.load(Relaxed);
        if word & LOCKED == 0 {
            // Acquire: as in `Raw::lock`.
            if lock.compare_exchange(word, word | LOCKED, Acquire, Relaxed).is_ok() {
                // Relaxed: if the lock was reserved for the head, it was so until now.
                step!(
                    "poll-keeps-reservation-time",
                    table().node(head(word)).reserved_since.store(0, Relaxed)
                );
                return true;
            }
        } else if is_over {
            return false;
        } else if !spin.pause() {
            is_over = sleep(until);
        }
    }
}

/// Sleeps until the next attempt, or until the clock shows `until`. Returns `true` if that time is over.
#[cold]
pub fn sleep(until: Option<u64>) -> bool {
    let end = now().saturating_add(begin_sleep());
    Futex32::new(0).wait(0, Some(until.map_or(end, |until| until.min(end))));
    end_sleep();
    until.is_some_and(|until| now() >= until)
}

/// Returns for how many nanoseconds the calling thread is to sleep. It calls [`end_sleep`] then.
pub fn begin_sleep() -> u64 {
    // Relaxed, here and below: an estimate. Negative in the child of a fork in a handler that has interrupted a
    // sleep.
    let sleepers = table().pollers.fetch_add(1, Relaxed).wrapping_add(1) as i32;
    LEAST_NS.max(EACH_NS * u64::try_from(sleepers).unwrap_or(0))
}

/// Ends a sleep.
pub fn end_sleep() {
    table().pollers.fetch_sub(1, Relaxed);
}
