//! A word on each CPU, for owners of which there may be many: they share areas.
//!
//! A [`CpuWord`] takes its word at its first use, from a *block*: an area for each CPU, with room for sixteen owners. So
//! an owner costs eight bytes for each possible CPU. Blocks are never freed; words that are given back are taken again
//! ([`super::free_words`]).
//!
//! ```text
//! | header | area of CPU 0: word 0..16 | area of CPU 1 | ...
//!  128 B    128 B
//! ```
//!
//! # Invariants
//!
//! 1. A word that is free is zero on each CPU, and no section adds to it.
//! 2. Only sections that find the owner's gate open add to its word ([`rseq::add_open`]). The owner shuts the gate once,
//!    before it takes the word away ([`CpuWord::close`]): the interrupt between the two aborts sections that found the gate
//!    open and have not committed, and publishes those that have. So the sum is final, and (1) holds.
//! 3. `fast` is `all`, or null. It is set only if the C library registers every thread, at `offset`, which is set
//!    before, and never changed.
//! 4. `all` is null, then a word of a block, then [`CLOSED`]; or closed at once. So no word is taken after that.
//! 5. Blocks are never freed: a section that starts after the word has been given back finds the gate shut, but computes
//!    an address in its block.
//!
//! # Orderings
//!
//! A word is published with what precedes it by a Release, and read by an Acquire, as areas of counters are
//! ([`super::cpu_counters`]). The sum needs no ordering: the interrupt is a full fence of this thread and of all that may have
//! added.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU64, Ordering::*};

use super::free_words::{Block, FREE};
use super::rseq::registration::{self, Mode};
use super::rseq::{self, CounterRef, tries};
use super::{event, remote};
use crate::sync::{Memory, step};
use crate::sys::fork::register_for_fork;
use crate::sys::rseq::possible_cpus;

/// The words of an area.
const WORDS: usize = 16;

/// The area of a CPU, or the header: as many bytes as the areas that [`rseq::add_open`] assumes.
#[repr(C, align(128))]
struct Area([AtomicU64; WORDS]);

const _: () = assert!(size_of::<Area>() == size_of::<rseq::CpuArea>());

/// A block begins with its header.
const _: () = assert!(size_of::<Block>() == size_of::<Area>());

/// The value of `all` after [`CpuWord::close`].
const CLOSED: *mut u64 = ptr::without_provenance_mut(1);

/// See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub struct CpuWord {
    fast: AtomicPtr<u64>,
    /// See (3). It is here so that its load depends on no other load.
    offset: AtomicIsize,
    all: AtomicPtr<u64>,
}

impl CpuWord {
    pub const fn new() -> Self {
        let (fast, all) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Self { fast, offset: AtomicIsize::new(0), all }
    }

    /// Adds `by` on the current CPU, wrapping around. Returns `false`, without an effect, if bit 0 of `gate` is set, if
    /// the word has not been taken, if the C library does not register the thread, or after an interrupt.
    #[inline(always)]
    #[must_use]
    pub fn try_add(&self, gate: &AtomicU64, by: u64) -> bool {
        // Acquire: sees the block and the offset; pairs with the Release in `take`.
        if let Some(word) = NonNull::new(self.fast.load(Acquire)) {
            let counter = CounterRef { offset: self.offset.load(Relaxed), word: word.as_ptr() };
            // SAFETY: the block is never freed (5). Every thread has an rseq area at the offset (3).
            return unsafe { rseq::add_open(counter, gate.as_ptr(), by) };
        }
        false
    }

    /// [`try_add`](Self::try_add) with several attempts, in threads that the C library does not register too. Takes the
    /// word first, which may allocate.
    pub fn try_add_slow(&self, gate: &AtomicU64, by: u64) -> bool {
        let Some((word, offset)) = self.prepare().zip(registration::offset()) else { return false };
        let counter = CounterRef { offset, word: word.as_ptr() };
        // SAFETY: as in `try_add`; the thread has an rseq area at the offset.
        tries().any(|_| unsafe { rseq::add_open(counter, gate.as_ptr(), by) })
    }

    /// Takes the word, if that has not been done. Returns `None` after [`close`](Self::close), if there is no memory, and
    /// if sections are not used or could not be interrupted.
    pub fn prepare(&self) -> Option<NonNull<u64>> {
        // Acquire: sees the block; pairs with the Release in `take`.
        match self.all.load(Acquire) {
            CLOSED => None,
            word => NonNull::new(word).or_else(|| self.take()),
        }
    }

