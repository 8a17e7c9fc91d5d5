//! Rseq critical sections. `sections.rs` says what each does; the instructions are in one file an architecture
//! (`x86_64.rs`, `aarch64.rs`, `riscv64.rs`).
//!
//! An rseq critical section is one `asm!` block. It stores the address of its descriptor in `rseq_cs`, which arms it,
//! reads the CPU number, works in the area of that CPU, and commits with one store. If the kernel preempts or
//! migrates the thread, or delivers a signal, before the commit, it resumes the thread at the section's abort
//! handler, and nothing has happened. The scheme comes from the per-CPU critical sections of Paul Turner and Andrew
//! Hunter (2015) and of `rseq(2)`.
//!
//! # Invariants
//!
//! 1. *No other thread of the CPU interleaves.* From arming to commit, the thread runs alone on its CPU, or it is
//!    interrupted and does not commit. The section reads the CPU number after arming, because an earlier number may
//!    be the area of another CPU.
//! 2. *Only registered threads commit.* The CPU number of an unregistered thread is negative, and its sections fail.
//!    Every other number has an area: there is one for each possible CPU
//!    ([`possible_cpus`](crate::sys::rseq::possible_cpus)), a constant of the machine that the kernel reports.
//!    A section fails if the number is not below the limit of its object. It compares unsigned numbers, so a negative
//!    one is above every limit, also where it compares only the lower half of the 32 bits ([`Place`]).
//! 3. *Only sections of a CPU write the words of its area.* Threads that cannot run sections use other words. A plain
//!    update and an atomic one of the same word could lose each other.
//! 4. *There is nothing to undo.* Before its commit a section writes only registers, and memory that is not read
//!    unless it commits.
//! 5. *Sections end.* They have no loop, no call and no system call. An operation tries its section at most
//!    [`TRIES`] times, because a debugger that single-steps interrupts every attempt, and then uses the fallback.
//! 6. *A stopped area has one user.* Sections that take or give something read the area's stop word, and fail if it
//!    is set. A thread that sets the word and then interrupts the sections of that CPU ([`super::remote`]) has the
//!    area to itself: sections that began earlier have committed, or start over and see the stop.
//! 7. *A stale `rseq_cs` is harmless.* A section does not clear `rseq_cs`. The kernel clears it when it next preempts
//!    the thread, or delivers a signal, outside of that section. Until then it points to the descriptor of a section
//!    that is over:
//!    - Descriptor, section and abort handler are constants of this library, which is never unmapped: sections are
//!      used only if [`is_pinned`](crate::sys::pin::is_pinned).
//!    - A thread reaches the instructions of a section only by arming it again, so a stale descriptor never restarts
//!      anything.
//!    - A section of a signal handler, or of another library, overwrites `rseq_cs`. Before a handler runs, the kernel
//!      aborts the section that the signal interrupted.
//!    - The child of a fork has a copy of the thread's rseq area, and this library at the same address. `exec` and
//!      the end of the thread end the registration. A new thread may start with the `rseq_cs` that an earlier thread
//!      left in the same memory.
//!
//! # Words
//!
//! An object of [`super::memory`] has some words on each CPU. The stack of a pool ([`push`], [`pop`]) has the stop
//! word first, then the length, by which its sections commit, then the slots. Other objects have no stop word:
//! [`add`] and [`add_at`] add to any word, and commit by the store to it. [`add_open`] does the same unless its gate
//! is shut, a word that it reads after arming, before it looks for the other one. So a thread that shuts the gate and
//! then interrupts the sections of all CPUs has a word that no section changes or reads any more, for the reason of
//! (6).
//!
//! # Orderings
//!
//! The commit is a Release: an Acquire load that finds it also sees what the thread did before, and what earlier
//! sections on this CPU committed. On x86-64 every store is one; elsewhere the section uses a releasing store or a
//! fence. Threads that commit on one CPU one after another are ordered by that CPU, and by the kernel's fences in
//! context switches. Sections acquire the stop word, which threads on other CPUs write.

#[cfg(stillpoint_faults)]
#[macro_use]
pub mod faults;
#[cfg(not(any(stillpoint_portable, miri)))]
#[macro_use]
mod sections;

// As `SUPPORTED` in `sys::rseq`.
#[cfg_attr(all(target_arch = "x86_64", not(any(stillpoint_portable, miri))), path = "x86_64.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_endian = "little", not(any(stillpoint_portable, miri))),
    path = "aarch64.rs"
)]
#[cfg_attr(all(target_arch = "riscv64", not(any(stillpoint_portable, miri))), path = "riscv64.rs")]
#[cfg_attr(
    any(
        stillpoint_portable,
        miri,
        not(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little"),
            target_arch = "riscv64"
        ))
    ),
    path = "portable.rs"
)]
mod arch;
pub mod cpu_number;
#[cfg_attr(stillpoint_portable, allow(dead_code, reason = "there are no critical sections"))]
mod layout;
pub mod registration;
#[cfg(all(test, not(stillpoint_portable)))]
mod tests;

pub use arch::{add, add_at, add_open, pop, push};
pub use layout::{FAILED, MOST_CPUS, NOTHING, Place, Pushed, STRIDE, boxed, zeroed};

/// How often an operation tries its section. Interrupts are milliseconds apart and sections take nanoseconds, so a
/// second attempt is rare.
const TRIES: usize = 16;

/// The attempts at a section.
pub fn tries() -> core::ops::Range<usize> {
    0..TRIES
}
