//! Interrupts of the sections of other CPUs, and exclusive access to a stack by its stop word. See (6) of
//! [`super::rseq`].

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*, fence};

use super::owner::{current_owner, died_in_fork};
use crate::sync::step;
use crate::sys;

/// [`YES`], [`NO`], or 0 before the first try.
static AVAILABLE: AtomicU8 = AtomicU8::new(0);
const YES: u8 = 1;
const NO: u8 = 2;

/// Returns `true` if sections of other CPUs can be interrupted ([`sys::can_interrupt_sections`]).
pub fn is_available() -> bool {
    // Relaxed: concurrent callers store the same.
    if AVAILABLE.load(Relaxed) == 0 {
        let works = sys::can_interrupt_sections();
        AVAILABLE.store(if works { YES } else { NO }, Relaxed);
    }
    AVAILABLE.load(Relaxed) == YES
}

/// Interrupts the sections of all CPUs, after a caller has made sure that [`is_available`]. Returns `None` if the
/// kernel denies that now: then it is not available any more.
pub fn interrupt_all() -> Option<()> {
    let result = sys::interrupt_all_sections();
    if result.is_none() {
        AVAILABLE.store(NO, Relaxed);
    }
    // The kernel leaves its own fence out if the process has one thread.
    fence(SeqCst);
    result
}

/// A CPU's stack in which no section commits until this is dropped.
#[derive(Debug)]
pub struct Stopped<'a>(&'a AtomicU64);

impl<'a> Stopped<'a> {
    /// Stops the stack of `cpu` by its word `stop`. The caller holds a lock, so that one thread at a time does so.
    /// Returns `None` if the kernel denies the interrupt now.
    pub fn new(stop: &'a AtomicU64, cpu: usize) -> Option<Self> {
        // Relaxed: the system call orders it before the interrupt, and sections that begin after that see it.
        stop.store(current_owner(), Relaxed);
        let stopped = Self(stop);
        step!("not-interrupted", sys::interrupt_sections(cpu)?);
        Some(stopped)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: publishes the changes of the stack; pairs with the Acquire of the stop word in sections.
        step!("stop-kept", self.0.store(0, Release));
    }
}

/// Reopens a stack, by its word `stop`, if the thread that stopped it died in a fork. To be called for that of the
/// current CPU after a section has failed. Those of other CPUs are reopened when sections fail there.
#[cold]
pub fn reopen(stop: &AtomicU64) {
    let owner = stop.load(Relaxed);
    if died_in_fork(owner) {
        // A thread that stops it again has another number. Release: as in `drop`.
        let _ = stop.compare_exchange(owner, 0, Release, Relaxed);
    }
}
