//! Per-CPU counters for the model checker, in the place of `counters.rs`.

use crate::sync::model::{CPUS, current_cpu};
use crate::sync::{AtomicU64, Ordering::*};

/// Counters with a word on each CPU. An add is atomic here, and on the machine alone on its CPU. Either way it finds
/// what was added there before, and continues its release sequence.
#[derive(Debug)]
pub struct CpuCounters<const N: usize>([[AtomicU64; N]; CPUS]);

impl<const N: usize> CpuCounters<N> {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
    }

    pub fn try_add(&self, word: usize, by: u64) -> bool {
        self.add_slow(word, by);
        true
    }

    pub fn add_slow(&self, word: usize, by: u64) {
        self.0[current_cpu()][word].fetch_add(by, Release);
    }

    pub fn add_without_allocating(&self, word: usize, by: u64) {
        self.add_slow(word, by);
    }

    pub fn is_allocated(&self) -> bool {
        true
    }

    /// Without an effect, which readers may see late.
    pub fn disable_fast(&self) {}

    pub fn enable_fast(&self) {}

    pub fn sum(&self, word: usize) -> u64 {
        self.0.iter().fold(0, |sum, cpu| sum.wrapping_add(cpu[word].load(Acquire)))
    }
}
