//! Counters with a word on each CPU: `add` on the current CPU, `sum` over all.
//!
//! Counters, histograms and sleepable domains are built from [`CpuCounters`]. It is usable in a `static`; the first
//! `add` allocates its areas.
//!
//! # Layout
//!
//! ```text
//!         all
//!          v
//! | header | area of CPU 0: plain 0..8, atomic 0..8 | area of CPU 1 | ... | words 8..16, area of CPU 0 | ...
//!  128 B    64 B            64 B                     128 B
//! ```
//!
//! # Invariants
//!
//! 1. Only sections of a CPU write the plain words of its areas; threads that cannot run sections update the atomic
//!    words. Any thread may read both, and a sum contains both.
//! 2. The areas are published once, zeroed. They are freed with their owner, to which no thread then has a reference.
//! 3. `fast` is `all`, or null. It is set only if the C library registers every thread, at `offset`, which is set
//!    before, and never changed.
//! 4. If areas cannot be allocated, or are not yet, an add may go to `spare`, which is part of every sum. So no add is
//!    lost.
//!
//! # Orderings
//!
//! An `add` is a Release, and the `sum` that contains it an Acquire: see [`super::rseq`] for plain words. A sum is not
//! a snapshot: it may contain an add, and lack an earlier add of another thread to another area. It is exact if all
//! adds happen before it. Sleepable domains take two sums, of unlocks and then of locks, which the Acquires order; and
//! histograms, of counts and then of values.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU64, Ordering::*};

use super::rseq::registration::{self, Report};
use super::rseq::{self, CounterRef, CpuArea, WIDTH, tries};
use crate::sync::Memory;

/// Precedes the areas, in cache lines that are not written again.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Header {
    cpus: usize,
    /// The allocation that holds header and areas.
    memory: Memory,
}

/// The areas follow immediately.
const _: () = assert!(size_of::<Header>() == size_of::<CpuArea>());

/// `N` words on each CPU. See the [module](self).
///
/// The order of the fields puts what each add reads into one cache line.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct CpuCounters<const N: usize> {
    fast: AtomicPtr<CpuArea>,
    /// The offset of the rseq areas that the C library registers, once `fast` is set. It is here so that its load
    /// depends on no other load.
    offset: AtomicIsize,
    all: AtomicPtr<CpuArea>,
    spare: [AtomicU64; N],
}

impl<const N: usize> CpuCounters<N> {
    pub const fn new() -> Self {
        let spare = [const { AtomicU64::new(0) }; N];
        let (fast, all) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Self { fast, offset: AtomicIsize::new(0), all, spare }
    }

    /// Adds `by` to word `word` of the current CPU, wrapping around. Never blocks.
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

    /// The fast path of [`add`](Self::add). Returns `false`, without an effect, if the areas are not allocated, if the
    /// C library does not register the thread, after an interrupt, after [`disable_fast`](Self::disable_fast), and
    /// always after [`prepare_for(false)`](Self::prepare_for).
    ///
    /// # Panics
    ///
    /// If `word` is out of range.
    #[inline(always)]
    #[must_use]
    pub fn try_add(&self, word: usize, by: u64) -> bool {
        assert!(word < N, "no such word");
        // Acquire: sees the initialized areas and the offset; pairs with the Release in `make`.
        if let Some(areas) = NonNull::new(self.fast.load(Acquire)) {
            let offset = self.offset.load(Relaxed);
            // SAFETY: published, and alive as long as `self` (2). Every thread has an rseq area at the offset (3).
            return unsafe { rseq::add(counter_ref::<N>(areas, offset, word), by) };
        }
        false
    }

    /// The slow path of [`add`](Self::add). Always adds.
    #[cold]
    #[inline(never)]
    pub fn add_slow(&self, word: usize, by: u64) {
        self.add_to(self.areas().or_else(|| self.make_slow()), word, by);
    }

    /// [`add_slow`](Self::add_slow), but to `spare` if the areas have not been allocated. Returns `true` if it was a
    /// read-modify-write.
    pub fn add_without_allocating(&self, word: usize, by: u64) -> bool {
        self.add_to(self.areas(), word, by)
    }

    /// Returns `true` if the areas have been allocated.
    pub fn is_allocated(&self) -> bool {
        self.areas().is_some()
    }

