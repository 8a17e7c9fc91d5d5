//! Exclusive access to the area of another CPU: the stop word, and the interrupt that enforces it. See (6) of [`super::rseq`].

use core::sync::atomic::{AtomicU8, Ordering::*};

use rustix::io::Errno;

use super::owner::{current_owner, died_in_fork};
use super::rseq::CpuArea;
use super::rseq::cpu_number::cpu;
use crate::sync::step;
use crate::sys::{self, MembarrierCommand, MembarrierQuery};

/// The word of an area that stops sections, unless it is 0.
pub const STOP: usize = 0;

/// [`YES`], [`NO`], or 0 before the first try.
static AVAILABLE: AtomicU8 = AtomicU8::new(0);
const YES: u8 = 1;
const NO: u8 = 2;

/// Returns `true` if sections of other CPUs can be interrupted (`membarrier(PRIVATE_EXPEDITED_RSEQ)` for a CPU, Linux 5.10). The first
/// call registers the process, which takes milliseconds if there are several threads. *Any* failure means no, and so does a kernel
/// that may switch to a section that does not see the stop.
pub fn is_available() -> bool {
    // Relaxed: concurrent callers find the same.
    if AVAILABLE.load(Relaxed) == 0 {
        let works = sys::has_barrier_in_switch()
            && sys::membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED_RSEQ)
            && sys::membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
            && sys::membarrier_rseq(0).is_ok();
        AVAILABLE.store(if works { YES } else { NO }, Relaxed);
    }
    AVAILABLE.load(Relaxed) == YES
}

/// A CPU's area in which no section commits until this is dropped.
#[derive(Debug)]
pub struct Stopped<'a>(&'a CpuArea);

impl<'a> Stopped<'a> {
    /// Stops the area of `cpu`. The caller holds a lock under which one thread at a time does so.
    ///
    /// # Errors
    ///
    /// That of `membarrier`, if it was available and is denied now.
    pub fn new(areas: &'a [CpuArea], cpu: usize) -> Result<Self, Errno> {
        let area = &areas[cpu];
        // Relaxed: the system call orders it before the interrupt, and sections that begin after that see it.
        area.plain[STOP].store(current_owner(), Relaxed);
        let stopped = Self(area);
        step!("not-interrupted", sys::membarrier_rseq(cpu)?);
        Ok(stopped)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: publishes the changes of the area; pairs with the Acquire of the stop word in sections.
        step!("stop-kept", self.0.plain[STOP].store(0, Release));
    }
}

/// Reopens the area of the current CPU if the thread that stopped it died in a fork. Callers of a section that failed call this; the
/// areas of other CPUs are reopened when sections fail there.
#[cold]
pub fn reopen(areas: &[CpuArea]) {
    let Some(area) = areas.get(cpu()) else { return };
    count_look();
    let stop = area.plain[STOP].load(Relaxed);
    if died_in_fork(stop) {
        // A thread that stops the area anew has another number. Release: as in `drop`.
        let _ = area.plain[STOP].compare_exchange(stop, 0, Release, Relaxed);
    }
}

/// For tests: counts accesses to areas that may be those of other CPUs.
#[inline(always)]
pub fn count_look() {
    #[cfg(test)]
    tests::LOOKS.set(tests::LOOKS.get() + 1);
}

#[cfg(test)]
pub mod tests {
    use core::cell::Cell;

    thread_local! {
        pub static LOOKS: Cell<usize> = const { Cell::new(0) };
    }
}
