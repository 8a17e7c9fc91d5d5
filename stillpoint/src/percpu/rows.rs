//! Words that each CPU has for itself, and that are added to where a thread happens to run.
//!
//! [`Words`] is the building block of counters, histograms and sleepable domains: `add` on the current CPU, `sum` over all.
//! It is usable in a `static`; its rows are allocated by the first `add`.
//!
//! # Layout
//!
//! ```text
//!         all
//!          v
//! | header | row of CPU 0: plain 0..8, atomic 0..8 | row of CPU 1 | ... | words 8..16, row of CPU 0 | ...
//!  128 B    64 B           64 B                     128 B
//! ```
//!
//! # Invariants
//!
//! 1. A plain word is changed by critical sections only, those of the CPU whose row it is in; an atomic word by atomic
//!    operations only, of threads that cannot run sections. Both are read by anybody, and a sum contains both.
//! 2. Rows are published once, complete and zeroed, and freed with their owner, to whom nobody then has a reference.
//! 3. `fast` is `all`, or null: not null only where the C library registers every thread, at `offset`.
//! 4. Where rows cannot be had, an add goes to `spare`, which is part of every sum. So an add never fails.
//!
//! # Orderings
//!
//! An `add` releases what its thread did before, and a `sum` that contains it acquires that: see [`super::section`] for
//! plain words. A sum is no snapshot: it may contain an add and lack an earlier one to another row by another thread. Who
//! needs an exact sum takes it after the adds (they happen before it), or takes it twice with a fence between, as sleepable
//! domains do.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU64, Ordering::*};

use super::runtime::{self, Report};
use super::section::{self, BOUND, Tally, tries};
use crate::sync::Block;

/// Words of a kind in a row.
const WIDTH: usize = 8;

/// What a CPU has for itself: two cache lines, as processors fetch them in pairs, so that no two CPUs write to the same.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Row {
    /// Changed by critical sections on this CPU; how else, says who owns the row.
    pub plain: [AtomicU64; WIDTH],
    /// Changed by atomic operations of anybody.
    pub atomic: [AtomicU64; WIDTH],
}

/// The sections count on it.
const _: () = assert!(size_of::<Row>() == 128);

impl Row {
    /// A row for each CPU.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn for_each_cpu() -> Box<[Self]> {
        boxed(runtime::report().cpus(), |_| Self::default())
    }
}

/// `len` values.
///
/// # Panics
///
/// If there is no memory.
pub fn boxed<T>(len: usize, make: impl FnMut(usize) -> T) -> Box<[T]> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).expect("there is memory for per-CPU data");
    values.extend((0..len).map(make));
    values.into_boxed_slice()
}

/// What stands before the rows, in a line that nobody writes to.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Header {
    cpus: usize,
    /// What header and rows are in.
    memory: Block,
}

/// Rows come right behind it, and the sections find the bound there.
const _: () = assert!(size_of::<Header>() == size_of::<Row>() && size_of::<Header>() as isize == BOUND);

/// `N` words on each CPU. See the [module](self).
///
/// In this order: what each add reads is in one cache line.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Words<const N: usize> {
    fast: AtomicPtr<Row>,
    /// Of the area that the C library registers, once `fast` is not null. Here, as a load that waits for no other.
    offset: AtomicIsize,
    all: AtomicPtr<Row>,
    spare: [AtomicU64; N],
}

impl<const N: usize> Words<N> {
    pub const fn new() -> Self {
        let spare = [const { AtomicU64::new(0) }; N];
        let (fast, all) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Self { fast, offset: AtomicIsize::new(0), all, spare }
    }

    /// Adds `by` to word `word` of the CPU the thread is on, wrapping around. Never waits.
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    pub fn add(&self, word: usize, by: u64) {
        if !self.try_add(word, by) {
            self.add_slow(word, by);
        }
    }

    /// [`add`](Self::add), if that takes a few instructions: false, and nothing has happened, before the rows are there, in
    /// threads that the C library does not register, after an interruption, and always if the owner wants that
    /// ([`prepare_for`](Self::prepare_for)).
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    #[must_use]
    pub fn try_add(&self, word: usize, by: u64) -> bool {
        assert!(word < N, "no such word");
        // Acquire: header and rows are complete, and the offset is there; partner: the Release in `make`.
        if let Some(rows) = NonNull::new(self.fast.load(Acquire)) {
            let offset = self.offset.load(Relaxed);
            // SAFETY: published, and alive as long as `self` (2). Every thread has an area at the offset (3).
            return unsafe { section::add(tally::<N>(rows, offset, word), by) };
        }
        false
    }

    /// [`add`](Self::add), in all circumstances.
    #[cold]
    #[inline(never)]
    pub fn add_slow(&self, word: usize, by: u64) {
        let Some(rows) = self.rows().or_else(|| self.make_slow()) else {
            // Release: partner is the Acquire in `sum`, as for all adds.
            self.spare[word].fetch_add(by, Release);
            return;
        };
        if let Some(offset) = runtime::offset() {
            for _ in tries() {
                // SAFETY: as in `try_add`; the thread has an area at the offset.
                if unsafe { section::add(tally::<N>(rows, offset, word), by) } {
                    return;
                }
            }
        }
        // Any CPU's word would do, as it is atomic.
        let near = runtime::nearest(cpus(rows));
        // Release: as above.
        row(rows, word, near).atomic[word % WIDTH].fetch_add(by, Release);
    }

