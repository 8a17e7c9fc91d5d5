//! Per-CPU counters for the model checker, in the place of `cpu_counters.rs`. A thread of a model is on the CPU that
//! it names (`sync::model::run_on`).

use crate::sync::model::{CPUS, current_cpu};
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};

/// Counters with a word on each CPU.
///
/// On the machine an add is a load and a store with Release, which the kernel restarts if another thread of the same
/// CPU comes between them: no add is lost. The kernel's switch from one thread to the next is a full barrier, so the
/// second thread's store publishes what the first one's did. In the model, an atomic add with Release is both: it is
/// not lost, and continues the release sequence of the adds before it.
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
