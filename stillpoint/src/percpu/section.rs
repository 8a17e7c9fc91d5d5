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
//!    of their own ([`Rows`](super::rows::Rows)). A plain update and an atomic one of the same word would lose one of the two,
//!    as neither is locked against the other.
//! 4. *There is nothing to undo.* Before the commit a section writes to registers, and to memory that nobody reads unless it
//!    commits.
//! 5. *Sections end.* They have no loop without a bound, no call and no system call, and are repeated a bounded number of
//!    times ([`TRIES`]), as a debugger that steps through one interrupts it every time. Afterwards comes the fallback.
//! 6. *No trace remains.* A section clears `rseq_cs` when it ends, so that a library that is unloaded leaves no pointer to
//!    itself.
//!
//! # Orderings
//!
//! The commit releases: what the thread did before, and what earlier sections on this CPU committed, happens before what
//! somebody does who reads the word by an acquire load and finds the commit. On x86-64 each store does that; elsewhere the
//! section has a releasing store or a fence. The threads that committed on one CPU one after another are ordered by that CPU,
//! and by the fences of the kernel that switched between them.

pub use super::arch::add;

/// How often a section is tried. Interruptions come milliseconds apart, sections last nanoseconds: a second try is rare, and
/// one that fails this often is stepped through.
pub const TRIES: usize = 16;

/// Where a section works.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Of the calling thread's area, from the thread pointer.
    pub offset: isize,
    /// Rows there are.
    pub cpus: usize,
    /// The plain word in the row of CPU 0; rows are [`ROW`] bytes apart.
    pub word: *mut u64,
}

/// Bytes from the row of one CPU to the next: two cache lines, as processors fetch them in pairs.
pub const ROW: usize = 128;