    /// Returns `true` if it was a read-modify-write.
    fn add_to(&self, areas: Option<NonNull<CpuArea>>, word: usize, by: u64) -> bool {
        let Some(areas) = areas else {
            // Release, as for all adds: publishes what the thread did before; pairs with the Acquire in `sum`.
            self.spare[word].fetch_add(by, Release);
            return true;
        };
        if let Some(offset) = registration::offset() {
            for _ in tries() {
                // SAFETY: as in `try_add`; the thread has an rseq area at the offset.
                if unsafe { rseq::add(counter_ref::<N>(areas, offset, word), by) } {
                    return false;
                }
            }
        }
        // The word of any CPU is correct, as it is atomic.
        let near = registration::nearest(cpus(areas));
        // Release: as above.
        area(areas, word, near).atomic[word % WIDTH].fetch_add(by, Release);
        true
    }

    /// Returns the sum of word `word` over all CPUs, wrapping around.
    ///
    /// # Panics
    ///
    /// If `word` is out of range.
    pub fn sum(&self, word: usize) -> u64 {
        // Acquire, here and below: sees what happened before an add that the sum contains; pairs with the commits and
        // atomic adds of `add`.
        let spare = self.spare[word].load(Acquire);
        let Some(areas) = self.areas() else { return spare };
        (0..cpus(areas)).fold(spare, |sum, cpu| {
            let area = area(areas, word, cpu);
            let (plain, atomic) = (&area.plain[word % WIDTH], &area.atomic[word % WIDTH]);
            sum.wrapping_add(plain.load(Acquire)).wrapping_add(atomic.load(Acquire))
        })
    }

    /// Allocates the areas now, so that the first add does not.
    pub fn prepare(&self) {
        if self.areas().is_none() {
            let _ = self.make_slow();
        }
    }

    /// Allocates the areas before the first add. Unless `fast`, [`try_add`](Self::try_add) then always returns `false`.
    /// Returns `false` if there is no memory. A global allocator that re-enters this from the allocation allocates the
    /// areas itself.
    pub fn prepare_for(&self, fast: bool) -> bool {
        self.make(registration::report(), fast).is_some()
    }

    /// Sets the sums to `sums`, whatever other threads were adding at the fork.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and not within an add.
    pub unsafe fn reset_in_child(&self, sums: [u64; N]) {
        for (spare, sum) in self.spare.iter().zip(sums) {
            spare.store(sum, Relaxed);
        }
        let Some(areas) = self.areas() else { return };
        for (word, cpu) in (0..N).flat_map(|word| (0..cpus(areas)).map(move |cpu| (word, cpu))) {
            let area = area(areas, word, cpu);
            for word in [&area.plain[word % WIDTH], &area.atomic[word % WIDTH]] {
                // A store would take memory for the area.
                if word.load(Relaxed) != 0 {
                    word.store(0, Relaxed);
                }
            }
        }
    }

    /// Makes [`try_add`](Self::try_add) return `false`, in threads that see it.
    pub fn disable_fast(&self) {
        // Relaxed, both: carries nothing.
        if !self.fast.load(Relaxed).is_null() {
            self.fast.store(ptr::null_mut(), Relaxed);
        }
    }

    /// Undoes [`disable_fast`](Self::disable_fast).
    pub fn enable_fast(&self) {
        if self.fast.load(Relaxed).is_null() && self.offset.load(Relaxed) != 0 {
            // Release: publishes areas and offset again; pairs with the Acquire in `try_add`.
            self.fast.store(self.all.load(Acquire), Release);
        }
    }

    fn areas(&self) -> Option<NonNull<CpuArea>> {
        // Acquire: sees the initialized areas; pairs with the Release in `make`.
        NonNull::new(self.all.load(Acquire))
    }

    /// Allocates the areas. Returns `None` if there is no memory, or if an allocator that is being asked for it calls
    /// this.
    #[cold]
    fn make_slow(&self) -> Option<NonNull<CpuArea>> {
        let report = registration::report();
        registration::unless_making(|| self.make(report, true))
    }

