//! The overflow array of a CPU in a [`Pool`](super::Pool), behind a try-lock.
//!
//! The owner of the lock stores words first, and the length after them. So the array is consistent at every moment,
//! and the child of a fork can use it, whatever the owner was doing.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::owner::OwnerLock;
use super::words::CpuWords;
use crate::sync::step;

#[derive(Debug)]
#[repr(align(128))]
pub struct Overflow {
    lock: OwnerLock,
    /// The number of words in use. Changed by the owner of the lock.
    len: AtomicUsize,
}

impl Overflow {
    /// Returns an empty array. The pool has the memory of its words.
    pub fn new() -> Self {
        Self { lock: OwnerLock::new(), len: AtomicUsize::new(0) }
    }

    /// Returns the number of words: a hint, unless the caller has the lock.
    pub fn len(&self) -> usize {
        // Relaxed: exact under the lock only, whose acquisition orders it.
        self.len.load(Relaxed)
    }

    /// Acquires the lock, unless another thread has it. `cpu` is the CPU of the array, and `words` are its own.
    /// Pushes raise the limit of `stacks` above the CPU.
    pub fn try_lock<'a>(
        &'a self,
        cpu: usize,
        words: &'a [AtomicU64],
        stacks: &'a CpuWords<2>,
    ) -> Option<LockedOverflow<'a>> {
        // Also if the last owner died in a fork: the array is consistent.
        self.lock.try_lock().then(|| LockedOverflow { overflow: self, cpu, words, stacks })
    }
}

/// An overflow array whose lock the calling thread holds. Dropping this releases the lock.
#[derive(Debug)]
pub struct LockedOverflow<'a> {
    overflow: &'a Overflow,
    cpu: usize,
    words: &'a [AtomicU64],
    stacks: &'a CpuWords<2>,
}

impl LockedOverflow<'_> {
    /// Returns the number of words for which there is room.
    pub fn room(&self) -> usize {
        self.words.len() - self.overflow.len()
    }

    /// Stores the first of `words`, as many as there is room for. Returns their number.
    pub fn push(&self, words: &[u64]) -> usize {
        if !words.is_empty() {
            step!("overflow-cpu-not-marked", self.stacks.raise_limit(self.cpu));
        }
        let len = self.overflow.len();
        let free = &self.words[len..];
        for (slot, word) in free.iter().zip(words) {
            slot.store(*word, Relaxed);
        }
        let stored = free.len().min(words.len());
        // Release: publishes the words with the length, for the child of a concurrent fork.
        self.overflow.len.store(len + stored, Release);
        stored
    }

    /// Removes the words that were stored last, as many as fit into `words`. Returns their number.
    pub fn pop(&self, words: &mut [u64]) -> usize {
        let len = self.overflow.len();
        let rest = len.saturating_sub(words.len());
        for (word, slot) in words.iter_mut().zip(&self.words[rest..len]) {
            *word = slot.load(Relaxed);
        }
        self.overflow.len.store(rest, Relaxed);
        len - rest
    }
}

impl Drop for LockedOverflow<'_> {
    fn drop(&mut self) {
        self.overflow.lock.unlock();
    }
}
