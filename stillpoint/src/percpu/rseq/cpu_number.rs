//! The number of the CPU that the calling thread runs on.

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
