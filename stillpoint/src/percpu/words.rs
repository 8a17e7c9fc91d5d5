//! Some words on each CPU: an object of per-CPU memory ([`super::memory`]), taken at its first use.
//!
//! # Invariants
//!
//! 1. The offset of the [`Place`] is 0, or the library registers every thread at that offset, and there is an object.
//! 2. The word of the place is null, then an object, then [`CLOSED`] for ever; or closed at once. It changes from null
//!    under the lock of [`memory`].
//! 3. Words of CPUs from the limit on are zero. It only grows: a thread whose section fails raises it above its CPU,
//!    and tries again. So sums, and owners that give an object back, visit the CPUs that were used.
//! 4. In a process that uses sections, only they change the words. Otherwise only atomic operations do. What is
//!    chosen never changes, and is chosen before an object is taken.
//! 5. The object is given back by the destructor, when no thread has a reference to `self`, and so none is in a
//!    section; or by [`close`](CpuWords::close), after the gate was shut and all sections were interrupted: those
//!    that had found it open have committed, and the sum sees them, or start over, and find the gate shut before they
//!    look for the word.
//!
//! # Orderings
//!
//! An object is published with what precedes it by a Release, and read by an Acquire. The limit needs no ordering: a
//! thread that an add happens before finds at least the limit that the section found.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::memory;
use super::rseq::cpu_number::cpu;
use super::rseq::registration::{self, Report};
use super::rseq::{self, Place, STRIDE, tries};
use crate::sync::step;
use crate::sys::rseq::possible_cpus;

/// The value of `word` after [`CpuWords::close`].
const CLOSED: *mut u64 = ptr::without_provenance_mut(1);

/// `N` words on each CPU. See the [module](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct CpuWords<const N: usize>(Place);

impl<const N: usize> CpuWords<N> {
    pub const fn new() -> Self {
        Self(Place::new())
    }

    /// Adds `by` to word `word` of the current CPU, wrapping around. Returns `false`, without an effect, if there is
    /// no object, if the C library does not register the thread, after an interrupt, beyond the limit, and after
    /// [`disable_fast`](Self::disable_fast).
    ///
    /// # Panics
    ///
    /// If `word` is out of range.
    #[inline(always)]
    #[must_use]
    pub fn try_add(&self, word: usize, by: u64) -> bool {
        // SAFETY: every thread has an rseq area at the offset, and there is an object; or the offset is 0 (1).
        unsafe { Self::section(&self.0, word, by) }
    }

    /// [`try_add`](Self::try_add) to the only word, unless bit 0 of `gate` is set.
    #[cfg(feature = "percpu")]
    #[inline(always)]
    #[must_use]
    pub fn try_add_open(&self, gate: &AtomicU64, by: u64) -> bool {
        // SAFETY: as above.
        unsafe { rseq::add_open(&self.0, gate.as_ptr(), by) }
    }

    /// # Safety
    ///
    /// The calling thread has an rseq area at the offset, and there is an object; or the offset is 0.
    #[inline(always)]
    unsafe fn section(place: &Place, word: usize, by: u64) -> bool {
        assert!(word < N, "no such word");
        // SAFETY: the caller's contract, and within the object.
        unsafe { if N == 1 { rseq::add(place, by) } else { rseq::add_at(place, word, by) } }
    }

    /// [`try_add`](Self::try_add) with several attempts, below a limit that it raises, in threads that the C library
    /// does not register too. There is an object.
    #[inline]
    pub fn try_add_slow(&self, word: usize, by: u64) -> bool {
        // SAFETY: as the caller says, and `attempt` has the offset.
        self.attempt(|place| unsafe { Self::section(place, word, by) })
    }

    /// [`try_add_open`](Self::try_add_open) in the same way. Takes an object first, which may allocate.
    #[cfg(feature = "percpu")]
    pub fn try_add_open_slow(&self, gate: &AtomicU64, by: u64) -> bool {
        // SAFETY: the thread has an rseq area at the offset. There is an object, or the gate is shut (5).
        self.prepare_open() && self.attempt(|place| unsafe { rseq::add_open(place, gate.as_ptr(), by) })
    }

