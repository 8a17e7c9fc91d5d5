//! Words that a thread sets for a short time: locks, and stops of areas. In the child of a fork they show whether the
//! thread that set them is gone.

use core::sync::atomic::{AtomicU64, Ordering::*};

use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;

/// Counts the processes from the first one to this one: a word that is set holds the number of the process that set
/// it.
static PROCESS: AtomicU64 = AtomicU64::new(1);

/// Returns the value that a thread of this process stores in such a word. It is not 0.
pub fn current_owner() -> u64 {
    // Relaxed, here and below: changes while the process has one thread.
    PROCESS.load(Relaxed)
}

/// Returns `true` if `owner` is a thread of the parent, which is not in this process.
pub fn died_in_fork(owner: u64) -> bool {
    owner != 0 && owner != current_owner()
}

static FORK: ForkHook = ForkHook::in_child(1, || _ = PROCESS.fetch_add(1, Relaxed));
init_array!(register_for_fork(&FORK));

/// A lock for short operations, whose users only try it. No user code runs under it.
#[derive(Debug)]
pub struct OwnerLock(AtomicU64);

impl OwnerLock {
    /// Returns a lock without an owner.
    pub fn new() -> Self {
        // It may not have been called before `main`.
        register_for_fork(&FORK);
        Self(AtomicU64::new(0))
    }

    /// Acquires the lock if it is free, or its owner died in a fork. Never blocks.
    pub fn try_lock(&self) -> bool {
        // Relaxed: the compare-exchange below orders.
        let owner = self.0.load(Relaxed);
        (owner == 0 || died_in_fork(owner))
            // Acquire: sees what the last owner did; pairs with the Release in `unlock`.
            && self.0.compare_exchange(owner, current_owner(), Acquire, Relaxed).is_ok()
    }

    /// Releases the lock.
    pub fn unlock(&self) {
        // Release: publishes what the owner did; pairs with the Acquire in `try_lock`.
        self.0.store(0, Release);
    }
}
