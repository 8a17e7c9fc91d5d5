//! When the gate of a [reader-writer lock](super::gate) opens, and how long it is in word mode.
//!
//! A new lock is in word mode, where it costs what a lock of one word does. [`Policy::WORD_READS`] reads without a
//! write in between end it, or fewer if they overlap; so does a writer that has spun in vain, and an upgradable
//! reader. With 128 reads in place of 1024, a lock with a write in a hundred operations would hardly ever be in word
//! mode, and on two CPUs has a third of the throughput.
//!
//! From then on, a write costs at most one heavy fence and, as a rule (5), one wake-up, once the writer holds
//! `writers`. A lock that is written often stays shut, and costs no heavy fence: opening it pays only if the reads
//! until the next writer save more than that fence costs. Opening after as many slow reads as one fence costs is the
//! ski-rental rule: at most twice the optimum. How long fences take is measured. Slow reads are sampled, so as not to
//! write what all CPUs read. A writer after few reads, which finds no other thread at the lock, may begin word mode
//! again.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::lock::policy::Policy;
use crate::sync::CachePadded;

/// Nanoseconds that the open gate saves a read: a full fence, and the slow path.
const READ_SAVES_NS: u64 = 12;
/// Slow reads since the last writer after which the counters are allocated.
const READS_TO_ALLOCATE: u32 = 128;
/// The bounds of [`READS_PER_FENCE`].
const MIN_READS: u32 = 16;
const MAX_READS: u32 = 1024;
/// How many slow reads cost as much as a heavy fence: an estimate for all locks.
static READS_PER_FENCE: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(READS_TO_ALLOCATE));

/// Returns `true` if the next sample opens the gate, after so many reads.
pub fn opens<P: Policy>(reads: u32) -> bool {
    let after = match P::OPEN_AFTER {
        Some(after) => after,
        // Relaxed: an estimate.
        None => READS_PER_FENCE.load(Relaxed).max(READS_TO_ALLOCATE),
    };
    reads.saturating_add(P::SAMPLE) >= after
}

/// Returns `true` if the next sample allocates the counters, after so many reads.
pub fn allocates<P: Policy>(reads: u32) -> bool {
    reads.saturating_add(P::SAMPLE) >= P::OPEN_AFTER.unwrap_or(READS_TO_ALLOCATE)
}

/// Takes a heavy fence of `ns` nanoseconds into account, by a quarter; at most twice the estimate, as the thread may
/// have been preempted.
pub fn fence_took(ns: u64) {
    // Relaxed, here and below: an estimate.
    let old = READS_PER_FENCE.load(Relaxed);
    let new = (3 * old + (ns / READ_SAVES_NS).min(2 * u64::from(old)) as u32) / 4;
    READS_PER_FENCE.store(new.clamp(MIN_READS, MAX_READS), Relaxed);
}

/// Takes into account that a writer found a gate shut after so many slow reads: if they are many, lowers the estimate
/// a little. Otherwise, once it is too high, no gate would open, and no fence correct it.
pub fn gate_was_shut(reads: u32) {
    if reads >= READS_TO_ALLOCATE {
        let old = READS_PER_FENCE.load(Relaxed);
        READS_PER_FENCE.store((old - 1).max(MIN_READS), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
pub fn reads_per_fence() -> u32 {
    READS_PER_FENCE.load(Relaxed)
}