    /// Takes an object for adds behind a gate, if that has not been done. Returns `false` after
    /// [`close`](Self::close), if there is no memory, and if sections are not used or could not be interrupted.
    #[cfg(feature = "percpu")]
    pub fn prepare_open(&self) -> bool {
        // Relaxed: `take` and `first` see the object.
        if self.0.word.load(Relaxed).is_null() {
            let report = registration::report();
            if report.mode() == registration::Mode::Rseq && super::remote::is_available() {
                let _ = registration::unless_making(|| self.take(report, true).then_some(()));
            }
        }
        self.first().is_some()
    }

    #[inline(always)]
    fn attempt(&self, section: impl Fn(&Place) -> bool) -> bool {
        registration::offset()
            .is_some_and(|offset| section(&self.0.at(offset)) || self.try_again(offset, &section))
    }

    #[cold]
    fn try_again(&self, offset: isize, section: &dyn Fn(&Place) -> bool) -> bool {
        tries().any(|_| {
            self.raise_limit(cpu());
            section(&self.0.at(offset))
        })
    }

    /// Adds by an atomic operation: see (4). There is an object.
    pub fn add_atomically(&self, word: usize, by: u64) {
        let near = registration::nearest(possible_cpus());
        self.raise_limit(near);
        let word = self.words(word).nth(near);
        // Release: publishes what the thread did before; pairs with the Acquire in `sum`.
        word.expect("it is below the limit").fetch_add(by, Release);
    }

    /// Raises the limit above `cpu`.
    pub fn raise_limit(&self, cpu: usize) {
        self.0.raise_limit(limit_above(cpu));
    }

    /// Returns a number above those of the CPUs that were used.
    pub fn limit(&self) -> usize {
        self.0.limit()
    }

    /// Returns word `word` of `cpu`, if there is an object and the CPU is below the limit.
    ///
    /// # Safety
    ///
    /// The object has such a word.
    #[cfg(feature = "percpu")]
    pub unsafe fn get(&self, cpu: usize, word: usize) -> Option<&AtomicU64> {
        let first = self.first().filter(|_| cpu < self.limit())?;
        // SAFETY: the caller's contract.
        Some(unsafe { self.word_at(first, cpu, word) })
    }

    /// Returns the object for sections of the caller's.
    #[cfg(feature = "percpu")]
    #[inline(always)]
    pub fn place(&self) -> &Place {
        &self.0
    }

    /// Returns the sum of word `word` over all CPUs, wrapping around. It is 0 without an object.
    pub fn sum(&self, word: usize) -> u64 {
        // Acquire: sees what happened before an add that the sum contains; pairs with the commits of sections, and
        // with the Release in `add_atomically`.
        self.words(word).fold(0, |sum: u64, word| sum.wrapping_add(word.load(Acquire)))
    }

    /// Adds to `sums` those of the words from `first` on, as [`sum`](Self::sum) returns each. CPU by CPU: the words
    /// of one are neighbours, and those of many CPUs would displace each other in the cache, as they are a multiple
    /// of a page apart.
    #[cfg(feature = "percpu")]
    pub fn add_sums(&self, first: usize, sums: &mut [u64]) {
        assert!(first + sums.len() <= N, "no such word");
        let Some(object) = self.first() else { return };
        for cpu in 0..self.limit() {
            for (word, sum) in (first..).zip(&mut *sums) {
                // Acquire: as in `sum`.
                // SAFETY: the word is in range.
                *sum = sum.wrapping_add(unsafe { self.word_at(object, cpu, word) }.load(Acquire));
            }
        }
    }

    /// Returns word `word` of each CPU below the limit.
    fn words(&self, word: usize) -> impl Iterator<Item = &AtomicU64> {
        assert!(word < N, "no such word");
        let first = self.first();
        let limit = first.map_or(0, |_| self.limit());
        let first = first.unwrap_or(NonNull::dangling());
        // SAFETY: the word is in range. Without an object there are no CPUs.
        (0..limit).map(move |cpu| unsafe { self.word_at(first, cpu, word) })
    }

