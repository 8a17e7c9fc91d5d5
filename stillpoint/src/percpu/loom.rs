//! Per-CPU counters for the model checker, in the place of `counters.rs`.

use crate::sync::model::{CPUS, current_cpu};
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};

/// Counters with a word on each CPU. An add is atomic here, and on the machine alone on its CPU. Either way it finds
/// what was added there before, and continues its release sequence.
#[derive(Debug)]
pub struct CpuCounters<const N: usize> {
    words: [[AtomicU64; N]; CPUS],
    is_fast: AtomicU32,
}

impl<const N: usize> CpuCounters<N> {
    pub fn new() -> Self {
        let words = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        Self { words, is_fast: AtomicU32::new(1) }
    }

    pub fn try_add(&self, word: usize, by: u64) -> bool {
        let is_fast = self.is_fast.load(Relaxed) != 0;
        if is_fast {
            self.add_slow(word, by);
        }
        is_fast
    }

    pub fn add_slow(&self, word: usize, by: u64) {
        self.words[current_cpu()][word].fetch_add(by, Release);
    }

    pub fn add_without_allocating(&self, word: usize, by: u64) -> bool {
        self.add_slow(word, by);
        true
    }

    pub fn is_allocated(&self) -> bool {
        true
    }

    pub fn disable_fast(&self) {
        self.is_fast.store(0, Relaxed);
    }

    pub fn enable_fast(&self) {
        self.is_fast.store(1, Relaxed);
    }

    pub fn sum(&self, word: usize) -> u64 {
        self.words.iter().fold(0, |sum, cpu| sum.wrapping_add(cpu[word].load(Acquire)))
    }
}
