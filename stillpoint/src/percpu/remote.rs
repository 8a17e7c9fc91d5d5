//! A row of another CPU, for oneself: the stop word, and the interrupt that makes it work. See (6) of [`super::section`].

use core::sync::atomic::{AtomicU8, Ordering::*};

use rustix::io::Errno;

use super::holder::{is_gone, me};
use super::rows::Row;
use crate::sync::step;
use crate::sys::{self, MembarrierCommand, MembarrierQuery};

/// The word of a row that stops sections, unless it is 0.
pub const STOP: usize = 0;

/// 0: not tried yet.
static AVAILABLE: AtomicU8 = AtomicU8::new(0);
const YES: u8 = 1;
const NO: u8 = 2;

/// Whether sections of other CPUs can be interrupted (`membarrier(PRIVATE_EXPEDITED_RSEQ)` for a CPU, Linux 5.10). Asked for
/// the first time it registers the process, which takes milliseconds if there are several threads. *Any* failure means no, and so
/// does a kernel that may switch to a section which does not see the stop.
pub fn is_available() -> bool {
    // Relaxed: whoever asks at the same time finds the same.
    if AVAILABLE.load(Relaxed) == 0 {
        let works = sys::has_barrier_in_switch()
            && sys::membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED_RSEQ)
            && sys::membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
            && sys::membarrier_rseq(0).is_ok();
        AVAILABLE.store(if works { YES } else { NO }, Relaxed);
    }
    AVAILABLE.load(Relaxed) == YES
}

/// A row without sections in it, until this is dropped.
#[derive(Debug)]
pub struct Stopped<'a>(&'a Row);

impl<'a> Stopped<'a> {
    /// Stops the row of `cpu`. One thread at a time may do that: the caller has a lock.
    ///
    /// # Errors
    ///
    /// That of `membarrier`, if it is denied now though it was available.
    pub fn new(rows: &'a [Row], cpu: usize) -> Result<Self, Errno> {
        let row = &rows[cpu];
        // Relaxed: the system call orders it before its interrupt, and sections that begin after that see it.
        row.plain[STOP].store(me(), Relaxed);
        let stopped = Self(row);
        step!("not-interrupted", sys::membarrier_rseq(cpu)?);
        Ok(stopped)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: what was done to the row; partners are the sections, which acquire this word.
        step!("stop-kept", self.0.plain[STOP].store(0, Release));
    }
}

/// Opens the row of the current CPU if a thread that a fork left behind has stopped it. For the caller of a section that
/// failed: rows of other CPUs are opened by sections that fail there.
#[cold]
pub fn reopen(rows: &[Row]) {
    let Some(row) = rows.get(super::cpu()) else { return };
    looks();
    let stop = row.plain[STOP].load(Relaxed);
    if is_gone(stop) {
        // Only sections look at it, and a thread that stops the row anew has another number. Release: as in `drop`.
        let _ = row.plain[STOP].compare_exchange(stop, 0, Release, Relaxed);
    }
}

/// For tests: the calling thread looks at what may be another CPU's.
#[inline(always)]
pub fn looks() {
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
