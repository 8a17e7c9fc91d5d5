//! Data that each CPU has for itself, updated without locked instructions.
//!
//! A counter that all CPUs bump is a cache line that travels between them. One word a CPU ends the travel, but a thread may
//! be moved to another CPU between finding its word and changing it, so the change still needs a `lock` instruction. Linux
//! has the answer since 4.18: a *restartable sequence* (`rseq(2)`), a few instructions that the kernel does not resume but
//! starts over if it has interrupted them. The idea is that of the per-CPU critical sections of Paul Turner and Andrew
//! Hunter (2015).
//!
//! | container | what it is |
//! |---|---|
//! | [`Counter`] | a number that is added to often and read seldom, exact |
//! | [`Histogram`] | how often values of each size occurred, exact counts |
//! | [`Pool`] | boxes kept for those who need one next |
//! | [`Ring`] | records of events, which one reader takes |
//! | [`PerCpu`] | any value, one a CPU, for one thread at a time; and for a visitor from elsewhere |
//!
//! [`cpu()`] is the number of the current CPU, without a call.
//!
//! # Where there is no rseq
//!
//! On old kernels, under valgrind, in sandboxes, on other architectures, in a thread that cannot be registered, and where a
//! debugger interrupts every attempt, an operation is done by atomic instructions instead. That may differ from thread to
//! thread and from one moment to the next: words that sections write are never those that atomic instructions write, and
//! readers look at both. The environment variable `STILLPOINT_PERCPU=atomic` (or [`choose`]) does that for the whole
//! process. [`report`] says what was chosen and why.
//!
//! # Trade-offs
//!
//! - Memory is proportional to the CPUs that the machine may ever have, which can be more than it has.
//! - The critical sections for aarch64 and riscv64 have never been run.
//! - Where `/sys` is hidden or not the kernel's own, as in some containers, the number of CPUs is taken from the size of the kernel's
//!   CPU masks, and so is a multiple of 64.
//! - A process that is saved on one machine may be restored only on another one with no more possible CPUs.
//! - Reads visit every CPU's word: some nanoseconds for each. A read is no snapshot of a moment.
//! - The C library registers threads if it is glibc 2.35 or later. With others each thread is registered here by its first
//!   operation, which allocates, and every operation is a few nanoseconds slower.
//! - Operations may be used in signal handlers, except for those that allocate: the first one of the process ([`report`] does
//!   the same), the first one on a counter or histogram (see [`Counter::prepare`]), the first one of a thread that must be registered
//!   ([`register_thread`]), and [`PerCpu::with`], which may make a value.
//! - In a library that is loaded at run time (`dlopen`), the C library allocates thread-local variables when a thread first touches
//!   them. There a thread's first operation on a container, and its first that takes a slow path, may allocate, so neither is for a
//!   signal handler.
//! - A thread that is preempted in a section starts it over, which costs nanoseconds; one that is stepped through by a
//!   debugger uses the fallback.
//! - Not for the child of a `vfork`, which has the memory of its parent but is not registered; only calls of `exec` and
//!   `_exit` are allowed there anyway. The child of a `fork` works.

mod awaited;
mod cell;
mod counter;
pub(crate) mod counters;
mod histogram;
mod overflow;
mod owner;
mod pool;
mod remote;
mod ring;
mod rseq;
mod used;

pub use cell::PerCpu;
pub use counter::Counter;
pub use histogram::{Histogram, Snapshot};
pub use pool::Pool;
pub use ring::{Event, Reader, Ring, WhenFull};
pub use rseq::cpu_number::{concurrency_id, cpu};
#[cfg(stillpoint_faults)]
pub use rseq::faults;
pub use rseq::registration::{AlreadyChosen, Mode, Report, choose, register_thread, report};
