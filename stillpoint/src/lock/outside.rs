//! Waiting without a place in the queue.
//!
//! A thread has no node when all slots are in use, and a signal handler when it has interrupted the use of the thread's. They
//! take the lock whenever it is free, even if it is kept for the head, as a handler may have interrupted that head. They sleep on
//! one word for all, and every release that finds [`PARKED`] wakes them while there are any: slow and unfair, and good enough for what
//! hardly ever happens.
//!
//! # No wake-up is lost
//!
//! Who sleeps has counted itself in `unusual`, read `outside`, and then set [`PARKED`] by a read-modify-write in a word that says
//! [`LOCKED`]. The release comes later in the order of that word, so it takes the slow way, finds the count, and raises `outside`
//! to another number than was read. `PARKED` is only taken away by who takes a free lock, which comes after a release.

use crate::sync::{Ordering::*, now, spin_loop, spins, step};

use super::events::Event;
use super::local::{self, Local};
use super::policy::Policy;
use super::raw::Raw;
use super::table::{FORKED, table};
use super::word::{LOCKED, PARKED, head};

/// Counts the thread in `unusual` while it is there.
struct Present;

impl Present {
    fn new() -> Self {
        // If a handler forks in between, the child counts one too many. Relaxed: published by the Release of who sets `PARKED`.
        local::with(Local::goes_outside);
        table().unusual.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        // Relaxed: a release that finds the count still raised makes one system call too many.
        step!("outside-counted-for-good", table().unusual.fetch_sub(1, Relaxed));
        local::with(Local::comes_inside);
    }
}

impl<P: Policy> Raw<P> {
    /// Waits for the lock outside the queue. Whether it has been taken.
    #[cold]
    pub(super) fn lock_outside(&self, until: Option<u64>) -> bool {
        P::count(Event::Outside);
        let _present = Present::new();
        let mut left = spins(P::SPIN_NS);
        loop {
            // Relaxed: if the number is an old one, the sleep fails.
            let number = table().outside.load(Relaxed);
            let word = self.word().load(Relaxed);
            if word & LOCKED == 0 {
                if self.word().compare_exchange(word, word | LOCKED, Acquire, Relaxed).is_ok() {
                    // Relaxed: if it was kept for the first, that was until now.
                    table().node(head(word)).kept.store(0, Relaxed);
                    return true;
                }
                continue;
            }
            if left > 0 {
                left -= 1;
                spin_loop();
                continue;
            }
            // Release: the count; partner: the Acquire in `released`.
            if self.word().compare_exchange(word, word | PARKED, Release, Relaxed).is_err() {
                continue;
            }
            if table().outside.wait(number, until) || until.is_some_and(|until| now() >= until) {
                return false;
            }
        }
    }

    /// After a release: those outside look again.
    #[cold]
    pub(super) fn wake_outside() {
        // Relaxed, both: the word orders them.
        if table().unusual.load(Relaxed) & !FORKED != 0 {
            step!("outside-not-woken", {
                table().outside.fetch_add(1, Relaxed);
                table().outside.wake(u32::MAX);
            });
        }
    }
}
