//! Interrupts of the sections of other CPUs, and exclusive access to an area by its stop word. See (6) of [`super::rseq`].

use core::sync::atomic::{AtomicU8, Ordering::*, fence};

use super::owner::{current_owner, died_in_fork};
use super::rseq::CpuArea;
use super::rseq::cpu_number::cpu;
use crate::sync::step;
use crate::sys::{self, Errno};

/// The word of an area that stops sections, unless it is 0.
pub const STOP: usize = 0;

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

/// Interrupts the sections of all CPUs, after a caller has made sure that [`is_available`]. Returns `None` if the kernel
/// denies that now: then it is not available any more.
pub fn interrupt_all() -> Option<()> {
    let result = sys::interrupt_all_sections();
    if result.is_err() {
        AVAILABLE.store(NO, Relaxed);
    }
    // The kernel leaves its own fence out if the process has one thread.
    fence(SeqCst);
    result.ok()
}

/// A CPU's area in which no section commits until this is dropped.
#[derive(Debug)]
pub struct Stopped<'a>(&'a CpuArea);

impl<'a> Stopped<'a> {
    /// Stops the area of `cpu`. The caller holds a lock, so that one thread at a time does so.
    ///
    /// # Errors
    ///
    /// Returns the error of `membarrier` if the kernel denies it now.
    pub fn new(areas: &'a [CpuArea], cpu: usize) -> Result<Self, Errno> {
        let area = &areas[cpu];
        // Relaxed: the system call orders it before the interrupt, and sections that begin after that see it.
        area.plain[STOP].store(current_owner(), Relaxed);
        let stopped = Self(area);
        step!("not-interrupted", sys::interrupt_sections(cpu)?);
        Ok(stopped)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: publishes the changes of the area; pairs with the Acquire of the stop word in sections.
        step!("stop-kept", self.0.plain[STOP].store(0, Release));
    }
}

/// Reopens the area of the current CPU if the thread that stopped it died in a fork. To be called after a section has
/// failed. The areas of other CPUs are reopened when sections fail there.
#[cold]
pub fn reopen(areas: &[CpuArea]) {
    let Some(area) = areas.get(cpu()) else { return };
    let stop = area.plain[STOP].load(Relaxed);
    if died_in_fork(stop) {
        // A thread that stops the area again has another number. Release: as in `drop`.
        let _ = area.plain[STOP].compare_exchange(stop, 0, Release, Relaxed);
    }
}
