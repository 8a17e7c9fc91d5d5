//! The number of the CPU that the calling thread runs on, and its concurrency id.

use core::sync::atomic::Ordering::*;

use super::registration::{self, FAST};
use crate::sys::rseq;

/// The number of the CPU that the calling thread runs on: less than [`Report::cpus`](registration::Report::cpus) where the kernel tells that number. By
/// the time the caller looks at it, the thread may be on another one.
///
/// Where the C library registers threads, this reads a word that the kernel keeps up to date; otherwise it asks, as
/// `sched_getcpu(3)` does.
#[inline]
pub fn cpu() -> usize {
    // Acquire: the offset is there; partner: the Release in `choose_slow`.
    let cpus = FAST.cpus.load(Acquire);
    let offset = FAST.offset.load(Relaxed);
    // SAFETY: every thread has an area at the offset, or it is 0.
    let cpu = unsafe { rseq::cpu_id(offset) } as usize;
    // The number of a thread that is not registered is negative, and none is less than 0.
    if cpu < cpus { cpu } else { cpu_slow() }
}

#[cold]
fn cpu_slow() -> usize {
    if registration::report().library_offset() == 0
        && let Some(offset) = registration::offset()
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
    let offset = registration::report().has_concurrency_ids().then(registration::offset)??;
    // SAFETY: the thread has an area at the offset, in which the kernel writes this field.
    unsafe { (rseq::cpu_id(offset).cast_signed() >= 0).then(|| rseq::mm_cid(offset) as usize) }
}
