//! Waiting for somebody who holds something and never waits himself.
//!
//! Those who hold are many and fast, those who wait are rare and pay for both. The holder gives back by a store, passes a
//! light fence, and looks whether he is awaited. Who waits says so, issues a heavy fence, and looks at the holder. If the
//! holder's fence came first, the other finds that he is done; otherwise the holder finds that he is awaited, and wakes.

use core::num::NonZeroU32;

use crate::sync::{AtomicU64, Futex, Ordering::*, const_unless_loom, heavy, light_by_backend, step};

/// Whether somebody waits. See the [module](self).
#[derive(Debug)]
pub struct Awaited(Futex);

impl Awaited {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(Futex::new(0))
        }
    }

    /// Gives back what `holder`, the calling thread, holds.
    #[inline]
    pub fn release(&self, holder: &AtomicU64) {
        // Release: what the holder did. Partners: the Acquires of whoever takes it next, in `Lock::try_lock`, a section, or
        // the `done` of a visitor.
        holder.store(0, Release);
        // Partner: the heavy fence in `wait_until`.
        light_by_backend();
        // Relaxed: see the module.
        if self.0.load(Relaxed) != 0 {
            step!("awaited-not-woken", self.wake_slow());
        }
    }

    #[cold]
    fn wake_slow(&self) {
        // Relaxed: the word carries nothing else.
        if self.0.swap(0, Relaxed) != 0 {
            self.0.wake(u32::MAX, NonZeroU32::MAX);
        }
    }

    /// Sleeps until `done` says so, which is asked whenever a holder has given back. It acquires.
    pub fn wait_until(&self, mut done: impl FnMut() -> bool) {
        while !done() {
            self.0.store(1, Relaxed);
            step!("no-fence-before-done", heavy());
            step!(
                "done-not-asked-again",
                if done() {
                    break;
                }
            );
            self.0.wait(1, NonZeroU32::MAX);
        }
    }
}
