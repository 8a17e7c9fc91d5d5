//! An eventcount for owners: they are many and fast, and their waiters are rare and pay for both sides.
//!
//! The owner releases by a store, executes a light fence, and checks whether a thread waits. A waiter announces itself, executes a
//! heavy fence, and checks the owner word. If the owner's fence came first, the waiter finds the release. Otherwise the owner finds
//! the waiter, and wakes it.

use crate::fence::{heavy, light};
use crate::sync::{AtomicU64, EventCount, Ordering::*, const_unless_loom, step};

/// See the [module](self).
#[derive(Debug)]
pub struct OwnerEvent(EventCount);

impl OwnerEvent {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(EventCount::new())
        }
    }

    /// Clears the owner word, of which the caller is the owner.
    #[inline]
    pub fn release(&self, owner: &AtomicU64) {
        // Release: publishes what the owner did; pairs with the Acquires of the next owner (`OwnerLock::try_lock`, a section), and
        // of a waiter's `done`.
        owner.store(0, Release);
        // Pairs with the heavy fence in `wait_until`.
        light();
        if self.0.has_waiters() {
            step!("event-waiter-not-woken", self.notify_slow());
        }
    }

    #[cold]
    fn notify_slow(&self) {
        self.0.notify_all();
    }

    /// Blocks until `done`, which acquires the owner word, returns `true`. Calls it again after each release.
    pub fn wait_until(&self, mut done: impl FnMut() -> bool) {
        while !done() {
            let key = self.0.prepare_wait();
            step!("no-fence-before-done", heavy());
            step!(
                "done-not-rechecked",
                if done() {
                    break;
                }
            );
            self.0.wait(key, None);
        }
    }
}