    /// The sum of word `word` over all CPUs, wrapping around.
    ///
    /// # Panics
    ///
    /// If there is no such word.
    pub fn sum(&self, word: usize) -> u64 {
        // Acquire, here and below: what was done before an add that is found. Partners: the sections and atomic adds of `add`.
        let spare = self.spare[word].load(Acquire);
        let Some(rows) = self.rows() else { return spare };
        (0..cpus(rows)).fold(spare, |sum, cpu| {
            let row = row(rows, word, cpu);
            let (plain, atomic) = (&row.plain[word % WIDTH], &row.atomic[word % WIDTH]);
            sum.wrapping_add(plain.load(Acquire)).wrapping_add(atomic.load(Acquire))
        })
    }

    /// Allocates the rows, if that has not been done, so that the first add need not.
    pub fn prepare(&self) {
        if self.rows().is_none() {
            let _ = self.make_slow();
        }
    }

    /// Allocates the rows before the first add, with [`try_add`](Self::try_add) failing always unless `fast`. False if there is
    /// no memory. A global allocator that comes back here from the allocation makes the rows itself.
    pub fn prepare_for(&self, fast: bool) -> bool {
        self.make(runtime::report(), fast).is_some()
    }

    /// Makes the sums `sums`, whatever other threads were adding.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not in the middle of an add.
    pub unsafe fn reset_in_child(&self, sums: [u64; N]) {
        for (spare, sum) in self.spare.iter().zip(sums) {
            spare.store(sum, Relaxed);
        }
        let Some(rows) = self.rows() else { return };
        for (word, cpu) in (0..N).flat_map(|word| (0..cpus(rows)).map(move |cpu| (word, cpu))) {
            let row = row(rows, word, cpu);
            row.plain[word % WIDTH].store(0, Relaxed);
            row.atomic[word % WIDTH].store(0, Relaxed);
        }
    }

    fn rows(&self) -> Option<NonNull<Row>> {
        // Acquire: header and rows are complete; partner: the Release in `make`.
        NonNull::new(self.all.load(Acquire))
    }

    /// Makes the rows; nothing if there is no memory for them, or the allocator calls.
    #[cold]
    fn make_slow(&self) -> Option<NonNull<Row>> {
        let report = runtime::report();
        runtime::unless_making(|| self.make(report, true))
    }

    /// Makes the rows. Without `fast`, they are not for `try_add`.
    fn make(&self, report: &Report, fast: bool) -> Option<NonNull<Row>> {
        let layout = layout::<N>(report.cpus())?;
        let memory = Block::zeroed(layout)?;
        let header = memory.start::<Header>();
        // SAFETY: fresh memory, large and aligned enough for the header and rows behind it, which are zeroed, as they start.
        let fresh = unsafe {
            header.write(Header { cpus: report.cpus(), memory });
            header.cast::<Row>().add(1)
        };
        // Release: partner is the Acquire in `rows`. Acquire: the rows of whoever was faster.
        match self.all.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => {
                if fast && report.library_offset() != 0 {
                    self.offset.store(report.library_offset(), Relaxed);
                    // Release: partner is the Acquire in `try_add`.
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

impl<const N: usize> Drop for Words<N> {
    fn drop(&mut self) {
        if let Some(rows) = NonNull::new(*self.all.get_mut()) {
            // SAFETY: no thread has a reference to `self` any more (2).
            unsafe { free(rows) };
        }
    }
}

/// # Safety
///
/// `rows` come from `make`, and no thread uses them any more.
unsafe fn free(rows: NonNull<Row>) {
    // SAFETY: the header comes before them; the rest is the caller's contract.
    unsafe { rows.sub(1).cast::<Header>().read().memory.free() };
}

fn layout<const N: usize>(cpus: usize) -> Option<Layout> {
    let rows = N.div_ceil(WIDTH).checked_mul(cpus)?.checked_add(1)?;
    Layout::array::<Row>(rows).ok()
}

#[inline(always)]
fn header<'a>(rows: NonNull<Row>) -> &'a Header {
    // SAFETY: written right before the rows before their pointer gets out, and alive while their owner is.
    unsafe { rows.sub(1).cast().as_ref() }
}

#[inline(always)]
fn cpus(rows: NonNull<Row>) -> usize {
    header(rows).cpus
}

/// Where sections find `word`.
///
/// # Safety
///
/// `rows` are those of a `Words<N>`, and `word` is less than `N`.
#[inline(always)]
unsafe fn tally<const N: usize>(rows: NonNull<Row>, offset: isize, word: usize) -> Tally {
    // SAFETY: the caller's contract: for each eight words, there is a row for each CPU.
    unsafe {
        let first = rows.add(if N <= WIDTH { 0 } else { word / WIDTH * cpus(rows) });
        Tally { offset, rows: rows.as_ptr(), word: first.cast::<u64>().add(word % WIDTH).as_ptr() }
    }
}

/// The row of `cpu` that has `word`.
fn row<'a>(rows: NonNull<Row>, word: usize, cpu: usize) -> &'a Row {
    // SAFETY: as in `tally`; all accesses to rows are atomic, or sections that the language does not see.
    unsafe { rows.add(word / WIDTH * cpus(rows) + cpu).as_ref() }
}