    #[cold]
    fn take(&self) -> Option<NonNull<u64>> {
        let report = registration::report();
        if report.mode() != Mode::Rseq || !remote::is_available() {
            return None;
        }
        register_for_fork(&event::FORK);
        let fresh = FREE.take().map(|(block, index)| word(block, index));
        let fresh = fresh.or_else(|| registration::unless_making(allocate))?;
        // Release: publishes the block; pairs with the Acquires of `all`. Acquire: sees the block of a faster thread.
        match self.all.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => {
                if report.library_offset() != 0 {
                    self.offset.store(report.library_offset(), Relaxed);
                    // Release: publishes block and offset; pairs with the Acquire in `try_add`.
                    self.fast.store(fresh.as_ptr(), Release);
                }
                Some(fresh)
            }
            Err(faster) => {
                give_back(fresh);
                NonNull::new(faster).filter(|word| word.as_ptr() != CLOSED)
            }
        }
    }

    /// Returns the sum over all CPUs, and gives the word back. The caller has shut the gate, for ever, and calls this once.
    /// Returns `None` if the kernel denies the interrupt, although it allowed it before: the word is lost then.
    pub fn close(&self) -> Option<u64> {
        // Acquire: sees the block; pairs with the Release in `take`.
        let Some(word) = NonNull::new(self.all.swap(CLOSED, Acquire)) else { return Some(0) };
        step!("sections-not-interrupted", remote::interrupt_all()?);
        // Relaxed: the interrupt was a fence.
        let sum = words(word).fold(0, |sum: u64, word| sum.wrapping_add(word.load(Relaxed)));
        give_back(word);
        Some(sum)
    }
}

impl Drop for CpuWord {
    fn drop(&mut self) {
        // No thread adds to it, as none has a reference to `self`.
        if let Some(word) = NonNull::new(*self.all.get_mut()).filter(|word| word.as_ptr() != CLOSED) {
            give_back(word);
        }
    }
}

/// Returns the word of each CPU.
fn words<'a>(first: NonNull<u64>) -> impl Iterator<Item = &'a AtomicU64> {
    // SAFETY: a word in the area of CPU 0, in a block with an area for each CPU, which is never freed (5). All accesses are
    // atomic, or in sections, which the language does not see.
    (0..possible_cpus()).map(move |cpu| unsafe { first.cast::<AtomicU64>().add(cpu * WORDS).as_ref() })
}

/// Makes the words of an owner zero, and free. No section adds to them (1).
fn give_back(first: NonNull<u64>) {
    for word in words(first) {
        // Relaxed: `FREE` publishes it. A page that was never written to stays so.
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
    let index = first.addr().get() % size_of::<Area>() / size_of::<u64>();
    // SAFETY: the header precedes the area of CPU 0, in which this word is. It is never freed (5).
    let block = unsafe { first.sub(index).cast::<Block>().sub(1).as_ref() };
    FREE.give_back(block, 1 << index);
}

/// Returns a word in the area of CPU 0.
fn word(block: &'static Block, index: usize) -> NonNull<u64> {
    // The provenance of all blocks is exposed, as a reference to the header does not reach the areas.
    let areas = ptr::from_ref(block).addr() + size_of::<Block>();
    let word = ptr::with_exposed_provenance_mut(areas + index * size_of::<u64>());
    NonNull::new(word).expect("it is in memory")
}

/// Allocates a block, and takes its first word. Returns `None` if there is no memory.
#[cold]
fn allocate() -> Option<NonNull<u64>> {
    let layout = Layout::array::<Area>(possible_cpus().checked_add(1)?).ok()?;
    // Many CPUs may be possible that never exist: nothing is written to their areas.
    let start = Memory::sparse(layout)?.start::<Block>();
    start.as_ptr().expose_provenance();
    // SAFETY: fresh memory, large and aligned enough, for the header and for areas, whose initial value is zero. It is never
    // freed (5).
    let block: &'static Block = unsafe {
        start.write(Block::new());
        start.as_ref()
    };
    FREE.add(block, (1 << WORDS) - 2);
    Some(word(block, 0))
}