    /// Returns a word of the object that begins at `first`.
    ///
    /// # Safety
    ///
    /// The object is that of `self`, and has such a word.
    #[inline(always)]
    unsafe fn word_at(&self, first: NonNull<u64>, cpu: usize, word: usize) -> &AtomicU64 {
        let word = first.as_ptr().wrapping_add(word).wrapping_byte_add(cpu * STRIDE);
        // SAFETY: the caller's contract. The object is not given back while `self` is borrowed, or by `close` after
        // this. All accesses are atomic, or in sections, which the language does not see.
        unsafe { &*word.cast() }
    }

    /// Returns the first word of CPU 0, if there is an object.
    pub fn first(&self) -> Option<NonNull<u64>> {
        NonNull::new(self.0.first()).filter(|word| word.as_ptr() != CLOSED)
    }

    /// Takes an object, if there is none and it has not been closed. Unless `fast`, [`try_add`](Self::try_add) does
    /// not use it. Returns `false` if there is no memory, or no choice of the mode yet.
    #[cold]
    pub fn take(&self, report: &Report, fast: bool) -> bool {
        self.take_larger(N, report, fast)
    }

    /// [`take`](Self::take) of an object of `words` words, `N` or more. The owner makes the others zero at the end.
    pub fn take_larger(&self, words: usize, report: &Report, fast: bool) -> bool {
        let limit = limit_above(cpu());
        report.is_final()
            && memory::take(words, &|fresh| {
                // Relaxed: changes from null under the lock only.
                let is_first = self.0.word.load(Relaxed).is_null();
                if is_first {
                    self.0.publish(if fast { report.library_offset() } else { 0 }, limit, fresh.as_ptr());
                }
                is_first
            })
    }

    /// Makes [`try_add`](Self::try_add) return `false`, in threads that see it.
    pub fn disable_fast(&self) {
        if self.0.offset() != 0 {
            self.0.clear_offset();
        }
    }

    /// Undoes [`disable_fast`](Self::disable_fast).
    pub fn enable_fast(&self) {
        if self.0.offset() == 0 && self.first().is_some() {
            self.0.set_offset(registration::report().library_offset());
        }
    }

    /// Makes the words zero.
    ///
    /// # Safety
    ///
    /// No other thread uses them.
    pub unsafe fn clear(&self) {
        let Some(first) = self.first() else { return };
        // CPU by CPU: the words of one are neighbours.
        for (cpu, index) in (0..self.limit()).flat_map(|cpu| (0..N).map(move |index| (cpu, index))) {
            // SAFETY: the index is in range.
            let word = unsafe { self.word_at(first, cpu, index) };
            // A store would take memory for a page that was never written to. Relaxed, both: the caller's contract.
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }

    /// Returns the sum, and gives the object back. The caller has shut the gate, for ever, and calls this once.
    /// Returns `None` if the kernel denies the interrupt, although it allowed it before.
    #[cfg(feature = "percpu")]
    pub fn close(&self) -> Option<u64> {
        // Relaxed, all: there is nothing to see.
        let close_unused = || {
            let is_unused = self.0.word.load(Relaxed).is_null();
            if is_unused {
                self.0.word.store(CLOSED, Relaxed);
            }
            is_unused
        };
        if self.first().is_none() && memory::locked(close_unused) == Some(true) {
            return Some(0);
        }
        step!("sections-not-interrupted", super::remote::interrupt_all()?);
        let sum = self.sum(0);
        // SAFETY: the gate is shut, and sections were interrupted (5).
        unsafe { self.give_back() };
        self.0.word.store(CLOSED, Relaxed);
        Some(sum)
    }

    /// # Safety
    ///
    /// No section uses the object any more.
    unsafe fn give_back(&self) {
        if let Some(word) = self.first() {
            // SAFETY: the caller's contract.
            unsafe {
                step!("words-not-cleared", self.clear());
                memory::give_back(word);
            }
        }
    }
}

fn limit_above(cpu: usize) -> usize {
    cpu.min(possible_cpus() - 1) + 1
}

impl<const N: usize> Drop for CpuWords<N> {
    fn drop(&mut self) {
        // SAFETY: no thread has a reference to `self` (5).
        unsafe { self.give_back() };
    }
}
