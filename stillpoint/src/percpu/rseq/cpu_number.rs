//! The number of the CPU that the calling thread runs on, and its concurrency id.

use core::sync::atomic::Ordering::*;

use super::registration::{self, FAST};
use crate::sys::rseq;

/// Returns the number of the CPU on which the calling thread runs, less than
/// [`Report::cpus`](registration::Report::cpus). The thread may have been migrated before the caller uses the number.
///
/// If the C library registers threads, this reads a word that the kernel keeps up to date. Otherwise it does what
/// `sched_getcpu(3)` does.
#[inline]
pub fn cpu() -> usize {
    // Acquire: sees the offset; pairs with the Release in `publish`.
    let cpus = FAST.cpus.load(Acquire);
    let offset = FAST.offset.load(Relaxed);
    // SAFETY: every thread has an rseq area at the offset, or it is 0.
    let cpu = unsafe { rseq::cpu_id(offset) } as usize;
    // The number of an unregistered thread is negative, so as an unsigned number it exceeds `cpus`.
    if cpu < cpus { cpu } else { cpu_slow() }
}

#[cold]
fn cpu_slow() -> usize {
    registration::registered().map_or_else(rseq::getcpu, |(cpu, _)| cpu)
}

/// Returns the kernel's *concurrency id* (Linux 6.3), which no other running thread of this process has, or `None` if
/// the kernel has none.
///
/// These ids are dense: a process that may use two CPUs of a hundred, or has two threads, has only 0 and 1. Like the
/// CPU number, the id may change at any moment.
///
/// ```
/// use stillpoint::percpu;
///
/// assert_eq!(percpu::concurrency_id().is_some(), percpu::report().has_concurrency_ids());
/// ```
pub fn concurrency_id() -> Option<usize> {
    let (_, offset) = registration::report().has_concurrency_ids().then(registration::registered)??;
    // SAFETY: the thread has a registered rseq area at the offset, in which the kernel writes this field.
    Some(unsafe { rseq::mm_cid(offset) } as usize)
}
