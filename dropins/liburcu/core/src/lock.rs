//! A lock and an event, which allocate nothing. In the child of a fork, the locks of the parent are free.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::*};

use stillpoint::urcu::{futex_wait, futex_wake};

use crate::generation::generation;

/// A lock of one word: the [`generation`] of its last holder, and 0 (free), `HELD` or `CONTENDED` in the low bits.
/// It is free in another generation: a child has lost the holder.
#[derive(Debug)]
pub struct Lock(AtomicU32);

const HELD: u32 = 1;
/// Held, and a thread may wait for it.
const CONTENDED: u32 = 2;
const SHIFT: u32 = 2;

/// Releases the lock when dropped, in the generation that acquired it.
#[derive(Debug)]
pub struct LockGuard<'a>(&'a Lock, u32);

impl Lock {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Acquires the lock until the result is dropped.
    pub fn hold(&self) -> LockGuard<'_> {
        self.acquire();
        LockGuard(self, generation())
    }

    pub fn acquire(&self) {
        let base = generation() << SHIFT;
        let (mut now, mut taken) = (self.0.load(Relaxed), base | HELD);
        loop {
            let is_free = now >> SHIFT != base >> SHIFT;
            let new = if is_free { taken } else { base | CONTENDED };
            // Acquire: pairs with the Release in `release`.
            let changed = now == new || self.0.compare_exchange(now, new, Acquire, Relaxed).is_ok();
            if changed && is_free {
                return;
            }
            if changed {
                wait(&self.0, new, None);
                // Other threads may wait still.
                taken = new;
            }
            now = self.0.load(Relaxed);
        }
    }

    /// Releases the lock, which the calling thread holds.
    pub fn release(&self) {
        // Release: publishes what the lock protects; pairs with the Acquires in `acquire`.
        if self.0.swap(0, Release) == generation() << SHIFT | CONTENDED {
            wake(&self.0, 1);
        }
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        if self.1 == generation() {
            self.0.release();
        }
    }
}

/// Counts what threads wait for.
#[derive(Debug)]
pub struct Event(AtomicU32);

impl Event {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the count, to be taken before a condition is checked.
    pub fn count(&self) -> u32 {
        // Acquire: the condition; pairs with the Release in `notify`.
        self.0.load(Acquire)
    }

    /// Sleeps until the count is no longer `seen`, or until the clock ([`now`](stillpoint::urcu::now)) shows this
    /// time. May return early.
    pub fn wait(&self, seen: u32, until: Option<u64>) {
        wait(&self.0, seen, until);
    }

    /// Wakes all threads that wait, after the condition has changed.
    pub fn notify(&self) {
        // Release: publishes the condition; pairs with the Acquire in `count`.
        self.0.fetch_add(1, Release);
        wake(&self.0, u32::MAX);
    }

    /// Blocks until the condition holds, which a thread that calls [`notify`](Self::notify) establishes.
    pub fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let seen = self.count();
            if condition() {
                return;
            }
            self.wait(seen, None);
        }
    }
}

fn wait(word: &AtomicU32, expected: u32, until: Option<u64>) {
    // Every result means: check again.
    futex_wait(word, expected, NonZeroU32::MAX, until);
}

fn wake(word: &AtomicU32, count: u32) {
    futex_wake(word, count, NonZeroU32::MAX);
}
