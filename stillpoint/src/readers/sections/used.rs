//! Which readers may have work attached: a queue of callbacks, which may outlive the thread of its reader.
//!
//! A domain's worker looks at the queues of the *used* readers, and not at all that there ever was at once. A thread
//! that claims a reader makes it used. The worker, and no other thread, forgets that, if it finds that the reader is
//! not claimed and has no work.
//!
//! A push changes no bit and needs no fence for this: its reader was made used by the claim, and stays used while it
//! is claimed. The worker's last look, after a heavy fence ([`crate::reclaim::worker::state`]), sees what precedes the
//! light fence of the push: that the reader is used, or a later change of this, which is the worker's own. Other
//! threads look at all queues: they could miss what the worker forgets for a moment.
//!
//! # A claim beside the worker
//!
//! ```text
//! thread                                     worker
//! claimed = 1, used = 1                      claimed = 0 and no work?
//! pushes                                     used = 0
//! claimed = 0                                claimed = 1 or work? used = 1
//! ```
//!
//! The worker may find that the reader is free and has no work, then the thread claims it, pushes, and ends. If the
//! thread sets `used` before the worker clears it, the worker acquires `claimed` by that, and finds it, or acquires
//! the push by the later change of `claimed`: it sets `used` again. Otherwise `used` stays as the thread has set it.

use crate::sync::{AtomicU64, Ordering::*, step};

/// A bit for each reader of a group. See the [module](self).
#[derive(Debug)]
pub struct Used {
    claimed: AtomicU64,
    used: AtomicU64,
}

impl Used {
    pub fn new() -> Self {
        Self { claimed: AtomicU64::new(0), used: AtomicU64::new(0) }
    }

    /// Returns the bits of the used readers.
    pub fn bits(&self) -> u64 {
        // Relaxed: a heavy fence orders it.
        self.used.load(Relaxed)
    }

    /// Returns the bits of the used readers that no thread has, more or less.
    pub fn left(&self) -> u64 {
        // Relaxed: `forget_unless` decides.
        self.bits() & !self.claimed.load(Relaxed)
    }

    /// A thread has claimed the reader.
    pub fn claim(&self, bit: u64) {
        self.claimed.fetch_or(bit, Relaxed);
        // Release: publishes the line above; pairs with the second Acquire in `forget_unless`.
        step!("claim-without-use", self.used.fetch_or(bit, Release));
    }

    /// A thread gives up the reader.
    pub fn release(&self, bit: u64) {
        // Release: publishes the work that is left; pairs with the first Acquire in `forget_unless`.
        self.claimed.fetch_and(!bit, Release);
    }

    /// The reader is not used any more, unless it is claimed, or `has_work`. One thread at a time calls this.
    pub fn forget_unless(&self, bit: u64, has_work: impl Fn() -> bool) {
        // Acquire: sees the work that the last owner has left; pairs with the Release in `release`.
        let is_used = || self.claimed.load(Acquire) & bit != 0 || has_work();
        if is_used() {
            return;
        }
        // Acquire: sees the claim of a thread that has made it used; pairs with the Release in `claim`.
        self.used.fetch_and(!bit, Acquire);
        step!(
            "forgotten-not-checked-again",
            if is_used() {
                // Relaxed: the worker looks for itself.
                self.used.fetch_or(bit, Relaxed);
            }
        );
    }

    /// Forgets all readers. For the only thread of a process.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        self.claimed.store(0, Relaxed);
        self.used.store(0, Relaxed);
    }
}
