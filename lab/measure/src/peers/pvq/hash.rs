//! The hash table of halted heads, by the address of their lock: open addressing, as in the kernel.
//!
//! A lock has at most one entry, and a thread waits for one lock at a time, so there are fewer entries than nodes. An
//! entry is inserted and removed under its lock, or by a head that could not announce it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::Patches;
use super::node::NODES;
use super::stat::{self, Stat};

const BITS: u32 = NODES.ilog2() + 1;
const SIZE: usize = 1 << BITS;

/// An entry, which is free if the address is 0.
#[derive(Debug)]
pub(super) struct Entry {
    lock: AtomicUsize,
    node: AtomicU32,
}

static TABLE: [Entry; SIZE] = [const { Entry { lock: AtomicUsize::new(0), node: AtomicU32::new(0) } }; SIZE];

/// Returns all entries, beginning where that of `lock` is likely.
fn probe(lock: usize) -> impl Iterator<Item = &'static Entry> {
    let first = ((lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize;
    (0..SIZE).map(move |hop| &TABLE[(first + hop) % SIZE])
}

/// Inserts the head of `lock`.
pub(super) fn insert<P: Patches>(lock: usize, node: u32) -> &'static Entry {
    for (hop, entry) in probe(lock).enumerate() {
        // Acquire: the entry has been read; pairs with the Release in `clear`.
        if entry.lock.load(Relaxed) == 0 && entry.lock.compare_exchange(0, lock, Acquire, Relaxed).is_ok() {
            // Relaxed, as the address: both are published by `SLOW`.
            entry.node.store(node, Relaxed);
            if P::COUNTS {
                stat::add(Stat::HashHops, hop as u64);
            }
            return entry;
        }
    }
    unreachable!("there are more entries than nodes");
}

/// Removes the entry of `lock`, which has one, and returns the head.
pub(super) fn remove(lock: usize) -> u32 {
    // Relaxed: the caller has acquired `SLOW`.
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
