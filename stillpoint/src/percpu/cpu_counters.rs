//! Counters with a word on each CPU: `add` on the current CPU, `sum` over all.
//!
//! Counters, histograms, reader-writer locks and sleepable domains are built from [`CpuCounters`]. It is usable in a
//! `static`; the first `add` takes its words ([`super::words`]).
//!
//! Adds that cannot go to a word of a CPU go to `spare`, which is part of every sum: those without memory, and those
//! of threads that cannot run sections where others do. So no add is lost.
//!
//! # Orderings
//!
//! An `add` is a Release, and the `sum` that contains it an Acquire: see [`super::rseq`] for sections. A sum is not a
//! snapshot: it may contain an add, and lack an earlier add of another thread on another CPU. It is exact if all adds
//! happen before it. Sleepable domains take two sums, of unlocks and then of locks, which the Acquires order; and
//! histograms, of counts and then of values.

use core::sync::atomic::{AtomicU64, Ordering::*};

use super::rseq::registration::{self, Mode};
use super::words::CpuWords;

/// `N` words on each CPU. See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub struct CpuCounters<const N: usize> {
    words: CpuWords<N>,
    spare: [AtomicU64; N],
}

impl<const N: usize> CpuCounters<N> {
    pub const fn new() -> Self {
        Self { words: CpuWords::new(), spare: [const { AtomicU64::new(0) }; N] }
    }

    /// Adds `by` to word `word` of the current CPU, wrapping around.
    ///
    /// # Panics
    ///
    /// If `word` is out of range.
    #[inline(always)]
    pub fn add(&self, word: usize, by: u64) {
        if !self.try_add(word, by) {
            self.add_slow(word, by);
        }
    }

    /// The fast path of [`add`](Self::add): see [`CpuWords::try_add`].
    #[inline(always)]
    #[must_use]
    pub fn try_add(&self, word: usize, by: u64) -> bool {
        self.words.try_add(word, by)
    }

    /// The slow path of [`add`](Self::add). Always adds.
    #[cold]
    #[inline(never)]
    pub fn add_slow(&self, word: usize, by: u64) {
        self.prepare();
        self.add_without_allocating(word, by);
    }

    /// [`add_slow`](Self::add_slow), but to `spare` if the words have not been taken. Returns `true` if it was a
    /// read-modify-write.
    #[inline]
    pub fn add_without_allocating(&self, word: usize, by: u64) -> bool {
        let added = self.is_allocated() && self.words.try_add_slow(word, by);
        if !added {
            self.add_atomically(word, by);
        }
        !added
    }

    /// Adds by a read-modify-write, where no section does.
    #[cold]
    #[inline(never)]
    fn add_atomically(&self, word: usize, by: u64) {
        if self.is_allocated() && registration::report().mode() == Mode::Atomic {
            return self.words.add_atomically(word, by);
        }
        // Release, as for all adds: publishes what the thread did before; pairs with the Acquire in `sum`.
        self.spare[word].fetch_add(by, Release);
    }

    /// Returns `true` if the words have been taken.
    pub fn is_allocated(&self) -> bool {
        self.words.first().is_some()
    }

    /// Returns the sum of word `word` over all CPUs, wrapping around.
    ///
    /// # Panics
    ///
    /// If `word` is out of range.
    pub fn sum(&self, word: usize) -> u64 {
        // Acquire: sees what happened before an add that the sum contains; pairs with the Release above.
        self.spare[word].load(Acquire).wrapping_add(self.words.sum(word))
    }

    /// Returns the sums of the `len` words from `first` on, as [`sum`](Self::sum) does, but much faster.
    #[cfg(feature = "percpu")]
    pub fn sums(&self, first: usize, len: usize) -> Box<[u64]> {
        // Acquire: as in `sum`.
        let mut sums: Box<[u64]> =
            self.spare[first..][..len].iter().map(|spare| spare.load(Acquire)).collect();
        self.words.add_sums(first, &mut sums);
        sums
    }

    /// Takes the words now, so that the first add does not, unless there is no memory, or an allocator that is being
    /// asked for it calls this.
    pub fn prepare(&self) {
        if !self.is_allocated() {
            let report = registration::report();
            let _ = registration::unless_making(|| self.words.take(report, true).then_some(()));
        }
    }

    /// Takes the words before the first add. Unless `fast`, [`try_add`](Self::try_add) then always returns `false`.
    /// Returns `false` if there is no memory.
    pub fn prepare_for(&self, fast: bool) -> bool {
        self.words.take(registration::report(), fast)
    }

    /// Sets the sums to `sums`, whatever other threads were adding at the fork.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and not within an add.
    pub unsafe fn reset_in_child(&self, sums: [u64; N]) {
        for (spare, sum) in self.spare.iter().zip(&sums) {
            spare.store(*sum, Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { self.words.clear() };
    }

    /// Makes [`try_add`](Self::try_add) return `false`, in threads that see it.
    pub fn disable_fast(&self) {
        self.words.disable_fast();
    }

    /// Undoes [`disable_fast`](Self::disable_fast).
    pub fn enable_fast(&self) {
        self.words.enable_fast();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Returns `true` if one of many tries is not interrupted.
    fn is_fast(counters: &CpuCounters<1>) -> bool {
        (0..1000).any(|_| {
            // Raises the limit above this CPU.
            counters.add_without_allocating(0, 0);
            counters.try_add(0, 1)
        })
    }

    #[test]
    fn reset_replaces_adds_of_each_kind() {
        let counters = CpuCounters::<2>::new();
        counters.add_without_allocating(0, 1);
        (0..101).for_each(|_| counters.add(0, 1));
        assert_eq!([0, 1].map(|word| counters.sum(word)), [102, 0]);
        // SAFETY: no other thread uses these counters.
        unsafe { counters.reset_in_child([5, 6]) };
        assert_eq!([0, 1].map(|word| counters.sum(word)), [5, 6]);
    }

    #[test]
    fn racing_first_adds_are_all_in_the_sum() {
        const THREADS: u64 = 3;
        for _ in 0..60 {
            let (counters, start) = (CpuCounters::<1>::new(), Barrier::new(THREADS as usize));
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        start.wait();
                        counters.add(0, 1);
                    });
                }
            });
            assert_eq!(counters.sum(0), THREADS);
        }
    }

    #[test]
    fn disabled_fast_path_fails_until_it_is_enabled() {
        let has_fast = registration::report().library_offset() != 0;
        let counters = CpuCounters::new();
        counters.enable_fast();
        assert!(!is_fast(&counters));
        assert!(counters.prepare_for(false));
        counters.add(0, 1);
        assert!(!is_fast(&counters));
        let mut sum = 1;
        for _ in 0..2 {
            counters.enable_fast();
            assert_eq!(is_fast(&counters), has_fast);
            counters.disable_fast();
            assert!(!is_fast(&counters));
            sum += u64::from(has_fast);
        }
        assert_eq!(counters.sum(0), sum);
    }
}
