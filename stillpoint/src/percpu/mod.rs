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

use core::fmt;
use core::sync::atomic::Ordering::*;

use crate::sys::rseq;

#[cfg(not(stillpoint_faults))]
#[macro_use]
mod faults;
#[cfg(stillpoint_faults)]
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
mod cell;
mod counter;
mod histogram;
mod holder;
mod owner_event;
mod pool;
mod remote;
mod ring;
pub(crate) mod rows;
mod runtime;
mod section;
mod shelf;
mod used;

pub use cell::PerCpu;
pub use counter::Counter;
pub use histogram::{Histogram, Snapshot};
pub use pool::Pool;
pub use ring::{Event, Reader, Ring, WhenFull};
pub use runtime::{Mode, Report};

/// Chooses how per-CPU data is updated, if that has not been done, and says what was chosen.
///
/// ```
/// use stillpoint::percpu;
///
/// println!("{}", percpu::report()); // rseq: the C library registers each thread
/// assert!(percpu::cpu() < percpu::report().cpus());
/// ```
pub fn report() -> &'static Report {
    runtime::report()
}

/// Chooses `mode`, or, where it cannot be had, [`Mode::Atomic`]. The environment is not asked.
///
/// # Errors
///
/// The mode is never changed: if another one has been chosen before, the error says which and why.
///
/// ```
/// use stillpoint::percpu::{self, Mode};
///
/// let report = percpu::choose(Mode::Atomic).expect("nothing per-CPU was used before");
/// assert_eq!(report.mode(), Mode::Atomic);
/// assert!(percpu::choose(Mode::Rseq).is_err());
/// ```
pub fn choose(mode: Mode) -> Result<&'static Report, AlreadyChosen> {
    let (report, ours) = runtime::choose_slow(|| mode.into());
    if ours || report.mode() == mode { Ok(report) } else { Err(AlreadyChosen(report)) }
}

/// [`choose`] came too late: another mode is in use.
#[derive(Debug, Clone, Copy)]
pub struct AlreadyChosen(&'static Report);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the per-CPU mode has been chosen already ({}); choose it before the first use", self.0)
    }
}

impl std::error::Error for AlreadyChosen {}

/// Makes sure that the calling thread can run critical sections, until it ends. True if it can.
///
/// Nobody need call it: the first operation of a thread does the same.
pub fn register_thread() -> bool {
    // SAFETY: the thread has an area at the offset.
    runtime::offset().is_some_and(|offset| unsafe { rseq::cpu_id(offset) }.cast_signed() >= 0)
}

/// The number of the CPU that the calling thread runs on: less than [`Report::cpus`] where the kernel tells that number. By
/// the time the caller looks at it, the thread may be on another one.
///
/// Where the C library registers threads, this reads a word that the kernel keeps up to date; otherwise it asks, as
/// `sched_getcpu(3)` does.
#[inline]
pub fn cpu() -> usize {
    // Acquire: the offset is there; partner: the Release in `choose_slow`.
    let cpus = runtime::FAST.cpus.load(Acquire);
    let offset = runtime::FAST.offset.load(Relaxed);
    // SAFETY: every thread has an area at the offset, or it is 0.
    let cpu = unsafe { rseq::cpu_id(offset) } as usize;
    // The number of a thread that is not registered is negative, and none is less than 0.
    if cpu < cpus { cpu } else { cpu_slow() }
}

#[cold]
fn cpu_slow() -> usize {
    if runtime::report().library_offset() == 0
        && let Some(offset) = runtime::offset()
    {
        // SAFETY: the thread has an area at the offset.
        let cpu = unsafe { rseq::cpu_id(offset) };
        if cpu.cast_signed() >= 0 {
            return cpu as usize;
        }
    }
    rseq::getcpu()
}

/// A number that no other thread of this process has while the calling thread runs: the kernel's *concurrency id* (Linux
/// 6.3). Nothing where there is none.
///
/// They are dense: a process that may use two CPUs of a hundred, or has two threads, has only 0 and 1. Like the CPU number it
/// may change at any moment.
///
/// ```
/// use stillpoint::percpu;
///
/// assert_eq!(percpu::concurrency_id().is_some(), percpu::report().has_concurrency_ids());
/// ```
pub fn concurrency_id() -> Option<usize> {
    let offset = runtime::report().has_concurrency_ids().then(runtime::offset)??;
    // SAFETY: the thread has an area at the offset, in which the kernel writes this field.
    unsafe { (rseq::cpu_id(offset).cast_signed() >= 0).then(|| rseq::mm_cid(offset) as usize) }
}
