//! The hash table of halted heads, by the address of their lock: open addressing, as in the kernel.
//!
//! The thread at the head of a lock's queue, before it halts (parks on a futex), inserts the lock's address and its
//! node here, and then sets `SLOW` in the lock word. If it cannot, because the lock was released meanwhile, it clears
//! its entry again and does not halt. For a thread that has halted before it becomes the head, the holder does this.
//! The unlocker that finds `SLOW` removes the entry, and kicks the head.
//!
//! A lock has at most one entry, and a thread waits for one lock at a time. There are at most [`NODES`] waiters, and
//! twice as many places, so an insertion finds a free one, and searches are short. A search looks at every place
//! until it finds the lock: a cleared place ends none.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::Patches;
use super::node::NODES;
use super::stat::{self, Stat};

/// At least twice the nodes.
const BITS: u32 = NODES.ilog2() + 1;
const SIZE: usize = 1 << BITS;

/// A place for an entry. It is free while the address is 0.
#[derive(Debug)]
pub(super) struct Entry {
    lock: AtomicUsize,
    node: AtomicU32,
}

static TABLE: [Entry; SIZE] = [const { Entry { lock: AtomicUsize::new(0), node: AtomicU32::new(0) } }; SIZE];

/// Returns all places, from the one on to which the address of `lock` hashes (by Fibonacci hashing).
fn probe(lock: usize) -> impl Iterator<Item = &'static Entry> {
    let first = ((lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize;
    (0..SIZE).map(move |hop| &TABLE[(first + hop) % SIZE])
}

/// Inserts the head of `lock`. Returns its entry, for the head to [`clear`](Entry::clear) if it does not halt.
pub(super) fn insert<P: Patches>(lock: usize, node: u32) -> &'static Entry {
    for (hop, entry) in probe(lock).enumerate() {
        // Acquire: the thread that had the place has read it; pairs with the Release in `clear`.
        if entry.lock.load(Relaxed) == 0 && entry.lock.compare_exchange(0, lock, Acquire, Relaxed).is_ok() {
            // Relaxed: the caller publishes the node and the address, by the Release that sets `SLOW`.
            entry.node.store(node, Relaxed);
            if P::COUNTS {
                stat::add(Stat::HashHops, hop as u64);
            }
            return entry;
        }
    }
    unreachable!("there are more places than nodes");
}

/// Removes the entry of `lock`, which has one, and returns the head.
pub(super) fn remove(lock: usize) -> u32 {
    // Relaxed: the caller has read `SLOW` with Acquire.
    let entry = probe(lock).find(|entry| entry.lock.load(Relaxed) == lock);
    let entry = entry.expect("a lock with SLOW has an entry");
    let node = entry.node.load(Relaxed);
    entry.clear();
    node
}

impl Entry {
    /// Frees the entry.
    pub(super) fn clear(&self) {
        // Release: the caller has read the entry; pairs with the Acquire in `insert`.
        self.lock.store(0, Release);
    }
}
