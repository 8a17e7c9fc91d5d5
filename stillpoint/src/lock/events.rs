//! Events in locks: the probes.

use crate::probes::probe;

/// What a thread waits for, in probes.
#[derive(Debug, Clone, Copy)]
pub enum Wait {
    /// For a mutex; or for a reader-writer lock, to write or for an upgradable read, behind others that do.
    Exclusive = 0,
    /// For a writer, to read.
    Writer = 1,
    /// For readers, to write.
    Readers = 2,
}

/// A thread begins to wait for the lock at this address.
#[inline(always)]
pub fn contended(lock: usize, wait: Wait) {
    probe!(lock_contended, lock, wait as u32);
}

/// The wait ends: the thread holds the lock, for which others `queue` or not, or its time is over.
#[inline(always)]
pub fn wait_ends(lock: usize, wait: Wait, acquired: bool, queue: impl FnOnce() -> bool) {
    if acquired {
        probe!(lock_acquired, lock, wait as u32, u32::from(queue()));
    } else {
        probe!(lock_timeout, lock, wait as u32);
    }
}

/// The thread releases the lock, and others queue for it.
#[inline(always)]
pub fn handover(lock: usize) {
    probe!(lock_handover, lock);
}
