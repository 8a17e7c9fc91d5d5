//! Waiting until an owner that never waits itself releases what it owns.
//!
//! Owners are many and fast; waiters are rare and pay for both sides. The owner releases by a store, passes a light
//! fence, and looks whether a thread waits. A waiter announces itself, issues a heavy fence, and looks at the owner. If
//! the owner's fence came first, the waiter finds the release; otherwise the owner finds the waiter, and wakes it.

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

    /// Releases what `owner`, the calling thread's word, stands for.
    #[inline]
    pub fn release(&self, owner: &AtomicU64) {
        // Release: publishes what the owner did; pairs with the Acquires of the next owner (`Lock::try_lock`, a
        // section), and of a waiter's `done`.
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

    /// Blocks until `done` returns `true`. It is called again after each release, and acquires.
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
