//! The CPUs that have pushed to a pool: a set that only grows, so that `pop` skips the others.
//!
//! A process may run on two CPUs of a machine that may have hundreds. A local stack has no capacity until its CPU is in
//! the set, so the first push on a CPU fails and [opens](UsedCpus::open) the stack. Later pushes pay nothing.
//!
//! # No value is missed
//!
//! A pop that comes after a push finds the CPU of the value in the set:
//!
//! 1. *Local stack.* The CPU is inserted before the capacity is stored (Release). The push's section loads that
//!    capacity before it commits. On x86-64 that load is an Acquire. The other architectures are multi-copy atomic:
//!    what the section sees, and what precedes it by the Release, is visible to all CPUs, and the releasing commit
//!    comes after the load.
//! 2. *Overflow array.* The thread that stores values there has inserted the CPU, or has seen it in the set.

use core::iter;
use core::ops::Range;

use crate::sync::{AtomicU64, Ordering::*};

/// See the [module](self).
#[derive(Debug)]
pub struct UsedCpus {
    /// A bit for each CPU.
    words: Box<[AtomicU64]>,
    cpus: usize,
}

impl UsedCpus {
    /// Returns an empty set, for CPUs below `cpus`.
    pub fn new(cpus: usize) -> Self {
        Self { words: (0..cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), cpus }
    }

    /// Inserts `cpu`.
    pub fn insert(&self, cpu: usize) {
        let (word, bit) = (&self.words[cpu / 64], 1 << (cpu % 64));
        // Relaxed, both: what happens after this load sees the bit that it sees. The set publishes nothing else.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Inserts `cpu`, and then stores the `capacity` of its local stack, which takes no values before.
    pub fn open(&self, cpu: usize, stack: &AtomicU64, capacity: u64) {
        self.insert(cpu);
        // Release: publishes the insertion (1); pairs with the load in the section of `push`.
        stack.store(capacity, Release);
    }

    /// Iterates over the CPUs in the set: from `first` on, then those below.
    pub fn from(&self, first: usize) -> impl Iterator<Item = usize> {
        self.among(first..self.cpus).chain(self.among(0..first))
    }

    fn among(&self, cpus: Range<usize>) -> impl Iterator<Item = usize> {
        let words = cpus.start / 64..cpus.end.div_ceil(64);
        let bits = words.flat_map(|word| {
            // Relaxed: as in `insert`.
            let mut left = self.words[word].load(Relaxed);
            iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * 64 + bit)
            })
        });
        bits.filter(move |cpu| cpus.contains(cpu))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn used_cpus_iterate_in_order_from_the_first() {
        let used = UsedCpus::new(200);
        for cpu in [199, 0, 70, 64, 63, 70] {
            used.insert(cpu);
        }
        let from = |first| used.from(first).collect::<Vec<_>>();
        assert_eq!(from(0), [0, 63, 64, 70, 199]);
        assert_eq!(from(64), [64, 70, 199, 0, 63]);
        assert_eq!(from(71), [199, 0, 63, 64, 70]);
        assert_eq!(from(199), [199, 0, 63, 64, 70]);
        assert_eq!(UsedCpus::new(3).from(2).count(), 0);
    }
}
