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
//! 2. *Only registered threads commit.* The CPU number of a thread that is not registered is negative, and its sections fail. A
//!    number that is not negative has a row: there is one for each possible CPU ([`possible_cpus`](crate::sys::rseq::possible_cpus)), a constant of the machine
//!    that the kernel itself says.
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
//! 7. *An announcement may outlive its section.* A section does not clear `rseq_cs`. The kernel does, when it next preempts the
//!    thread or delivers a signal outside of that section. Until then `rseq_cs` points to a table that does no harm:
//!    - Table, section and the code behind the signature are constants of this library, which is never unmapped: sections are
//!      not used unless it is marked so ([`is_pinned`](crate::sys::pin::is_pinned)).
//!    - An instruction of the section is executed only after a new announcement, so a stale table never restarts anything.
//!    - A section of another library, or of a signal handler, announces itself over it. A section that a signal interrupts is
//!      given up before the handler runs.
//!    - The child of a fork has a copy of the area, and the library at the same address. `exec` ends the registration, and so does
//!      the end of the thread. A new thread whose area has been that of another one may start with a stale announcement.
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

#[macro_use]
pub mod faults;

// As `SUPPORTED` in `sys::rseq`.
#[cfg_attr(all(target_arch = "x86_64", target_pointer_width = "64"), path = "x86_64.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little"),
    path = "aarch64.rs"
)]
#[cfg_attr(all(target_arch = "riscv64", target_endian = "little"), path = "riscv64.rs")]
#[cfg_attr(
    not(all(
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        target_pointer_width = "64",
        target_endian = "little"
    )),
    path = "portable.rs"
)]
mod arch;
pub mod cpu_number;
mod layout;
pub mod registration;

pub use arch::{add, compare_and_store, pop, pop_batch, push, push_batch, record};
pub use faults::mutant;
pub use layout::{FAILED, NOTHING, Place, Pushed, Row, Tally, WIDTH, boxed};

/// How often a section is tried. Interruptions come milliseconds apart, sections last nanoseconds: a second try is rare, and
/// one that fails this often is stepped through.
const TRIES: usize = 16;

/// The numbers of the tries of a section.
pub fn tries() -> core::ops::Range<usize> {
    0..if mutant("tried-for-ever") { usize::MAX } else { TRIES }
}
