//! What the critical sections do, one file an architecture: `x86_64.rs`, `aarch64.rs`, `riscv64.rs`.
//!
//! A section is one `asm!` block. It announces itself to the kernel, finds the row of the CPU it runs on, does its work
//! there, and commits it with one store. If the thread is preempted, migrated or gets a signal before that, the kernel makes
//! it go on at the section's failure, and nothing has happened. The scheme is that of the per-CPU critical sections of Paul
//! Turner and Andrew Hunter (2015) and of `rseq(2)`.
//!
//! # Invariants
//!
//! 1. *Nobody else on this CPU comes between.* From the announcement (`rseq_cs`) to the commit the thread is alone on its
//!    CPU, or is interrupted and does not commit. The CPU is read after the announcement: one that was read before may be
//!    another's by now.
//! 2. *Only registered threads commit.* The number of a thread that is not is negative, which as an unsigned one exceeds
//!    every bound; and so does the number of a CPU for which there is no row.
//! 3. *A plain word is written by sections only, in the row of their CPU.* Threads without a registration have an atomic word
//!    of their own ([`Row`]). A plain update and an atomic one of the same word would lose one of the two,
//!    as neither is locked against the other.
//! 4. *There is nothing to undo.* Before the commit a section writes to registers, and to memory that nobody reads unless it
//!    commits.
//! 5. *Sections end.* They have no loop without a bound, no call and no system call, and are repeated a bounded number of
//!    times ([`TRIES`]), as a debugger that steps through one interrupts it every time. Afterwards comes the fallback.
//! 6. *Who stops a row has it for himself.* Sections that take or give something look at the row's stop word, and fail
//!    where it is set. Whoever sets it and then interrupts the sections of that CPU ([`super::remote`]) is
//!    alone with the row: sections that began before have committed or start over, and see the stop.
//! 7. *No trace remains.* A section clears `rseq_cs` when it ends, so that a library that is unloaded leaves no pointer to
//!    itself.
//!
//! # What they work on
//!
//! | word of the row | stack ([`push`], [`pop`], and batches) | lock ([`compare_and_store`]) | ring ([`record`]) |
//! |---|---|---|---|
//! | 0 | stop | stop | stop (never set) |
//! | 1 | **length** | **holder** | **head**: records ever written |
//! | 2 | capacity; 0 until the CPU is in use | | records that may wait |
//! | 3 | address of the slots | | address of the slots |
//! | 4 | | | mask: slots less 1 |
//! | 8 | | | tail: records ever read, by the reader |
//!
//! These are words of a [`Row`]; [`add`] has any of the first eight. The commit is in bold.
//!
//! # Orderings
//!
//! The commit releases: what the thread did before, and what earlier sections on this CPU committed, happens before what
//! somebody does who reads the word by an acquire load and finds the commit. On x86-64 each store does that; elsewhere the
//! section has a releasing store or a fence. The threads that committed on one CPU one after another are ordered by that CPU,
//! and by the fences of the kernel that switched between them. Sections acquire what they find: the stop word, the holder
//! and the tail are written by threads on other CPUs.

use super::arch;
use super::rows::Row;

pub use arch::{add, compare_and_store, pop, pop_batch, push, push_batch, record};

/// How often a section is tried. Interruptions come milliseconds apart, sections last nanoseconds: a second try is rare, and
/// one that fails this often is stepped through.
const TRIES: usize = 16;

/// The numbers of the tries of a section.
pub fn tries() -> core::ops::Range<usize> {
    0..TRIES
}

/// What pops and batches return when the section failed: it was interrupted, the thread is not registered, or the row is
/// stopped.
pub const FAILED: u64 = u64::MAX;

/// What [`pop`] returns when there is nothing, and [`compare_and_store`] when the word is another.
pub const NOTHING: u64 = 0;

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is there.
    Done,
    /// There is no room.
    Full,
    /// As [`FAILED`].
    Failed,
}

/// Where a section that takes or gives something works.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Of the calling thread's area, from the thread pointer.
    pub offset: isize,
    /// Rows there are.
    pub cpus: usize,
    /// The row of CPU 0.
    pub rows: *const Row,
}

impl Place {
    /// That of `rows`.
    #[inline(always)]
    pub fn of(rows: &[Row], offset: isize) -> Self {
        Self { offset, cpus: rows.len(), rows: rows.as_ptr() }
    }
}

/// Where [`add`] works.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// As that of a place.
    pub offset: isize,
    /// The row of CPU 0. [`BOUND`] bytes before it stands how many there are: one register less than with the number in one.
    pub rows: *const Row,
    /// The word in the row of CPU 0, or in one of further rows.
    pub word: *const u64,
}

/// See [`Tally`].
pub const BOUND: isize = 128;

#[cfg(not(target_arch = "x86_64"))]
impl Tally {
    #[inline(always)]
    pub fn cpus(self) -> usize {
        // SAFETY: the caller of `add` vouches for it.
        unsafe { self.rows.byte_offset(-BOUND).cast::<usize>().read() }
    }
}

/// The area of the calling thread.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn area(offset: isize) -> *const u8 {
    crate::sys::rseq::thread_pointer().wrapping_offset(offset)
}