    /// Allocates the areas. Unless `fast`, `try_add` does not use them.
    fn make(&self, report: &Report, fast: bool) -> Option<NonNull<CpuArea>> {
        let layout = layout::<N>(report.cpus())?;
        // Many CPUs may be possible that never exist: nothing is written to their areas.
        let memory = Memory::sparse(layout)?;
        let header = memory.start::<Header>();
        // SAFETY: fresh memory, large and aligned enough for the header and the areas, whose initial value is zero.
        let fresh = unsafe {
            header.write(Header { cpus: report.cpus(), memory });
            header.cast::<CpuArea>().add(1)
        };
        // Release: publishes the areas; pairs with the Acquire in `areas`. Acquire: sees the areas of a faster thread.
        match self.all.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => {
                if fast && report.library_offset() != 0 {
                    self.offset.store(report.library_offset(), Relaxed);
                    // Release: publishes areas and offset; pairs with the Acquire in `try_add`.
                    self.fast.store(fresh.as_ptr(), Release);
                }
                Some(fresh)
            }
            Err(faster) => {
                // SAFETY: ours alone.
                unsafe { free(fresh) };
                NonNull::new(faster)
            }
        }
    }
}

impl<const N: usize> Drop for CpuCounters<N> {
    fn drop(&mut self) {
        if let Some(areas) = NonNull::new(*self.all.get_mut()) {
            // SAFETY: no thread has a reference to `self` any more (2).
            unsafe { free(areas) };
        }
    }
}

/// # Safety
///
/// `areas` come from `make`, and no thread uses them any more.
unsafe fn free(areas: NonNull<CpuArea>) {
    // SAFETY: the header precedes them; the rest is the caller's contract.
    unsafe { areas.sub(1).cast::<Header>().read().memory.free() };
}

fn layout<const N: usize>(cpus: usize) -> Option<Layout> {
    let areas = N.div_ceil(WIDTH).checked_mul(cpus)?.checked_add(1)?;
    Layout::array::<CpuArea>(areas).ok()
}

#[inline(always)]
fn cpus(areas: NonNull<CpuArea>) -> usize {
    // SAFETY: the header precedes the areas, was written before they were published, and lives as long as they do.
    unsafe { areas.sub(1).cast::<Header>().as_ref().cpus }
}

/// Returns a reference to `word` for sections.
///
/// # Safety
///
/// `areas` are those of a `CpuCounters<N>`, and `word` is less than `N`.
#[inline(always)]
unsafe fn counter_ref<const N: usize>(areas: NonNull<CpuArea>, offset: isize, word: usize) -> CounterRef {
    // SAFETY: the caller's contract: there is an area for each CPU and each eight words.
    unsafe {
        let first = areas.add(if N <= WIDTH { 0 } else { word / WIDTH * cpus(areas) });
        CounterRef { offset, word: first.cast::<u64>().add(word % WIDTH).as_ptr() }
    }
}

/// Returns the area of `cpu` that contains `word`.
fn area<'a>(areas: NonNull<CpuArea>, word: usize, cpu: usize) -> &'a CpuArea {
    // SAFETY: as in `counter_ref`; all accesses are atomic, or in sections, which the language does not see.
    unsafe { areas.add(word / WIDTH * cpus(areas) + cpu).as_ref() }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Returns `true` if one of many tries is not interrupted.
    fn is_fast(counters: &CpuCounters<1>) -> bool {
        (0..1000).any(|_| counters.try_add(0, 1))
    }

    #[test]
    fn reset_replaces_adds_of_each_kind() {
        let counters = CpuCounters::<2>::new();
        counters.add_without_allocating(0, 1);
        (0..100).for_each(|_| counters.add(0, 1));
        let areas = counters.areas().expect("there is memory");
        area(areas, 0, 0).atomic[0].fetch_add(1, Relaxed);
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
        for prepared_for_fast in [true, false] {
            let counters = CpuCounters::new();
            counters.enable_fast();
            assert!(!is_fast(&counters));
            assert!(counters.prepare_for(prepared_for_fast));
            assert_eq!(is_fast(&counters), prepared_for_fast && has_fast);
            counters.disable_fast();
            assert!(!is_fast(&counters));
            counters.add(0, 1);
            counters.enable_fast();
            assert_eq!(is_fast(&counters), prepared_for_fast && has_fast);
            assert_eq!(counters.sum(0), if prepared_for_fast && has_fast { 3 } else { 1 });
        }
    }
}
